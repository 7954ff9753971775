"""Logs, exec, attach, port-forward and proxy: an API server and a node's server, joined over loopback."""

import asyncio
import base64
import json
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry
from server_in_process import ADMIN, Caller, close_server, open_server

from kubeskew.apimachinery.clock import SeededEntropy, SystemClock
from kubeskew.apimachinery.component import Health
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.streaming import spdy
from kubeskew.apimachinery.streaming.websocket import Opcode, WebSocket
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver import features as apiserver_features
from kubeskew.apiserver.http.request import Peer, Request, Upgrade
from kubeskew.apiserver.nodes.upgrade_proxy import passed_on
from kubeskew.kubelet.containers.program import program_of
from kubeskew.kubelet.containers.runtime import FakeRuntime
from kubeskew.kubelet.features import features_of
from kubeskew.kubelet.server.listening import Listener
from kubeskew.kubelet.server.routes import Routes
from kubeskew.kubelet.server.view import NodeView
from kubeskew.kubelet.status.pod_status import View, pod_status

PODS = "/api/v1/namespaces/default/pods"
CONTAINERS = [
    {"name": "a", "image": "i", "command": ["sh", "-c", "echo one; echo two >&2; echo three"]},
    {"name": "b", "image": "i", "ports": [{"containerPort": 80}]},
    {"name": "tty", "image": "i", "command": ["sh"], "stdin": True, "tty": True},
]


class Tunnel:
    """A client's connection after the upgrade, in memory, and the client's end of it."""

    def __init__(self):
        self.to_server: asyncio.Queue[bytes] = asyncio.Queue()
        self.to_client: asyncio.Queue[bytes] = asyncio.Queue()
        self.client = SimpleNamespace(read=self.to_client.get, write=self._send)

    async def read(self):
        return await self.to_server.get()

    async def write(self, data):
        self.to_client.put_nowait(data)

    async def _send(self, data):
        self.to_server.put_nowait(data)


