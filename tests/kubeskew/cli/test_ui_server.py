"""The server behind `kubeskew ui`: who may ask, what it answers, and what the buttons do."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from click.testing import CliRunner

from kubeskew.apimachinery.clock import SystemClock
from kubeskew.apimachinery.versions import Version
from kubeskew.cli.commands.options import parse_gate_changes
from kubeskew.cli.commands.ui import ui
from kubeskew.cli.ui.actions import Actions
from kubeskew.cli.ui.log_recorder import Recording
from kubeskew.cli.ui.server import Site, application, page, script
from kubeskew.cluster.failures import ClusterError, UserError
from kubeskew.cluster.state import Process, State, StateDir
from kubeskew.conformance.evidence.log import ComponentChange, Write
from kubeskew.conformance.evidence.nodes import DriverCall, NodeRecords

TOKEN = {"Authorization": "Bearer secret"}


def at(revision: int) -> str:
    return f"2026-01-01T00:00:{revision:02}.000000Z"


def write(revision: int, verb: str, color: str, name: str = "w") -> Write:
    value = {
        "kind": "Widget",
        "metadata": {"name": name, "uid": name, "managedFields": [revision]},
        "spec": {"color": color},
    }
    return Write(
        *(revision, at(revision), verb, "widgets.example.com", "", name, "kubectl 1.36", value),
        server="1.35",
        user="kubernetes-admin",
    )


class FakeCluster:
    """Notes what is asked of it; refuses to kill."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def move(self, to: Version, names: list[str], *, downgrade: bool, force: bool) -> None:
        self.asked.append(("move", str(to), names, downgrade, force))

    async def set_gates(self, gates: dict[str, bool | None], names: list[str]) -> None:
        self.asked.append(("gates", gates, names))

    async def kill(self, name: str) -> None:
        raise ClusterError(f"another command is changing the cluster: {name}")

    async def restart(self, name: str) -> None:
        raise UserError(f"there is no component {name}")


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
async def client(tmp_path: Path, cluster: FakeCluster) -> AsyncIterator[TestClient[Any, Any]]:
    """A client of a server whose log has three writes of an object, and a start."""
    recording = Recording(lambda: f"sqlite:///{tmp_path}/none.db", SystemClock())
    recording.add(ComponentChange(1, at(1), "scheduler", "started", "1.35", "A=true"))
    for entry in (write(2, "create", "red"), write(3, "update", "blue"), write(5, "delete", "blue")):
        recording.add(entry)

    def for_progress(progress: Callable[[str], None]) -> Any:
        progress("it goes")
        return cluster

    site = Site(
        recording,
        lambda: NodeRecords([DriverCall(at(4), "n", "d", "NodePrepareResources", "ns", "c", "u")]),
        lambda: [{"name": "scheduler", "version": "1.35", "runs": True}],
        ["1.35", "1.36"],
        Actions(for_progress, parse_gate_changes),
        "secret",
        "state/admin.token",
        page("state"),
        script(),
    )
    async with TestClient(TestServer(application(site))) as client:
        yield client


async def get(client: TestClient[Any, Any], path: str) -> Any:
    answer = await client.get(path, headers=TOKEN)
    assert answer.status == 200, await answer.text()
    return await answer.json()


async def test_only_the_page_needs_no_token(client: TestClient[Any, Any]):
    """Without the administrator's token, or with another, an answer is one line that says what to do."""
    assert (await client.get("/")).status == 200
    for headers in ({}, {"Authorization": "Bearer other"}, {"Cookie": "token=secret"}):
        answer = await client.get("/api/timeline", headers=headers)
        message = (await answer.json())["error"]
        assert (answer.status, len(message.splitlines())) == (401, 1)
        assert "needs the administrator's token" in message
        assert "state/admin.token" in message


async def test_no_other_site_can_ask(client: TestClient[Any, Any], cluster: FakeCluster):
    """A name of somebody else's that points here is refused, and so is a form of another page."""
    answer = await client.get("/", headers={"Host": "evil.example:80"})
    assert answer.status == 403

    answer = await client.post("/api/actions/upgrade", data={"to": "1.36"})
    assert answer.status == 401
    assert cluster.asked == []


async def test_the_page_runs_its_own_script_alone(client: TestClient[Any, Any]):
    """The policy names the one script by its hash, and nothing is loaded from elsewhere."""
    answer = await client.get("/")
    policy, text = answer.headers["Content-Security-Policy"], await answer.text()

    assert "default-src 'none'" in policy
    assert "script-src 'sha256-" in policy
    assert "secret" not in text
    assert text.count("<script>") == 1
    assert "src=" not in text.replace("'src", "")


