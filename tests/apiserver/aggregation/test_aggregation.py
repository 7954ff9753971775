"""APIServices: those of the server itself, and group versions that another server answers for."""

import asyncio
import base64
import gzip
import ssl
import tempfile

import pytest
from aiohttp import web
from server_in_process import Caller, close_server, open_server
from webhook_server import BUNDLE, CERTIFICATE, KEY, hook_server

from kubeskew.apiserver.http.request import Peer

SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
LIST = {
    "kind": "APIResourceList",
    "apiVersion": "v1",
    "groupVersion": "metrics.example.com/v1",
    "resources": [
        {"name": "things", "singularName": "thing", "namespaced": True, "kind": "Thing", "verbs": ["get"]}
    ],
}


@pytest.fixture
async def call():
    server = await open_server()
    yield Caller(server)
    await close_server(server)


@pytest.fixture
async def hook(tmp_path):
    async with hook_server(tmp_path) as made:
        made.answer = lambda _: LIST
        yield made


def api_service(**spec):
    spec = {
        "group": "metrics.example.com",
        "version": "v1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "service": {"name": "hook", "namespace": "default"},
        "caBundle": BUNDLE,
        **spec,
    }
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"{spec['version']}.{spec['group']}"},
        "spec": {name: value for name, value in spec.items() if value is not None},
    }