class Bench:
    """A server with a node and a pod on it, `p`; and a pod without a node, `q`."""

    def __init__(self, server, runtime, pods):
        self.server, self.api = server, Caller(server)
        self.runtime, self.pods = runtime, pods
        self.tasks = []

    async def read(self, target: str, peer: Peer = ADMIN) -> tuple[int, str]:
        response = await self.server.handle(Request.of("GET", target, {}, b"", peer))
        if isinstance(response.body, bytes):
            return response.status, response.body.decode()
        return response.status, b"".join([piece async for piece in response.body]).decode()

    async def upgrade(self, target: str, method: str = "GET", peer: Peer = ADMIN, **headers: str):
        """(response, the client's end of the connection)."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = Request.of(method, target, {"connection": "Upgrade", **named}, b"", peer)
        response = await self.server.handle(request)
        tunnel = Tunnel()
        if isinstance(response.body, Upgrade):

            async def talk():
                await response.body.talk(tunnel)
                tunnel.to_client.put_nowait(b"")

            self.tasks.append(asyncio.create_task(talk()))
        return response, tunnel.client

    async def socket(self, target: str, protocol: str = "v5.channel.k8s.io"):
        headers = {"upgrade": "websocket", "sec_websocket_key": "dGhlIHNhbXBsZSBub25jZQ=="}
        response, client = await self.upgrade(target, sec_websocket_protocol=protocol, **headers)
        assert response.status == 101, response.body
        assert dict(response.headers)["Sec-WebSocket-Protocol"] == protocol
        return WebSocket(client, client=True)


async def messages(socket: WebSocket) -> dict[int, bytes]:
    """Everything that comes until the close, by channel."""
    found: dict[int, bytes] = {}
    while (message := await asyncio.wait_for(socket.receive(), 30)) is not None:
        found[message.data[0]] = found.get(message.data[0], b"") + message.data[1:]
    return found


@pytest.fixture
async def bench(tmp_path):
    server = await open_server()
    clock = SystemClock()
    runtime = FakeRuntime(tmp_path, "node-1", clock, SeededEntropy(2))
    features = features_of(Version(36), FeatureGates(Version(36)))
    pods: list[dict] = []

    async def load(pod):
        pass

    view = NodeView("node-1", clock, runtime, lambda: pods, features, load, clock.now(), {})
    listener = Listener(Routes(view, Health(CollectorRegistry())), None, None)
    await listener.start("127.0.0.1", 0)
    api = Caller(server)
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": listener.port}},
    }
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}}
    assert (await api.post("/api/v1/nodes", node)).status == 201
    assert (await api.patch("/api/v1/nodes/node-1/status", {"status": status})).status == 200
    for name, where in (("p", {"nodeName": "node-1"}), ("q", {})):
        spec = {"containers": CONTAINERS, "restartPolicy": "Never", **where}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        answer = await api.post(PODS, pod)
        assert answer.status == 201, answer.body
        if where:
            made = answer.body
    sandbox = runtime.run_sandbox(made)
    for spec in made["spec"]["containers"]:
        runtime.start_container(sandbox, spec["name"], spec["image"], program_of(made, spec), spec=spec)
    now = clock.now()
    made["status"] = pod_status(made, sandbox, View(now, "127.0.0.1", "2026-01-01T00:00:00Z"), features)
    await api.patch(f"{PODS}/p/status", {"status": {"podIP": sandbox.ip, "podIPs": [{"ip": sandbox.ip}]}})
    pods.append(made)
    found = Bench(server, runtime, pods)
    yield found
    for task in found.tasks:
        task.cancel()
    await asyncio.gather(*found.tasks, return_exceptions=True)
    await listener.stop()
    await close_server(server)


async def test_logs_and_their_options(bench: Bench):
    """Whole, the end, a number of bytes, with times."""
    assert await bench.read(f"{PODS}/p/log?container=a") == (200, "one\ntwo\nthree\n")
    assert await bench.read(f"{PODS}/p/log?container=a&tailLines=1") == (200, "three\n")
    assert await bench.read(f"{PODS}/p/log?container=a&limitBytes=5") == (200, "one\nt")
    assert await bench.read(f"{PODS}/p/log?container=a&follow=true") == (200, "one\ntwo\nthree\n")
    _status, text = await bench.read(f"{PODS}/p/log?container=a&timestamps=true&tailLines=1")
    assert text[10] == "T"
    assert text.endswith("000Z three\n")
    assert await bench.read(f"{PODS}/p/log?container=a&sinceTime=2100-01-01T00:00:00Z") == (200, "")
    assert await bench.read(f"{PODS}/q/log?container=a") == (204, "")


LOG_ERRORS = {
    "p/log": (400, "a container name must be specified for pod p, choose one of: [a b tty]"),
    "p/log?container=x": (400, "container x is not valid for pod p"),
    "p/log?container=a&previous=true": (400, 'previous terminated container "a" in pod "p" not found'),
    "p/log?container=a&tailLines=-1": (
        422,
        'PodLogOptions "p" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0',
    ),
    "p/log?container=a&limitBytes=0": (
        422,
        'PodLogOptions "p" is invalid: limitBytes: Invalid value: 0: must be greater than 0',
    ),
    "p/log?sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z": (
        422,
        (
            'PodLogOptions "p" is invalid: []: Forbidden: '
            "at most one of `sinceTime` or `sinceSeconds` may be specified"
        ),
    ),
    "p/log?container=a&stream=Stdout": (
        422,
        'PodLogOptions "p" is invalid: stream: Forbidden: may not be specified',
    ),
    "p/log?tailLines=x": (400, 'strconv.ParseInt: parsing "x": invalid syntax'),
    "n/log": (404, 'pods "n" not found'),
    "p/exec?container=b&command=ls": (400, "Upgrade request required"),
    "q/exec?container=b&command=ls": (400, "pod q does not have a host assigned"),
    "q/portforward": (400, "pod q does not have a host assigned"),
    "q/proxy/": (400, "address not allowed"),
    "a:b:c:d/proxy/": (400, 'invalid pod request "a:b:c:d"'),
    "p:81/proxy/": (503, "connect: connection refused"),
}


async def test_mistakes(bench: Bench):
    """What is asked wrongly is answered in upstream's words."""
    for target, (code, message) in LOG_ERRORS.items():
        status, text = await bench.read(f"{PODS}/{target}")
        assert status == code, target
        assert json.loads(text)["message"].endswith(message), target


