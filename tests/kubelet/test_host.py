"""Many nodes in one process: starting, reloading, killing, and what the supervisor can ask."""

import asyncio

import orjson
import pytest
from prometheus_client import CollectorRegistry
from until import until

from kubeskew.apimachinery.client.refs import NODES
from kubeskew.apimachinery.environment import COMPONENTS_PATH, Environment
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.process.component import ComponentContext, ComponentOptions
from kubeskew.apimachinery.process.health_checks import Health
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.host import Host
from kubeskew.kubelet.node.config import NodesFileError, load_nodes

pytestmark = pytest.mark.looptime


class Process:
    """A kubelet process on a nodes file."""

    def __init__(self, tmp_path, client, clock, entropy):
        version = Version(36)
        gates = FeatureGates(version)
        self.file = tmp_path / "nodes.yaml"
        self.ctx = ComponentContext(
            name="kubelet",
            environment=Environment(version, gates, clock, entropy),
            client=client,
            health=Health(CollectorRegistry()),
            stop=asyncio.Event(),
            options=ComponentOptions(tmp_path, version, gates, "127.0.0.1", 10250, False, 0),
            identity="test",
        )
        self.host = Host(self.ctx, self.file, tmp_path / "root")

    def write(self, *nodes):
        self.file.write_text(orjson.dumps({"nodes": list(nodes)}).decode())

    async def reload(self, *nodes):
        self.write(*nodes)
        await self.host.apply(load_nodes(self.file))

    async def ready(self, *names):
        def now() -> list[str]:
            return [name for name, state in self.host.states().items() if state["ready"]]

        await until(lambda: now() == list(names), 100)


@pytest.fixture
async def process(tmp_path, client, clock, entropy):
    process = Process(tmp_path, client, clock, entropy)
    yield process
    await process.host.apply([])


@pytest.fixture
async def running(process):
    """The process with two nodes, running."""
    process.write({"name": "a"}, {"name": "b"})
    task = asyncio.create_task(process.host.run())
    await process.ready("a", "b")
    yield process
    process.ctx.stop.set()
    await task


async def test_all_nodes_of_the_file_become_ready(running, client):
    """The readiness check and the page agree, and the process serves its port for all nodes."""
    assert running.ctx.health.failing() == []
    assert set(running.ctx.health.pages["/nodes"]()) == {"a", "b"}
    assert running.host.states()["a"]["since"]
    node = await client.get(NODES, "b")
    assert node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] == 10250


async def test_a_reload_stops_and_starts_nodes(running, client):
    """Nodes that left the file are stopped and keep their object; new ones come; others are not touched."""
    since = running.host.states()["b"]["since"]
    await asyncio.sleep(30)
    await running.reload({"name": "b"}, {"name": "c"})
    await running.ready("b", "c")

    assert running.host.states()["b"]["since"] == since
    assert (await client.get(NODES, "a"))["metadata"]["name"] == "a"


async def test_a_killed_node_stops_without_a_word(running, server):
    """`killed: true` ends a node's kubelet at once: no request more; without it the kubelet is back."""
    await running.reload({"name": "a", "killed": True}, {"name": "b"})
    before = len(server.requests)
    await asyncio.sleep(60)
    assert [r for r in server.requests[before:] if r.target.endswith("/a")] == []
    await running.reload({"name": "a"}, {"name": "b"})

    await running.ready("b", "a")


async def test_each_node_is_a_component_on_the_time_line(running, server):
    """Starts and graceful stops are announced per node, with version and gates."""
    await running.reload({"name": "b"})
    posts = [orjson.loads(r.body) for r in server.requests if r.target == COMPONENTS_PATH]

    assert [(post["component"], post["what"]) for post in posts] == [
        ("kubelet/a", "started"),
        ("kubelet/b", "started"),
        ("kubelet/a", "stopped"),
    ]
    assert {post["version"] for post in posts} == {"1.36"}


async def test_a_node_that_refuses_a_file_says_why_on_the_time_line(process, server, tmp_path):
    """A kubelet that does not start announces that as failed, with its words as one line."""
    kept = tmp_path / "root" / "a" / "kubelet"
    kept.mkdir(parents=True)
    (kept / "cpu_manager_state").write_text("{")
    process.write({"name": "a"})
    task = asyncio.create_task(process.host.run())
    await until(lambda: "error" in process.host.states().get("a", {}), 100)
    process.ctx.stop.set()
    await task
    posts = [orjson.loads(r.body) for r in server.requests if r.target == COMPONENTS_PATH]

    assert [(post["component"], post["what"], post["version"]) for post in posts] == [
        ("kubelet/a", "failed", "1.36"),
        ("kubelet/a", "stopped", "1.36"),
    ]
    assert posts[0]["detail"].startswith("start cpu manager error: could not restore state from checkpoint: ")


async def test_each_node_speaks_of_itself_alone(process, server, monkeypatch):
    """The start and the stop of a node come with its own credentials: no node may speak of another."""

    def own(path, _agent, **_):
        return server.client().impersonating(f"system:node:{path.name}", {})

    monkeypatch.setattr("kubelet.host.APIClient.from_kubeconfig", own)
    process.write(*({"name": name, "kubeconfig": f"/{name}"} for name in ("a", "b")))
    task = asyncio.create_task(process.host.run())
    await process.ready("a", "b")
    process.ctx.stop.set()
    await task
    posts = [request for request in server.requests if request.target == COMPONENTS_PATH]
    said = {(orjson.loads(post.body)["component"], post.headers.get("Impersonate-User")) for post in posts}

    assert len(posts) == 4
    assert said == {("kubelet/a", "system:node:a"), ("kubelet/b", "system:node:b")}


async def test_a_changed_entry_restarts_its_node(running, client):
    """New labels or capacity take effect through a restart of that node's kubelet."""
    await running.reload({"name": "a", "capacity": {"cpu": "2"}}, {"name": "b"})
    await running.ready("b", "a")

    async def enlarged():
        return (await client.get(NODES, "a"))["status"]["capacity"]["cpu"] == "2"

    await until(enlarged, 20)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("nodes: 1", "has no list `nodes`"),
        ("[1, 2", "cannot read nodes file"),
        ("nodes: [{}]", "needs a name"),
        ("nodes: [{name: a}, {name: a}]", "names a node twice"),
    ],
)
async def test_a_bad_nodes_file_is_refused(tmp_path, content, text):
    """The error says what is wrong with the file."""
    file = tmp_path / "nodes.yaml"
    file.write_text(content)

    with pytest.raises(NodesFileError, match=text):
        load_nodes(file)


async def test_the_nodes_file_may_say_everything(tmp_path):
    """Labels and capacity, with defaults for what is left out."""
    file = tmp_path / "nodes.yaml"
    file.write_text("nodes: [{name: a, labels: {x: 1}, capacity: {cpu: 2}}]")
    (node,) = load_nodes(file)

    assert node.capacity == {"cpu": "2", "memory": "32Gi", "pods": "110"}
    assert node.labels == {"x": "1"}
