"""The ports of a real API server: what goes through as it is, as whom, and what faults do to requests."""

import asyncio
import contextlib
import socket
import ssl

import aiohttp
import orjson
import pytest
from aiohttp import web
from protobuf_frames import frame
from until import until

from kubeskew.apimachinery.client.kubeconfig import Kubeconfig
from kubeskew.apimachinery.client.transport import HTTPTransport, Request
from kubeskew.apimachinery.clock import SeededEntropy, SystemClock
from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.faults.journal import PLAN
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.faults import ServerFaults
from kubeskew.cluster.pki import KeyPair
from kubeskew.shim import front, front_proxy
from kubeskew.shim.front import Front
from kubeskew.shim.front_proxy import Files, FrontProxy

VERSION = Version(36)
MAPS = "/api/v1/namespaces/ns/configmaps"
BROKEN = (aiohttp.ClientError, ConnectionError)
CREATE = {"verb": "create", "resource": "configmaps"}
NEVER = {"resource": "nodes", "answer": 500}  # so that there is a fault, and the proxy in the way
NOBODY = KeyPair(b"", b"")


class Records(list):
    """The time line of a log."""

    async def record(self, event):
        self.append((event.what, event.detail))


class Fronted:
    """A server with its front, at a port of its own, and clients that ask it."""

    def __init__(self, files, upstream, directory, ports):
        self.files, self.upstream, self.directory = files, upstream, directory
        self.port = ports.choose([upstream.port])
        self.url = f"https://127.0.0.1:{self.port}"
        self.timeline, self.killed, self.clients, self.revision = Records(), [], [], 0
        program = ("127.0.0.1", upstream.port)
        environment = Environment(VERSION, FeatureGates(VERSION, {}), SystemClock(), SeededEntropy(1))
        self.faults = ServerFaults(directory, "apiserver", environment, self.timeline, self.killed.append)
        own = Files(
            *(files.certificate, files.key, files.ca, files.front_ca),
            *(files.proxy_certificate, files.proxy_key, files.tokens),
        )
        self.proxy = FrontProxy(own, self.url, program, self.faults, environment)
        self.front = Front(self.port, 0, program, self.proxy)

    async def open(self):
        await self.proxy.start()
        await self.front.listen()
        self.faults.begin(self.front.refuse_during)

    async def set(self, *bodies):
        self.revision += 1
        planned = [
            {"set": self.revision, "fault": {"component": "apiserver", "id": f"f{at}", **body}}
            for at, body in enumerate(bodies)
        ]
        (self.directory / PLAN).write_bytes(orjson.dumps({"revision": self.revision, "faults": planned}))
        await self.front.reload()

    def client(self, pair=None):
        """A client with the scheduler's certificate, or another one, or none."""
        pair = pair or self.files.client
        config = Kubeconfig(
            self.url, ca=self.files.ca.read_bytes(), certificate=pair.certificate, key=pair.key
        )
        made = HTTPTransport(config.server, config.ssl_context())
        self.clients.append(made)
        return made

    def context(self):
        return ssl.create_default_context(cafile=self.files.ca)

    async def ask(self, method, target, body=None, headers=None, client=None):
        content = orjson.dumps(body) if isinstance(body, dict) else body
        response = await (client or self.client())(Request(method, target, headers or {}, content, 5.0))
        try:
            return response.status, await response.body()
        finally:
            await response.close()

    async def close(self):
        for client in self.clients:
            await client.close()
        await self.front.close()
        await self.proxy.close()
        await self.faults.stop()


@pytest.fixture
async def fronted(files, upstream, tmp_path, ports):
    made = Fronted(files, upstream, tmp_path, ports)
    await made.open()
    yield made
    await made.close()


def config_map(name):
    return {"metadata": {"name": name, "namespace": "ns"}}


# -- ways