async def test_a_waiting_container_has_no_log_yet(bench: Bench):
    """The node says why; the API server says it as a mistake of the client."""
    bench.pods[0]["status"] = {
        "containerStatuses": [{"name": "b", "state": {"waiting": {"reason": "ContainerCreating"}}}]
    }
    status, text = await bench.read(f"{PODS}/p/log?container=b")
    assert (status, json.loads(text)["reason"]) == (400, "BadRequest")
    assert json.loads(text)["message"] == 'container "b" in pod "p" is waiting to start: ContainerCreating'


async def test_a_node_that_is_away(bench: Bench):
    """The text is that of Go's HTTP client."""
    endpoint = {"daemonEndpoints": {"kubeletEndpoint": {"Port": 1}}}
    await bench.api.patch("/api/v1/nodes/node-1/status", {"status": endpoint})
    status, text = await bench.read(f"{PODS}/p/log?container=a")
    assert (status, json.loads(text)["message"]) == (
        500,
        (
            'Get "http://127.0.0.1:1/containerLogs/default/p/a": '
            "dial tcp 127.0.0.1:1: connect: connection refused"
        ),
    )
    socket = await bench.socket(f"{PODS}/p/exec?container=b&command=ls&stdout=true")
    told = json.loads((await messages(socket))[3])
    assert told["message"].startswith(
        'Internal error occurred: error sending request: Post "http://127.0.0.1:1/'
    )


@pytest.mark.parametrize("protocol", ["v4.channel.k8s.io", "v5.channel.k8s.io"])
async def test_exec_over_websocket(bench: Bench, protocol: str):
    """Output and errors on their channels, then the exit code."""
    query = "container=b&stdout=true&stderr=true&command=sh&command=-c"
    query += "&command=echo%20out%3Becho%20err%3E%262%3Bexit%203"
    found = await messages(await bench.socket(f"{PODS}/p/exec?{query}", protocol))
    assert (found[1], found[2]) == (b"out\n", b"err\n")
    status = json.loads(found[3])
    assert status["reason"] == "NonZeroExitCode"
    assert status["details"] == {"causes": [{"reason": "ExitCode", "message": "3"}]}


async def test_stdin_ends_with_version_five(bench: Bench):
    """`cat` gives back what it got, and ends when its input is closed."""
    socket = await bench.socket(f"{PODS}/p/exec?container=b&stdin=true&stdout=true&command=cat")
    await socket.send(b"\0hello ")
    await socket.send(b"\0world")
    await socket.send(b"\xff\0")
    found = await messages(socket)
    assert found[1] == b"hello world"
    assert json.loads(found[3]) == {"metadata": {}, "status": "Success"}


async def test_exec_that_cannot_be(bench: Bench):
    """A command that is not there, and a container that does not run."""
    socket = await bench.socket(f"{PODS}/p/exec?container=b&stdout=true&command=nosuch")
    assert (
        'exec: "nosuch": executable file not found in $PATH'
        in json.loads((await messages(socket))[3])["message"]
    )
    socket = await bench.socket(f"{PODS}/p/exec?container=a&stdout=true&command=ls")
    told = json.loads((await messages(socket))[3])
    assert told["message"] == (
        'Internal error occurred: unable to upgrade connection: container not found ("a")'
    )
    response, _ = await bench.upgrade(
        f"{PODS}/p/exec?container=a&stdout=true&command=ls", "POST", upgrade="SPDY/3.1"
    )
    assert response.status == 500


