"""`kubeskew ui` in a browser, over a cluster of real processes: looking back, and buttons."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from commands import kubeskew

pytestmark = [pytest.mark.people, pytest.mark.cluster, pytest.mark.timeout(300)]

WAIT = 60_000  # milliseconds, for machines that are busy


def shown(tab: Any, address: str) -> Any:
    """The tab with the cluster's page, as its link opens it."""
    tab.set_default_timeout(WAIT)
    tab.goto("about:blank")
    tab.goto(address)
    tab.wait_for_selector("#cluster:visible")
    tab.wait_for_selector(".lane")
    return tab


def revision(tab: Any) -> int:
    return int(tab.locator("#revision").input_value())


def component(state: Path, name: str) -> dict[str, Any]:
    rows = json.loads(kubeskew(state, "status", "-o", "json").stdout)["components"]
    return next(row for row in rows if row["component"] == name)


def test_without_the_token_nothing_is_shown(tab: Any, address: str):
    """A page opened without the token says in a line what to do; the token typed in opens it."""
    plain, token = address.split("#token=")
    tab.set_default_timeout(WAIT)
    tab.goto(plain)
    tab.wait_for_selector("#problem:visible")
    assert "this needs the administrator's token" in tab.locator("#problem").inner_text()
    assert tab.locator("#cluster").is_hidden()
    tab.fill("#token", token)
    tab.click("#login button")
    tab.wait_for_selector("#cluster:visible")
    assert token not in tab.url


def test_the_link_brings_the_token_and_hides_it(tab: Any, address: str):
    """The link that the command prints shows the cluster at once, and the token leaves the address."""
    shown(tab, address)
    assert tab.url == address.partition("#")[0]
    assert tab.locator("#login").is_hidden()


def test_nodes_and_devices_are_a_picture(tab: Any, address: str):
    """The node has its devices, both free."""
    shown(tab, address)
    picture = tab.locator("#picture .node").first
    assert "gpu-node" in picture.inner_text()
    assert picture.locator(".held b").all_inner_texts() == ["gpu-0", "gpu-1"]
    assert picture.locator(".free", has_text="free").count() == 2


def test_any_moment_can_be_looked_at(tab: Any, address: str):
    """The slider goes back to an object's first write; what the next ones change is highlighted."""
    shown(tab, address)
    tab.fill("#words", "nodes gpu-node")
    tab.select_option("#objects", index=0)
    tab.wait_for_selector("#object h3:has-text('nodes gpu-node')")
    [newest] = re.findall(r"Write (\d+) of", tab.locator("#object").inner_text())
    for number in reversed(range(1, int(newest))):
        tab.click("#object button:has-text('write before')")
        tab.wait_for_selector(f"#object p:has-text('Write {number} of')")
    first = revision(tab)
    text = tab.locator("#object").inner_text()
    assert re.search(r"Write 1 of \d+: create at revision \d+ by kubelet/gpu-node 1.35", text)
    assert "through API server 1.35" in text
    tab.click("#object button:has-text('write after')")
    tab.wait_for_selector("#object .lines .new")
    assert revision(tab) > first
    assert not tab.locator("#live").is_checked()
    tab.fill("#slider", "2")
    tab.wait_for_selector("#picture:has-text('no nodes then')")
    assert revision(tab) == 2


def test_the_page_is_live(tab: Any, address: str, state: Path):
    """A change that a command makes shows without a reload: a component with another gate."""
    shown(tab, address)
    kubeskew(state, "gates", "DRAExtendedResource=true", "--component", "scheduler")
    tab.wait_for_selector("#lanes li:has-text('DRAExtendedResource=true')")


def test_buttons_change_the_cluster(tab: Any, address: str, state: Path):
    """Kill, restart, upgrade and gates act on the processes; a refusal is reported in the command's words."""
    shown(tab, address)

    def press(action: str) -> str:
        tab.click(f"[data-action={action}]")
        tab.wait_for_selector("#notice:not(:has-text('under way'))")
        return str(tab.locator("#notice").inner_text())

    tab.select_option("#component", "scheduler")
    assert "scheduler killed" in press("kill")
    assert component(state, "scheduler")["state"] == "Killed"
    assert "scheduler restarted" in press("restart")
    tab.select_option("#to", "1.36")
    tab.select_option("#moved", "scheduler")
    assert "✗" in press("upgrade")  # newer than the API server
    tab.select_option("#moved", "apiserver")
    assert "apiserver at 1.36" in press("upgrade")
    assert component(state, "apiserver")["version"] == "1.36"
    tab.wait_for_selector("#lanes li:has-text('1.36')")


def test_a_fork_is_made_from_the_moment_shown(tab: Any, address: str, state: Path):
    """The button branches the cluster off at the slider's revision; the message says how it is started."""
    shown(tab, address)
    tab.uncheck("#live")
    tab.fill("#directory", str(state.parent / "forked"))
    at = revision(tab)
    tab.click("[data-action=fork]")
    tab.wait_for_selector("#notice:has-text('forked at revision')")
    assert f"forked at revision {at};" in tab.locator("#notice").inner_text()
    assert (state.parent / "forked" / "state.json").exists()
    kubeskew(state.parent / "forked", "down", "--purge")


def test_nobody_else_may_listen_on_the_port(state: Path, address: str):
    """A port that is taken is reported in one line."""
    port = re.findall(r":(\d+)/", address)[0]
    with pytest.raises(subprocess.CalledProcessError) as refused:
        kubeskew(state, "ui", "--port", port)
    assert refused.value.returncode == 1
    assert "choose another --port" in refused.value.stderr
    assert len(refused.value.stderr.splitlines()) == 1