def service(port):
    annotations = {"apiserver.kubeskew.io/local-address": f"127.0.0.1:{port}"}
    metadata = {"name": "hook", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": 443}]}}


async def seen(call, name, wanted):
    """The first APIService of that name, as (type of event, object), that is `wanted`."""
    path = f"{SERVICES}?watch=1&resourceVersion=0&fieldSelector=metadata.name={name}"
    async with asyncio.timeout(30):
        async for kind, obj in call.watch(path):
            if wanted(kind, obj):
                return obj
    raise AssertionError


async def condition(call, reason):
    """The condition Available once it has this reason."""

    def wanted(_, obj):
        conditions = obj["status"].get("conditions") or [{}]
        return conditions[0].get("reason") == reason

    return (await seen(call, "v1.metrics.example.com", wanted))["status"]["conditions"][0]


async def test_local_services(call):
    """Every group version but the aggregator's has an APIService, available from the start."""
    items = {item["metadata"]["name"]: item for item in (await call.get(SERVICES)).body["items"]}
    assert {"v1.", "v1.apps", "v2.autoscaling"} <= items.keys()
    assert "v1.apiregistration.k8s.io" not in items
    core = items["v1."]
    assert core["metadata"]["labels"] == {"kube-aggregator.kubernetes.io/automanaged": "onstart"}
    assert core["spec"] == {"version": "v1", "groupPriorityMinimum": 18000, "versionPriority": 1}
    assert core["status"]["conditions"][0]["reason"] == "Local"


async def test_rules(call):
    """The name says version and group; a local one has no bundle."""
    body = api_service(service=None, versionPriority=0)
    body["metadata"]["name"] = "other"
    answer = await call.post(SERVICES, body)
    causes = [(cause["field"], cause["message"]) for cause in answer.body["details"]["causes"]]
    name = 'must be `spec.version+"."+spec.group`: "v1.metrics.example.com"'
    size = len(base64.b64decode(BUNDLE))
    bundle = f'Invalid value: "{size} bytes": local APIServices may not have a caBundle'
    assert causes == [
        ("metadata.name", f'Invalid value: "other": {name}'),
        ("spec.versionPriority", "Invalid value: 0: must be positive and less than 1000"),
        ("spec.caBundle", bundle),
    ]


async def test_without_a_service(call):
    """A group version whose service does not exist is not available, and requests get a 503."""
    assert (await call.post(SERVICES, api_service())).status == 201
    found = await condition(call, "ServiceNotFound")
    assert found["status"] == "False"
    assert found["message"] == 'service/hook in "default" is not present'
    answer = await call.get("/apis/metrics.example.com/v1/namespaces/default/things")
    assert (answer.status, answer.raw) == (503, b"service unavailable\n")


async def test_a_service_that_is_taken_away(call):
    """Without its service an APIService is the server's own, and available."""
    await call.post(SERVICES, api_service())
    await condition(call, "ServiceNotFound")
    change = {"spec": {"service": None, "caBundle": None}}
    answer = await call.patch(f"{SERVICES}/v1.metrics.example.com", change)
    assert answer.status == 200, answer.body
    assert (await condition(call, "Local"))["status"] == "True"


async def test_proxy(call, hook):
    """Requests go to the other server, with who asks, and its answers come back."""
    await call.post("/api/v1/namespaces/default/services", service(hook.port))
    await call.post(SERVICES, api_service())
    await condition(call, "Passed")
    hook.requests.clear()
    hook.answer = lambda _: web.json_response({"kind": "Thing"}, status=201)
    path = "/apis/metrics.example.com/v1/namespaces/default/things?limit=5&a=b%20c"
    secret = {"authorization": "Bearer secret", "x_remote_user": "somebody"}
    secret["sec_websocket_protocol"] = "base64url.bearer.authorization.k8s.io.c2VjcmV0, v4"
    answer = await call.post(path, {"kind": "Thing"}, **secret)
    assert (answer.status, answer.body) == (201, {"kind": "Thing"})
    method, target, headers, body = asked(hook)
    assert (method, target) == ("POST", path.replace("%20", "+"))
    assert body == b'{"kind": "Thing"}'
    assert headers["X-Remote-User"] == "admin"
    assert "Authorization" not in {name.title() for name in headers}
    assert headers["Sec-WebSocket-Protocol"] == "v4"  # without the token
    assert headers["User-Agent"] == "tester/v1.36.0 (linux)"


@pytest.fixture
async def remote(call, hook):
    """A group version that another server answers for, with what it is asked and how it answers."""
    await call.post("/api/v1/namespaces/default/services", service(hook.port))
    await call.post(SERVICES, api_service())
    await condition(call, "Passed")
    hook.requests.clear()
    return hook


THINGS = "/apis/metrics.example.com/v1/namespaces/default/things"


def asked(remote):
    """The last request for things; the server itself asks for what there is."""
    return [request for request in remote.requests if request[1].startswith(THINGS)][-1]


async def raw_backend(*pieces, hold=None):
    """A TLS server that says these bytes to whoever asks, and what it receives; with `hold` up to the end."""
    received = []

    async def talk(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        if b"/things" not in head:  # the server itself, which wants to know whether this is there
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            writer.close()
            return
        received.append(head)
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        if hold is not None:
            received.append(await reader.read())
            hold.set()
        writer.close()

    return await asyncio.start_server(talk, "127.0.0.1", 0, ssl=remote_context()), received


def remote_context():
    """The certificate of `webhook_server` on a server's side."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        file.write(CERTIFICATE + KEY)
        file.flush()
        context.load_cert_chain(file.name)
    return context


async def led_to(call, backend):
    """Let the service lead to that server."""
    port = backend.sockets[0].getsockname()[1]
    annotations = {"apiserver.kubeskew.io/local-address": f"127.0.0.1:{port}"}
    await call.patch("/api/v1/namespaces/default/services/hook", {"metadata": {"annotations": annotations}})


async def test_bodies_pass_as_they_come(call, remote):
    """A large answer is passed on piece by piece, with its length; so is what the client sends."""
    size = 8 << 20
    remote.answer = lambda _: web.Response(body=b"x" * size, content_type="text/plain")
    response = await call.raw("GET", THINGS)
    pieces = [len(piece) async for piece in response.body]
    assert (response.length, sum(pieces)) == (size, size)
    assert max(pieces) <= 1 << 16
    sent = b'"' + b"y" * (1 << 19) + b'"'
    await call.post(THINGS, sent)
    assert asked(remote)[3] == sent


@pytest.mark.parametrize("name", ["a\r\nX-Remote-Group: system:masters", " admin"])
async def test_a_user_whom_headers_cannot_name(call, remote, name):
    """A name with line breaks, or spaces that would be lost, does not reach the remote server."""
    stranger = Caller(call.server, Peer(name, ("system:masters",)))
    answer = await stranger.get(THINGS)
    assert answer.status == 503
    assert b'net/http: invalid header field value for "X-Remote-User"' in answer.raw
    assert [request for request in remote.requests if request[1].startswith(THINGS)] == []


async def test_compression_is_between_client_and_remote(call, remote):
    """The encodings that a client accepts reach the remote server, and its answer is not unpacked."""
    packed = gzip.compress(b"{}")
    remote.answer = lambda _: web.Response(body=packed, headers={"Content-Encoding": "gzip"})
    response = await call.raw("GET", THINGS, accept_encoding="gzip")
    assert dict(response.headers)["Content-Encoding"] == "gzip"
    assert b"".join([piece async for piece in response.body]) == packed
    assert {name.lower(): value for name, value in asked(remote)[2].items()}["accept-encoding"] == "gzip"


async def test_watches_pass(call, remote):
    """Events reach the client when they are sent; a client that leaves ends the remote watch."""
    ended = asyncio.Event()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    backend, _ = await raw_backend(head + b"5\r\none\r\n\r\n", hold=ended)
    async with backend:
        await led_to(call, backend)
        response = await call.raw("GET", f"{THINGS}?watch=1")
        assert await anext(response.body) == b"one\r\n"
        await response.body.aclose()
        await asyncio.wait_for(ended.wait(), 30)


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 500_000,
    ],
)
async def test_an_answer_that_breaks_off(call, remote, said):
    """The client's connection breaks off as well: half an answer must not look like a whole one."""
    backend, _ = await raw_backend(said)
    async with backend:
        await led_to(call, backend)
        response = await call.raw("GET", THINGS)
        with pytest.raises(ConnectionResetError):
            [piece async for piece in response.body]


@pytest.mark.parametrize(
    "said",
    [b"", b"garbage\r\n\r\n", b"HTTP/1.1 abc OK\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 100_000],
)
async def test_an_answer_that_is_none(call, remote, said):
    """A remote server whose answer is not HTTP, is cut off or is empty counts as unreachable: 503."""
    backend, _ = await raw_backend(said)
    async with backend:
        await led_to(call, backend)
        answer = await call.get(THINGS)
    assert (answer.status, answer.raw) == (503, b"error trying to reach service: EOF\n")


async def test_upgrades_pass(call, remote):
    """A connection that the remote server takes over carries bytes both ways; a refusal is passed on."""
    done = asyncio.Event()
    switching = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nhello"
    backend, received = await raw_backend(switching, hold=done)
    wanted = {"connection": "Upgrade", "upgrade": "x"}
    async with backend:
        await led_to(call, backend)
        response = await call.raw("POST", f"{THINGS}/a/exec", **wanted)
        assert response.status == 101
        tunnel = Tunnel(b"from the client")
        await response.body.talk(tunnel)
        await asyncio.wait_for(done.wait(), 30)
    assert tunnel.got == b"hello"
    assert received[1] == b"from the client"
    assert b"\r\nUpgrade: x\r\n" in received[0]
    assert b"\r\nX-Remote-User: admin\r\n" in received[0]
    refusing, _ = await raw_backend(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\nno")
    async with refusing:
        await led_to(call, refusing)
        answer = await call("POST", f"{THINGS}/a/exec", **wanted)
    assert (answer.status, answer.raw) == (400, b"no")


class Tunnel:
    """A client that says one thing, and leaves once it got something."""

    def __init__(self, says):
        self.says, self.got, self.answered = says, b"", asyncio.Event()

    async def read(self):
        if self.says:
            said, self.says = self.says, b""
            return said
        await self.answered.wait()
        return b""

    async def write(self, data):
        self.got += data
        self.answered.set()


async def test_discovery(call, hook):
    """A remote group is listed among the others, and its own server lists its resources."""
    await call.post("/api/v1/namespaces/default/services", service(hook.port))
    await call.post(SERVICES, api_service())
    await condition(call, "Passed")
    groups = [group["name"] for group in (await call.get("/apis")).body["groups"]]
    assert groups[-1] == "metrics.example.com"
    assert (await call.get("/apis/metrics.example.com/v1")).body == LIST
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    item = (await call.get("/apis", accept=accept)).body["items"][-1]
    version = item["versions"][0]
    assert (version["version"], version["freshness"]) == ("v1", "Current")
    assert version["resources"][0]["resource"] == "things"
    assert version["resources"][0]["scope"] == "Namespaced"


async def test_definitions_get_services(call):
    """A custom group version has an APIService of low priority for as long as it is defined."""
    schema = {"openAPIV3Schema": {"type": "object"}}
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "foos", "kind": "Foo"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
    }
    body = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await call.post(path, {**body, "metadata": {"name": "foos.example.com"}, "spec": spec})
    obj = await seen(call, "v1.example.com", lambda kind, _: kind == "ADDED")
    assert obj["spec"]["groupPriorityMinimum"] == 1000
    await call.delete(f"{path}/foos.example.com")
    await seen(call, "v1.example.com", lambda kind, _: kind == "DELETED")