async def test_exec_over_spdy(bench: Bench):
    """A stream per channel, as kubectl before 1.29 has it."""
    response, client = await bench.upgrade(
        f"{PODS}/p/exec?container=b&stdin=true&stdout=true&command=cat",
        "POST",
        upgrade="SPDY/3.1",
        x_stream_protocol_version="v4.channel.k8s.io",
    )
    assert response.status == 101
    connection = spdy.Connection(client, client=True)
    running = asyncio.create_task(connection.run())
    streams = {name: await connection.open({"streamType": name}) for name in ("error", "stdin", "stdout")}
    await streams["stdin"].write(b"through spdy")
    await streams["stdin"].close()
    assert await asyncio.wait_for(streams["stdout"].read(), 30) == b"through spdy"
    assert json.loads(await asyncio.wait_for(streams["error"].read(), 30))["status"] == "Success"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_attach_to_a_shell(bench: Bench):
    """What is typed is shown and run; when the shell ends, so does the container."""
    query = "container=tty&stdin=true&stdout=true&tty=true"
    socket = await bench.socket(f"{PODS}/p/attach?{query}")
    await socket.send(b"\0echo hi\r")
    await socket.send(b"\0exit 5\r")
    found = await messages(socket)
    assert found[1].startswith(b"echo hi\r\n")
    assert b"hi\r\n" in found[1][8:]
    container = bench.runtime.sandboxes()[0].latest("tty")
    assert (container.running(SystemClock().now()), container.exit_code) == (False, 5)


async def test_port_forward_over_websocket(bench: Bench):
    """Both channels of a port begin with its number; then HTTP is answered, and other ports refuse."""
    socket = await bench.socket(f"{PODS}/p/portforward?ports=80&ports=81", "v4.channel.k8s.io")
    begun = [(await asyncio.wait_for(socket.receive(), 30)).data for _ in range(4)]
    assert begun == [b"\0P\0", b"\1P\0", b"\2Q\0", b"\3Q\0"]
    refused = (await asyncio.wait_for(socket.receive(), 30)).data
    assert refused[0] == 3
    assert b"connection refused" in refused
    await socket.send(b"\0GET /x HTTP/1.1\r\nHost: y\r\n\r\n")
    assert b'"path":"/x"' in (await asyncio.wait_for(socket.receive(), 30)).data
    await socket.close()


@pytest.mark.parametrize("end", ["1.1\r\nConnection: Close", "1.1\r\nConnection: x, close", "1.0"])
async def test_the_end_of_a_forwarded_connection(bench: Bench, end: str):
    """A request that asks for its connection's end is the last that is answered, and ends the WebSocket."""
    socket = await bench.socket(f"{PODS}/p/portforward?ports=80", "v4.channel.k8s.io")
    request = f"\0GET /x HTTP/{end}\r\nHost: y\r\n\r\nGET /next HTTP/1.1\r\nHost: y\r\n\r\n"
    await socket.send(request.encode())
    told = await messages(socket)

    assert told[0].startswith(b"P\0HTTP/1.1 200 OK\r\n")
    assert b"\r\nConnection: close\r\n" in told[0]
    assert told[0].count(b"HTTP/1.1") == 1


async def test_a_forward_that_nothing_answers_ends(bench: Bench):
    """The WebSocket ends when the last of its ports has refused."""
    socket = await bench.socket(f"{PODS}/p/portforward?ports=81&ports=82", "v4.channel.k8s.io")
    told = await messages(socket)

    assert [b"connection refused" in told[channel] for channel in range(4)] == [False, True, False, True]


@pytest.mark.parametrize(
    "bad", [b"0%%%%", b"0R0VU=", b"0R0VUI", b"0R0VUIA=", b"5R0VUIA==", b"/R0VUIA==", b"0"]
)
async def test_messages_that_are_no_base64(bench: Bench, bad: bytes, caplog):
    """They are dropped, as are those of a channel that is none; the connection goes on."""
    socket = await bench.socket(f"{PODS}/p/portforward?ports=80", "v4.base64.channel.k8s.io")
    await socket.send(bad, Opcode.TEXT)
    await socket.send(b"0R0VUIC94IEhUVFAvMS4xDQpIb3N0OiB5DQoNCg==", Opcode.TEXT)
    begun = [(await asyncio.wait_for(socket.receive(), 30)).data for _ in range(2)]
    answer = (await asyncio.wait_for(socket.receive(), 30)).data
    await socket.close()

    assert begun == [b"0UAA=", b"1UAA="]
    assert b'"path":"/x"' in base64.b64decode(answer[1:])
    assert [record for record in caplog.records if record.exc_info] == []