async def test_without_faults_the_programs_own_bytes_come(fronted, upstream):
    """A client's certificate is shown to the program itself, and only once there are faults to the proxy."""
    names = []
    for bodies in ((), (NEVER,), ()):
        await fronted.set(*bodies)
        await fronted.ask("GET", MAPS)
        names.append((upstream.seen[-1].user, upstream.seen[-1].headers.get("X-Remote-User")))
    assert names == [
        ("system:kube-scheduler", None),
        ("front-proxy-client", "system:kube-scheduler"),
        ("system:kube-scheduler", None),
    ]


async def test_connections_from_before_a_fault_are_closed(fronted, upstream, monkeypatch):
    """Whoever kept one knows it when the fault is in effect, and makes another, which the fault concerns. A
    request under way is answered before, unless it takes long."""
    monkeypatch.setattr(front, "QUIET_SECONDS", 0.5)
    monkeypatch.setattr(front, "DRAIN_SECONDS", 30)
    asked, answered = asyncio.Event(), asyncio.Event()

    async def answer(request):
        stream = web.StreamResponse()
        await stream.prepare(request)
        asked.set()
        for _ in range(8):
            await stream.write(b"x")
            await asyncio.sleep(0.05)
        answered.set()
        return stream

    upstream.answers["/slow"] = answer
    client = fronted.client()
    assert (await fronted.ask("GET", MAPS, client=client))[0] == 200
    asking = asyncio.create_task(fronted.ask("GET", "/slow"))
    watching = await fronted.client()(Request("GET", f"{MAPS}?watch=true"))
    await asked.wait()
    await fronted.set({"resource": "configmaps", "answer": 503})

    assert answered.is_set()
    assert (await fronted.ask("GET", MAPS, client=client))[0] == 503
    assert await asking == (200, b"x" * 8)
    with pytest.raises(BROKEN):
        [chunk async for chunk in watching.chunks()]
    await watching.close()


async def test_a_connection_under_way_when_a_fault_is_set_meets_it(fronted):
    """A connection's way is decided when it is there, not when its protocol is made."""
    late = front._Connection(fronted.front._way)
    await fronted.set(NEVER)
    here, there = socket.socketpair()
    await asyncio.get_running_loop().connect_accepted_socket(lambda: late, here)
    assert (late in fronted.front._proxied, fronted.front._direct) == (True, {})
    there.close()
    await until(lambda: not fronted.front._proxied)


async def test_connections_from_before_the_last_fault_went_are_ended(fronted, upstream):
    """They end with the answer under way, and the next request goes to the program itself."""
    await fronted.set(NEVER)
    asked, answered = asyncio.Event(), asyncio.Event()

    async def answer(request):
        asked.set()
        await answered.wait()
        return web.Response(text="done")

    upstream.answers["/slow"] = answer
    client = fronted.client()
    asking = asyncio.create_task(fronted.ask("GET", "/slow", client=client))
    await asked.wait()
    await fronted.set()
    answered.set()
    assert await asking == (200, b"done")
    await fronted.ask("GET", MAPS, client=client)
    assert upstream.seen[-1].user == "system:kube-scheduler"


async def test_a_program_that_is_gone_gives_no_answer(fronted, upstream):
    """With faults and without, connections end; no answer is made up."""
    await upstream.stop()
    for bodies in ((), (NEVER,)):
        await fronted.set(*bodies)
        with pytest.raises(BROKEN):
            await fronted.ask("GET", MAPS)


# -- users

ADMIN = [("X-Remote-User", "bob"), ("X-Remote-Group", "system:masters"), ("X-Remote-Uid", "1"),
         ("x-remote-extra-a", "b")]  # fmt: skip


def named(seen):
    return sorted(
        (name.lower(), value) for name, value in seen.headers.items() if name.lower().startswith("x-remote-")
    )