async def test_the_whole_is_what_a_report_has_of_a_cell(client: TestClient[Any, Any]):
    """Components, lives of objects and calls of drivers come in the shape that the report's drawing takes."""
    found = await get(client, "/api/timeline")

    assert (found["oldest"], found["newest"], found["count"]) == (1, 5, 4)
    assert [(run["component"], run["version"], run["gates"]) for run in found["components"]] == [
        ("scheduler", "1.35", "A=true")
    ]
    assert [event["what"] for event in found["objects"][0]["events"]] == ["created", "spec changed", "gone"]
    assert [call["call"] for call in found["calls"]] == ["NodePrepareResources"]


async def test_an_object_at_any_revision(client: TestClient[Any, Any]):
    """Its state then, who wrote it through which server, and what differs from before or any revision."""
    place = "/api/object?resource=widgets.example.com&namespace=&name=w"
    found = await get(client, f"{place}&at=4")

    assert (found["revision"], found["by"], found["user"], found["server"]) == (
        3,
        "kubectl 1.36",
        "kubernetes-admin",
        "1.35",
    )
    assert (found["previous"], found["next"], found["number"], found["writes"]) == (2, 5, 2, 3)
    assert [line for line in found["lines"] if line[0] != " "] == [
        ["-", "  color: red"],
        ["+", "  color: blue"],
    ]
    assert {sign for sign, _ in (await get(client, f"{place}&at=2"))["lines"]} == {" "}
    assert {sign for sign, _ in (await get(client, f"{place}&at=5"))["lines"]} == {"-"}
    assert {sign for sign, _ in (await get(client, f"{place}&at=3&against=3"))["lines"]} == {" "}
    answer = await client.get(f"{place}&at=1", headers=TOKEN)
    assert answer.status == 404


async def test_a_moment(client: TestClient[Any, Any]):
    """A moment has the write and what it changed, and its objects; by time, it is the newest until then."""
    found = await get(client, "/api/moment?at=3")

    assert [(each["what"], each["by"], each["changes"]) for each in found["happened"]] == [
        ("update widgets.example.com w", "kubectl 1.36", ["spec.color: red → blue"])
    ]
    assert [(each["name"], each["revision"]) for each in found["objects"]] == [("w", 3)]
    assert found["components"] == [{"name": "scheduler", "version": "1.35", "gates": "A=true"}]
    assert (await get(client, f"/api/moment?time={at(4)}"))["revision"] == 3
    assert (await get(client, "/api/moment"))["objects"] == []


async def test_buttons_do_what_commands_do(client: TestClient[Any, Any], cluster: FakeCluster):
    """Each calls the cluster's function; what a command would refuse is refused with its words."""

    async def act(name: str, **body: Any) -> tuple[int, Any]:
        answer = await client.post(f"/api/actions/{name}", json=body, headers=TOKEN)
        return answer.status, await answer.json()

    assert await act("upgrade", to="1.36", components=["scheduler"]) == (
        200,
        {"message": "scheduler at 1.36", "progress": ["it goes"]},
    )
    assert (await act("downgrade", to="1.34", force=True))[0] == 200
    assert (await act("gates", gates="A=true,B-"))[0] == 200
    assert cluster.asked == [
        ("move", "1.36", ["scheduler"], False, False),
        ("move", "1.34", [], True, True),
        ("gates", {"A": True, "B": None}, []),
    ]
    assert await act("kill", component="x") == (409, {"error": "another command is changing the cluster: x"})
    assert await act("restart", component="x") == (400, {"error": "there is no component x"})
    assert (await act("upgrade", to="next"))[0] == 400
    assert (await act("fork", directory="x"))[1] == {"error": "name the revision to fork at"}
    assert (await act("purge"))[0] == 400
    assert (await client.post("/api/actions/kill", data="x", headers=TOKEN)).status == 400


def test_a_cluster_without_token_is_not_shown(tmp_path: Path):
    """`kubeskew ui` says in one line where the administrator's token is missed, and what to do."""
    directory = StateDir(tmp_path / "state")
    state = State(runtime_config={})
    state.processes["apiserver"] = Process("apiserver", "apiserver", "1.35", {}, 1)
    directory.save(state)

    result = CliRunner().invoke(ui, ["--state-dir", str(directory.path)])
    assert isinstance(result.exception, ClusterError)
    assert f"cannot read the administrator's token, {directory.token}" in str(result.exception)
    assert len(str(result.exception).splitlines()) == 1
    directory.token.write_text("\n")
    assert "is empty" in str(CliRunner().invoke(ui, ["--state-dir", str(directory.path)]).exception)