async def test_standard_input_that_is_no_base64(bench: Bench):
    """A message that cannot be read does not end a command's standard input."""
    target = (
        f"{PODS}/p/exec?container=b&stdin=true&stdout=true&command=sh&command=-c&command=read+x%3Becho+$x"
    )
    socket = await bench.socket(target, "v4.base64.channel.k8s.io")
    await socket.send(b"0aGVsb", Opcode.TEXT)
    await socket.send(b"0aGVsbG8K", Opcode.TEXT)
    told = await messages(socket)

    assert base64.b64decode(told[ord("1")]) == b"hello\n"


async def test_port_forward_through_a_tunnel(bench: Bench):
    """SPDY inside a WebSocket, as kubectl does it since 1.31."""
    socket = await bench.socket(f"{PODS}/p/portforward", "SPDY/3.1+portforward.k8s.io")

    async def read() -> bytes:
        message = await socket.receive()
        return message.data if message is not None else b""

    connection = spdy.Connection(SimpleNamespace(read=read, write=socket.send), client=True)
    running = asyncio.create_task(connection.run())
    pair = {"port": "80", "requestID": "1"}
    await connection.open({"streamType": "error", **pair})
    data = await connection.open({"streamType": "data", **pair})
    await data.write(b"no http")
    assert await asyncio.wait_for(data.read(), 30) == b"no http"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_proxies(bench: Bench):
    """Pods, services and nodes; a path that is empty is redirected."""
    status, text = await bench.read(f"{PODS}/p:80/proxy/some/path?x=1")
    assert (status, json.loads(text)["path"]) == (200, "/some/path?x=1")
    answer = await bench.api.get(f"{PODS}/p/proxy?x=1")
    assert (answer.status, answer.headers["Location"]) == (301, f"{PODS}/p/proxy/?x=1")
    assert await bench.read("/api/v1/nodes/node-1/proxy/healthz") == (200, "ok")
    services = "/api/v1/namespaces/default/services"
    service = {"metadata": {"name": "s"}, "spec": {"selector": {"a": "b"}, "ports": [{"port": 8080}]}}
    assert (await bench.api.post(services, {"apiVersion": "v1", "kind": "Service", **service})).status == 201
    status, text = await bench.read(f"{services}/s:9/proxy/")
    assert json.loads(text)["message"] == 'no service port 9 found for service "s"'
    pod = (await bench.api.get(f"{PODS}/p")).body
    endpoints = {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": "s"},
        "subsets": [
            {
                "addresses": [
                    {"ip": pod["status"]["podIP"], "targetRef": {"namespace": "default", "name": "p"}}
                ],
                "ports": [{"port": 80}],
            }
        ],
    }
    made = await bench.api.post("/api/v1/namespaces/default/endpoints", endpoints)
    assert made.status == 201, made.body
    status, text = await bench.read(f"{services}/s:8080/proxy/hi")
    assert (status, json.loads(text)["pod"]) == (200, "p")


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_proxies_take_every_method(bench: Bench, method: str):
    """What is behind a pod is reached by the methods of upstream's proxy; only readers are redirected."""
    answer = await bench.api(method, f"{PODS}/p:80/proxy/a")
    assert answer.status == 200
    assert method == "HEAD" or answer.body["method"] == method
    bare = await bench.api(method, f"{PODS}/p:80/proxy")
    assert bare.status == (301 if method in {"GET", "HEAD"} else 200)
    refused = await bench.api("TRACE", f"{PODS}/p:80/proxy/a")
    assert refused.status == 405