@pytest.mark.parametrize(
    "sent", [{}, {"Authorization": "Bearer known"}, {"Connection": "X-Remote-User, x-remote-group"}]
)
async def test_a_client_with_a_certificate_is_named(fronted, upstream, files, sent):
    """Name, groups and the certificate's id go on, whatever headers the client has sent, or says that they
    concern the connection alone; the certificate takes precedence over a token."""
    await fronted.set(NEVER)
    pair = files.authority.client("jane", "dev", "ops")
    headers = {**dict(ADMIN), **sent}
    await fronted.ask("GET", MAPS, headers=headers, client=fronted.client(pair))

    [seen] = upstream.seen
    assert seen.user == "front-proxy-client"
    (extra, value), *rest = named(seen)
    assert extra == "x-remote-extra-authentication.kubernetes.io%2fcredential-id"
    assert (value[:11], len(value)) == ("X509SHA256=", 75)
    assert rest == [
        *(("x-remote-group", group) for group in ("dev", "ops", "system:authenticated")),
        ("x-remote-user", "jane"),
    ]


@pytest.mark.parametrize(
    "names",
    [
        ("jane\r\nX-Remote-Group: system:masters",),
        (" kubernetes-admin",),
        ("jane", "dev\0"),
        ("jane", "dev "),
    ],
)
async def test_a_name_that_would_become_another_is_no_user(fronted, upstream, files, names):
    """Line breaks in a certificate's name or group make no headers, and spaces around it are not lost."""
    await fronted.set(NEVER)
    client = fronted.client(files.authority.client(*names))
    assert (await fronted.ask("GET", MAPS, client=client))[0] == 401
    assert upstream.seen == []


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer known"}, {"Impersonate-User": "x"}])
async def test_others_are_passed_on_without_a_certificate(fronted, upstream, headers):
    """Tokens and impersonation go on as they came; headers of a front proxy do not."""
    await fronted.set(NEVER)
    await fronted.ask("GET", MAPS, headers={**dict(ADMIN), **headers}, client=fronted.client(NOBODY))

    [seen] = upstream.seen
    assert (seen.user, named(seen)) == ("", [])
    assert {name: seen.headers.get(name) for name in headers} == headers


async def test_a_front_proxy_names_its_users(fronted, upstream, files):
    """A front proxy of the cluster's authority is believed as the program would believe it."""
    await fronted.set(NEVER)
    await fronted.ask("GET", MAPS, headers=dict(ADMIN), client=fronted.client(files.proxy))

    assert named(upstream.seen[0]) == [
        ("x-remote-extra-a", "b"),
        *(("x-remote-group", group) for group in ("system:authenticated", "system:masters")),
        *(("x-remote-uid", "1"), ("x-remote-user", "bob")),
    ]


async def test_a_front_proxy_that_names_nobody_is_no_user(fronted, upstream, files):
    """Its certificate makes it no client."""
    await fronted.set(NEVER)
    assert (await fronted.ask("GET", MAPS, client=fronted.client(files.proxy)))[0] == 401
    assert upstream.seen == []


# -- what passes


async def test_requests_and_answers_pass(fronted, upstream):
    """Target, headers and body arrive, and so do status, headers and body of the answer."""
    await fronted.set(NEVER)

    async def answer(request):
        headers = [("Warning", '299 - "a"'), ("Warning", '299 - "b"'), ("Audit-Id", "7")]
        return web.Response(body=b"z" * 2_000_000, status=418, headers=headers)

    upstream.answers["/odd path"] = answer
    body = bytes(range(256)) * 12_288
    client = fronted.client(NOBODY)
    sent = {"Accept": "a/b", "X-Own": "1", "Connection": "X-Own"}
    response = await client(Request("PATCH", "/odd%20path?a=%2F&b=", sent, body, 5.0))
    content = await response.body()
    await response.close()

    [seen] = upstream.seen
    assert (seen.method, seen.target, seen.body) == ("PATCH", "/odd%20path?a=%2F&b=", body)
    assert {*seen.headers} == {"Host", "Content-Length", "Accept"}
    assert seen.headers["Host"] == f"127.0.0.1:{fronted.port}"
    assert (response.status, content) == (418, b"z" * 2_000_000)
    assert (response.headers["warning"], response.headers["audit-id"]) == ('299 - "a", 299 - "b"', "7")


