"""Tests faults on real processes: set by the command line, carried out over HTTPS, reported by the log."""

import json
import urllib.request
from collections.abc import Iterator

import pytest
from asking import CONFIG_MAPS, Local, config_map, eventually

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("faults")]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """A cluster with two nodes in one kubelet process."""
    found = Local(tmp_path_factory.mktemp("faults") / "state")
    try:
        found.run("up", "--nodes", "2")
        yield found
    finally:
        found.run("down", "--purge")


def listed(local: Local) -> dict[str, dict[str, object]]:
    """Returns the faults by id."""
    return {row["id"]: row for row in json.loads(local.run("fault", "list", "-o", "json").stdout)}


def fault_events(local: Local, component: str, since: int = 0) -> list[tuple[str, str]]:
    """Returns what the log says of the faults of a component: what happened, and to what."""
    rows = json.loads(local.run("events", "--since", str(since), "-o", "json").stdout)
    return [
        (row["verb"], row["by"].partition(": ")[2])
        for row in rows
        if row["object"] == f"component {component}" and (": " in row["by"])
    ]


def test_wrong_usage_is_reported(local: Local):
    """Typos are refused in one line with a hint, before anything is changed."""
    assert "did you mean scheduler?" in local.refused("fault", "schedular", "--answer", "409")
    assert "there is no component kubelet/node-9" in local.refused(
        "fault", "kubelet/node-9", "--answer", "409"
    )
    assert "no resource pod; did you mean pods?" in local.refused(
        "fault", "scheduler", "--resource", "pod", "--answer", "409"
    )
    assert "there is no fault x; there are none" in local.refused("fault", "clear", "x")
    assert listed(local) == {}


def test_a_fault_holds_over_a_restart(local: Local):
    """The counters of a fault go on in the next process; what it missed until then is reported meanwhile."""
    arguments = (
        "fault",
        "scheduler",
        "--verb",
        "list",
        "--resource",
        "nodes",
        "--answer",
        "500",
        "--nth",
        "2",
    )
    assert local.run(*arguments, "--id", "second").stdout == "second\n"
    local.run("restart", "scheduler")
    missing = local.run("fault", "await", "second", "--timeout", "0s", code=1).stderr
    assert (
        "fault second never fired (scheduler: list nodes, call 2: answered 500); it selected 1 call"
        in missing
    )
    assert "1 list nodes" in missing

    local.run("restart", "scheduler")
    assert listed(local)["second"] == {
        "id": "second",
        "component": "scheduler",
        "fault": "list nodes, call 2: answered 500",
        "fired": 1,
        "calls": 3,
        "state": "fired",
    }
    local.run("fault", "clear", "second")
    assert listed(local) == {}
    assert fault_events(local, "scheduler") == [
        ("fault-set", "second: scheduler: list nodes, call 2: answered 500"),
        ("fault-fired", "second: answered 500: list nodes (call 2)"),
        ("fault-cleared", "second: fired 1 times in 3 calls"),
    ]


def test_an_outage_of_the_api_server(local: Local):
    """The API server's port is closed in an outage, and opens again when the fault is cleared, which is
    reported while nobody can ask the server.
    """
    local.run("fault", "apiserver", "--outage", "1h", "--id", "away")
    with pytest.raises(ConnectionRefusedError):
        local.ask("GET", "/version")
    local.run("fault", "clear", "away")
    eventually(lambda: reachable(local))

    assert [what for what, detail in fault_events(local, "apiserver") if detail.startswith("away: ")] == [
        "fault-set",
        "fault-fired",
        "fault-cleared",
    ]


def test_an_outage_ends_when_it_has_lasted(local: Local):
    """The API server's port opens again by itself."""
    local.run("fault", "apiserver", "--outage", "300ms", "--id", "short")
    eventually(lambda: reachable(local))
    local.run("fault", "clear", "short")
    assert "fault-fired" in [what for what, detail in fault_events(local, "apiserver") if "short: " in detail]


def reachable(local: Local) -> bool:
    try:
        return local.ask("GET", "/version")[0] == 200
    except OSError:
        return False


def test_the_api_server_dies_after_a_commit(local: Local):
    """An API server that dies after a commit sends no answer, but serves the object after its restart."""
    local.run(
        "fault", "apiserver", "--resource", "configmaps", "--name", "kept", "--crash", "after", "--id", "dead"
    )
    with pytest.raises((OSError, ConnectionError)) as caught:
        local.ask("POST", CONFIG_MAPS, config_map("kept"))
    assert "refused" not in str(caught.value)
    local.run("fault", "await", "dead")
    assert local.states()["apiserver"] == "Ended"

    local.run("restart", "apiserver")
    assert local.ask("GET", f"{CONFIG_MAPS}/kept")[0] == 200
    local.run("fault", "clear", "all")
    local.run("replay")
    assert ("crashed", "dead: crash after: commit: create configmaps default/kept (call 1)") in fault_events(
        local, "apiserver"
    )


@pytest.mark.slow
def test_a_node_crashes_in_a_process_with_others(local: Local):
    """The node's agent ends at its write, the other node of the process goes on; a restart brings it back."""
    before = local.components()
    local.run(
        *("fault", "kubelet/node-1", "--verb", "patch", "--resource", "pods/status", "--crash", "before"),
        *("--id", "fallen"),
    )
    spec = {"nodeName": "node-1", "containers": [{"name": "c", "image": "busybox"}]}
    local.create("/api/v1/namespaces/default/pods", {"metadata": {"name": "last"}, "spec": spec})
    local.run("fault", "await", "fallen", "--timeout", "20s")
    process = next(p for p in local.record()["processes"] if p["kind"] == "kubelet")
    with urllib.request.urlopen(f"http://127.0.0.1:{process['port']}/nodes") as answer:
        states = json.load(answer)
    assert (states["node-1"].get("crashed"), states["node-2"]["ready"]) == (True, True)
    assert local.components()["kubelet/node-2"]["pid"] == before["kubelet/node-2"]["pid"]

    local.run("fault", "clear", "fallen")
    local.run("restart", "kubelet/node-1")
    assert local.states()["kubelet/node-1"] == "Ready"
    assert [what for what, _ in fault_events(local, "kubelet/node-1")] == [
        "fault-set",
        "fault-fired",
        "crashed",
        "fault-cleared",
    ]