async def test_endpoints_lead_to_pods_of_their_namespace_only(bench: Bench):
    """Who may write endpoints cannot send the server to other namespaces, or to any address."""
    ip = (await bench.api.get(f"{PODS}/p")).body["status"]["podIP"]
    assert (await bench.api.post("/api/v1/namespaces", {"metadata": {"name": "other"}})).status == 201
    for place, address in (
        ("default", {"ip": ip}),
        ("default", {"ip": "10.1.2.3", "targetRef": {"namespace": "default", "name": "p"}}),
        ("other", {"ip": ip, "targetRef": {"namespace": "default", "name": "p"}}),
    ):
        there = f"/api/v1/namespaces/{place}"
        endpoints = {
            "metadata": {"name": "e"},
            "subsets": [{"addresses": [address], "ports": [{"port": 80}]}],
        }
        assert (await bench.api.post(f"{there}/endpoints", endpoints)).status == 201
        status, text = await bench.read(f"{there}/services/e/proxy/")
        assert (status, json.loads(text)["message"]) == (503, 'no endpoints available for service "e"')
        await bench.api.delete(f"{there}/endpoints/e")


async def test_missing_endpoints_are_told_of_as_the_service(bench: Bench):
    """What nobody has made endpoints for is a service that is not found, as upstream's store says."""
    status, text = await bench.read("/api/v1/namespaces/default/services/none/proxy/")

    assert (status, json.loads(text)["message"]) == (404, 'services "none" not found')


@pytest.mark.parametrize("port", ["22", "x", "99999"])
async def test_other_ports_of_a_local_node_are_not_reached(bench: Bench, port: str):
    """A node that is on the server's own machine is asked at its kubelet's port alone."""
    status, text = await bench.read(f"/api/v1/nodes/node-1:{port}/proxy/")
    assert (status, json.loads(text)["message"]) == (400, "address not allowed")


def test_credentials_are_not_passed_on():
    """A backend learns neither the client's token nor whom it acts as."""
    headers = {
        "Authorization": "Bearer secret",
        "Impersonate-User": "me",
        "X-Remote-Group": "system:masters",
        "Sec-WebSocket-Protocol": "v4.channel.k8s.io, base64url.bearer.authorization.k8s.io.c2VjcmV0",
        "Accept": "text/plain",
    }
    kept = [("accept", "text/plain"), ("Sec-WebSocket-Protocol", "v4.channel.k8s.io")]
    assert passed_on(Request.of("GET", "/", headers)) == kept


async def test_an_older_server_refuses_what_it_does_not_know(bench: Bench, monkeypatch):
    """Without the gate a client of version 5 alone is refused, upon which kubectl falls back to SPDY."""
    gates = FeatureGates(Version(36), {"TranslateStreamCloseWebsocketRequests": False})
    monkeypatch.setattr(bench.server.services, "features", apiserver_features.features_of(gates))
    headers = {"upgrade": "websocket", "sec_websocket_key": "dGhlIHNhbXBsZSBub25jZQ=="}
    target = f"{PODS}/p/exec?container=b&stdout=true&command=ls"
    response, _ = await bench.upgrade(target, sec_websocket_protocol="v5.channel.k8s.io", **headers)
    assert response.status == 403


async def test_a_websocket_takes_the_right_to_create(bench: Bench):
    """Who may only get is refused, as POST would be."""
    headers = {"upgrade": "websocket", "sec_websocket_key": "dGhlIHNhbXBsZSBub25jZQ=="}
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "getter"},
        "rules": [{"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get"]}],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "getter"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "getter"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "gil"}],
    }
    group = "/apis/rbac.authorization.k8s.io/v1"
    assert (await bench.api.post(f"{group}/clusterroles", role)).status == 201
    assert (await bench.api.post(f"{group}/clusterrolebindings", binding)).status == 201
    target = f"{PODS}/p/exec?container=b&stdout=true&command=ls"
    response, _ = await bench.upgrade(target, peer=Peer("gil", ()), **headers)
    assert response.status == 403
    assert 'cannot create resource "pods/exec"' in json.loads(response.body)["message"]