async def test_a_body_of_any_size_reaches_a_pod(fronted, upstream):
    """Large bodies go on in pieces, as they come; whether they are too large the program says."""
    await fronted.set(NEVER)

    async def pieces():
        for _ in range(70):
            yield b"x" * (1 << 20)

    async with aiohttp.ClientSession() as session:
        for target in ("/api/v1/namespaces/ns/pods/a/proxy/x", "/x"):
            url = f"{fronted.url}{target}"
            async with session.post(url, data=pieces(), ssl=fronted.context()) as response:
                await response.read()
            assert len(upstream.seen[-1].body) == 70 << 20


async def test_bodies_that_are_held_are_few(fronted, upstream, monkeypatch):
    """Bodies go on as they come, and wait for nobody, if clients announce more than is held at a time."""
    monkeypatch.setattr(front_proxy, "_HELD_MAX", 30)
    await fronted.set(NEVER)
    first, second = [
        await asyncio.open_connection("127.0.0.1", fronted.port, ssl=fronted.context()) for _ in range(2)
    ]
    head = b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\n\r\n"
    first[1].write(head)
    await until(lambda: fronted.proxy._plain._held == 20)
    second[1].write(head + b"s" * 20)
    await until(lambda: upstream.seen)
    first[1].write(b"f" * 20)
    await until(lambda: len(upstream.seen) > 1)
    assert [(seen.body[:1], seen.headers.get("Connection")) for seen in upstream.seen] == [
        (b"s", "close"),
        (b"f", None),
    ]
    for _, writer in (first, second):
        writer.close()


async def test_a_body_that_does_not_come_is_not_waited_for(fronted, upstream, monkeypatch):
    """The client has as long as a request may take, then 504."""
    monkeypatch.setattr(front_proxy, "MAX_SECONDS", 0.05)
    await fronted.set(NEVER)
    reader, writer = await asyncio.open_connection("127.0.0.1", fronted.port, ssl=fronted.context())
    writer.write(b"POST /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 20\r\n\r\n")
    async with asyncio.timeout(5):
        assert b" 100 " in await reader.readuntil(b"\r\n\r\n")
        assert b" 504 " in await reader.readuntil(b"\r\n")
    writer.close()
    assert upstream.seen == []


async def test_a_refused_upgrade_has_a_body(fronted, upstream):
    """A body sent with a wish to upgrade goes on, and an answer of any length comes back."""
    await fronted.set(NEVER)

    async def answer(_):
        return web.Response(text="z" * 5_000)

    upstream.answers["/x"] = answer
    headers = {"Connection": "Upgrade", "Upgrade": "h2c"}
    assert await fronted.ask("POST", "/x", b"sent", headers) == (200, b"z" * 5_000)
    assert upstream.seen[0].body == b"sent"


async def test_a_head_has_no_body(fronted, upstream):
    """The connection can be used again."""
    await fronted.set(NEVER)
    async with aiohttp.ClientSession() as session:
        for _ in range(2):
            async with session.head(f"{fronted.url}{MAPS}", ssl=fronted.context()) as response:
                assert (response.status, await response.read()) == (200, b"")


@pytest.mark.parametrize("bodies", [(), (NEVER,)])
async def test_upgrades_join_client_and_program(fronted, upstream, bodies):
    """Both send as they like after the upgrade; a program that refuses it is believed."""
    await fronted.set(*bodies)

    async def answer(request):
        socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io",))
        await socket.prepare(request)
        async for message in socket:
            await socket.send_str(message.data.upper())
        return socket

    upstream.answers["/api/v1/namespaces/ns/pods/a/exec"] = answer
    async with aiohttp.ClientSession() as session:
        address = f"{fronted.url}/api/v1/namespaces/ns/pods/a/exec"
        connecting = session.ws_connect(address, ssl=fronted.context(), protocols=("v5.channel.k8s.io",))
        async with connecting as socket:
            await socket.send_str("hello")
            assert await socket.receive_str() == "HELLO"
            assert socket.protocol == "v5.channel.k8s.io"
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await session.ws_connect(f"{fronted.url}{MAPS}/none", ssl=fronted.context())
        assert refused.value.status == 404


# -- faults


@pytest.mark.parametrize(
    ("fault", "user", "code"),
    [
        ({**CREATE, "answer": 429, "retryAfter": 3}, "", 429),
        ({**CREATE, "answer": 503, "user": "system:kube-scheduler"}, "", 503),
        ({**CREATE, "answer": 503, "user": "admin"}, "", 200),
        ({**CREATE, "answer": 503, "user": "admin"}, "Bearer known", 503),
        ({**CREATE, "answer": 403, "user": "system:anonymous"}, "none", 403),
        ({"verb": "list", "resource": "configmaps", "answer": 500}, "", 200),
    ],
)
async def test_a_call_is_answered_instead_of_the_program(fronted, upstream, fault, user, code):
    """A fault selects by verb, resource and the user of a certificate or a token."""
    await fronted.set(fault)
    client = fronted.client(NOBODY) if user else fronted.client()
    headers = {"Authorization": user} if user.startswith("Bearer") else {}
    status, body = await fronted.ask("POST", MAPS, config_map("a"), headers, client)

    assert (status, len(upstream.seen)) == (code, code == 200)
    if code != 200:
        assert orjson.loads(body)["code"] == code
        await until(lambda: fronted.timeline)
        assert fronted.timeline[0][0] == "fault-fired"


@pytest.mark.parametrize(("lost", "made"), [("request", 0), ("answer", 1)])
async def test_requests_and_answers_get_lost(fronted, upstream, lost, made):
    """The connection ends; the program has done what was asked only if the answer alone is lost."""
    await fronted.set({**CREATE, "drop": lost})
    with pytest.raises(BROKEN):
        await fronted.ask("POST", MAPS, config_map("a"))
    assert len(upstream.seen) == made


@pytest.mark.parametrize(
    ("target", "headers"),
    [("exec", {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
               "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}), ("proxy/x", {})],
)  # fmt: skip
async def test_a_connection_of_a_lost_answer_ends(fronted, upstream, target, headers):
    """The program does not wait for a client that an upgrade or a stream was kept from."""
    gone = asyncio.Event()

    async def answer(request):
        made = web.WebSocketResponse() if headers else web.StreamResponse()
        try:
            await made.prepare(request)
            if headers:
                await made.receive()
            else:
                await made.write(b"x")
                await asyncio.Event().wait()
        finally:
            gone.set()
        return made

    path = f"/api/v1/namespaces/ns/pods/a/{target}"
    upstream.answers[path] = answer
    await fronted.set({"resource": "pods", "subresource": "*", "drop": "answer"})
    with pytest.raises(BROKEN):
        await fronted.ask("GET", path, headers=headers)
    async with asyncio.timeout(5):
        await gone.wait()


async def test_a_write_to_the_log_is_no_request(fronted, upstream):
    """A crash at a commit leaves clients with the program itself."""
    await fronted.set({**CREATE, "crash": "after"})
    assert (await fronted.ask("POST", MAPS, config_map("a")))[0] == 200
    assert (upstream.seen[0].user, fronted.killed) == ("system:kube-scheduler", [])


def event(kind, name):
    return orjson.dumps({"type": kind, "object": {"metadata": {"name": name, "namespace": "ns"}}}) + b"\n"


@pytest.mark.parametrize("form", ["json", "protobuf"])
@pytest.mark.parametrize(
    ("fault", "passed", "end"),
    [({"drop": "connection"}, 1, "broken"), ({"answer": 410}, 1, "error"), ({"stale": "60ms"}, 2, "ended")],
)
async def test_events_of_watches(fronted, upstream, form, fault, passed, end):
    """An event is lost with its connection, replaced by an error, or held back; those before it come."""
    pieces = [event("ADDED", "a"), event("ADDED", "b")]
    content_type = "application/json"
    if form == "protobuf":
        pieces = [frame("ADDED", "a"), frame("ADDED", "b")]
        content_type = "application/vnd.kubernetes.protobuf;stream=watch"

    async def answer(request):
        stream = web.StreamResponse(headers={"Content-Type": content_type})
        await stream.prepare(request)
        for piece in pieces:
            await stream.write(piece)
        return stream

    upstream.answers[MAPS] = answer
    await fronted.set({"event": "ADDED", "resource": "configmaps", "name": "b", **fault})
    response = await fronted.client()(Request("GET", f"{MAPS}?watch=true"))
    found = b""
    try:
        async for chunk in response.chunks():
            found += chunk
    except BROKEN:
        assert end == "broken"
    await response.close()
    through = b"".join(pieces[:passed])
    assert found.startswith(through)
    assert (b"Expired" in found) == (end == "error") == (len(found) > len(through))


async def test_an_answer_that_breaks_off_does_so_for_the_client(fronted, upstream):
    """Half an answer must not look like a whole one."""
    await fronted.set(NEVER)

    async def answer(request):
        stream = web.StreamResponse()
        await stream.prepare(request)
        await stream.write(b"half")
        request.transport.abort()
        return stream

    upstream.answers["/x"] = answer
    with pytest.raises(BROKEN):
        await fronted.ask("GET", "/x")


@pytest.mark.parametrize("watched", [True, False])
async def test_a_client_that_leaves_ends_the_programs_work(fronted, upstream, watched):
    """Nobody waits for what nobody reads."""
    await fronted.set(NEVER)
    asked = asyncio.Event()

    async def answer(request):
        asked.set()
        stream = web.StreamResponse()
        if watched:
            await stream.prepare(request)
        await asyncio.Event().wait()
        return stream

    upstream.answers[MAPS] = answer
    asking = asyncio.create_task(fronted.client()(Request("GET", f"{MAPS}?watch=true")))
    await asked.wait()
    if watched:
        await (await asking).close()
    else:
        asking.cancel()
    async with asyncio.timeout(5):
        await upstream.gone.wait()
    await asyncio.gather(asking, return_exceptions=True)


async def test_an_outage_refuses_connections(fronted):
    """Connections that there are end, no new ones are accepted, and all is well after it."""
    await fronted.set(NEVER)
    client = fronted.client()
    await fronted.ask("GET", MAPS, client=client)
    await fronted.set({"outage": "refuse"})
    await until(lambda: not fronted.front._proxied)
    with pytest.raises(ConnectionRefusedError):
        await fronted.ask("GET", MAPS, client=client)
    await fronted.set()

    async def answered():
        with contextlib.suppress(ConnectionError):
            return (await fronted.ask("GET", MAPS, client=client))[0]

    assert await until(answered, 5) == 200


async def test_a_port_that_is_taken_after_an_outage_is_tried_again(fronted, monkeypatch, caplog):
    """The server comes back once the port is free."""
    monkeypatch.setattr(front, "REOPEN_SECONDS", 0.02)
    await fronted.set({"outage": "refuse"})
    await until(lambda: fronted.front._outage)
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", fronted.port))
        taken.listen()
        await fronted.set()
        await until(lambda: "cannot listen" in caplog.text)
    await until(lambda: fronted.front._listeners)
    assert (await fronted.ask("GET", MAPS))[0] == 200


async def test_an_outage_that_is_silent(fronted):
    """Requests wait until it is over, those that begin while it lasts."""
    await fronted.set({"outage": "hang"})
    asking = asyncio.create_task(fronted.ask("GET", MAPS))
    await asyncio.sleep(0.05)
    assert not asking.done()
    await fronted.set()
    assert (await asking)[0] == 200


async def test_an_outage_outlasts_the_programs_start(fronted):
    """A server that is started again meanwhile is not reached either."""
    await fronted.set({"outage": "refuse"})
    await until(lambda: fronted.front._outage)
    fronted.front.stop_listening()
    await fronted.front.listen()
    with pytest.raises(ConnectionRefusedError):
        await fronted.ask("GET", MAPS)
