"""The proxy between a program and its API server: what goes through, as whom, and what faults do to it."""

import asyncio
import base64
import contextlib

import aiohttp
import orjson
import pytest
from aiohttp import web
from faulty_clients import Notes
from protobuf_frames import frame
from until import until
from upstream_server import Upstream

from kubeskew.apimachinery.client.kubeconfig import Kubeconfig
from kubeskew.apimachinery.client.transport import HTTPTransport, Request
from kubeskew.apimachinery.clock import SystemClock
from kubeskew.apimachinery.faults.decisions import Progress
from kubeskew.apimachinery.faults.fault import call_of
from kubeskew.apimachinery.faults.injector import Injector
from kubeskew.apimachinery.faults.syntax import read
from kubeskew.apimachinery.protobuf_wire import MAGIC, encode_bytes, encode_text, payload
from kubeskew.shim.leadership import Leadership
from kubeskew.shim.proxy import Proxy
from kubeskew.shim.traffic import Traffic

PODS = "/api/v1/namespaces/ns/pods"
MAPS = "/api/v1/namespaces/ns/configmaps"
BROKEN = (aiohttp.ClientError, ConnectionError)


class Setup:
    """A proxy in front of an API server, and programs that use it."""

    def __init__(self, files, config):
        self.files = files
        self.notes = Notes()
        self.injector = Injector("scheduler", SystemClock(), self.notes, self.notes.crash, self.notes.record)
        self.leadership = Leadership("kube-system/kube-scheduler")
        self.traffic = Traffic(asyncio.get_running_loop().time)
        self.proxy = Proxy(config, self.leadership, self.traffic, self.injector)
        self.clients = []

    def client(self, user="system:kube-scheduler"):
        """The component's own certificate, that of another one, or none."""
        pair = self.files.client if user == self.files_user else self.files.authority.client(user or "x")
        config = Kubeconfig(
            self.proxy.url,
            ca=self.files.ca.read_bytes(),
            certificate=pair.certificate if user else b"",
            key=pair.key,
        )
        made = HTTPTransport(config.server, config.ssl_context())
        self.clients.append(made)
        return made

    files_user = "system:kube-scheduler"

    def set(self, *bodies, component="scheduler"):
        faults = [read({"component": component, "id": f"f{at}", **body}) for at, body in enumerate(bodies)]
        self.injector.apply([(fault, Progress()) for fault in faults])

    async def ask(self, method, target, body=None, headers=None, client=None):
        content = orjson.dumps(body) if isinstance(body, dict) else body
        response = await (client or self.client())(Request(method, target, headers or {}, content, 5.0))
        try:
            return response.status, await response.body()
        finally:
            await response.close()

    async def close(self):
        await self.proxy.close()
        for client in self.clients:
            await client.close()


def config_of(files, *servers):
    return Kubeconfig(
        servers[0],
        ca=files.ca.read_bytes(),
        certificate=files.client.certificate,
        key=files.client.key,
        others=servers[1:],
    )


@contextlib.asynccontextmanager
async def set_up(files, *servers):
    setup = Setup(files, config_of(files, *servers))
    await setup.proxy.start(files.context())
    try:
        yield setup
    finally:
        await setup.close()


@pytest.fixture
async def setup(files, upstream):
    async with set_up(files, upstream.url) as made:
        yield made


async def test_requests_and_answers_pass_unchanged(setup, upstream):
    """Target, headers and body arrive as they were sent, and so do status, headers and body of the answer;
    but headers of one connection stay there."""

    async def answer(request):
        headers = [("Warning", '299 - "a"'), ("Warning", '299 - "b"'), ("Audit-Id", "7"), ("X-Case", "äö")]
        return web.Response(body=b"z" * 2_000_000, status=418, headers=headers)

    upstream.answers["/odd path"] = answer
    sent = {"Accept": "a/b", "traceparent": "00-1", "X-Own": "1", "Connection": "X-Own", "TE": "trailers"}
    body = bytes(range(256)) * 12_288
    client = setup.client()
    response = await client(Request("PATCH", "/odd%20path?a=%2F&b", sent, body, 5.0))
    content = await response.body()
    await response.close()

    [seen] = upstream.seen
    assert (seen.method, seen.target, seen.body) == ("PATCH", "/odd%20path?a=%2F&b", body)
    assert [*seen.headers.items()] == [
        ("Host", f"127.0.0.1:{upstream.port}"),
        ("Content-Length", str(len(body))),
        ("Accept", "a/b"),
        ("traceparent", "00-1"),
    ]
    assert (response.status, content) == (418, b"z" * 2_000_000)
    assert (response.headers["warning"], response.headers["audit-id"]) == ('299 - "a", 299 - "b"', "7")
    assert "transfer-encoding" not in response.headers


async def test_connections_are_kept_on_both_sides(setup, upstream):
    """Requests one after another use one connection to the proxy, and one to the server."""
    client = setup.client()
    ports = set()

    async def answer(request):
        ports.add(request.transport.get_extra_info("peername")[1])
        return web.Response(text="")

    upstream.answers["/x"] = answer
    for _ in range(3):
        await setup.ask("GET", "/x", client=client)
    assert (len(setup.proxy.connections), len(ports)) == (1, 1)


TOKEN = ".".join(
    base64.urlsafe_b64encode(part).rstrip(b"=").decode()
    for part in (b"{}", b'{"sub":"system:serviceaccount:kube-system:gc"}', b"x")
)


@pytest.mark.parametrize(
    ("shown", "authorization", "user"),
    [
        ("system:kube-scheduler", "", "system:kube-scheduler"),
        ("system:kube-scheduler", f"Bearer {TOKEN}", ""),
        ("system:node:a", "", ""),
        ("", "", ""),
        ("", "Bearer x", ""),
    ],
)
async def test_only_the_component_gets_its_certificate(setup, upstream, shown, authorization, user):
    """A client with the component's certificate acts as it, unless the request has credentials of its own;
    others on the machine get no credentials lent, whatever certificate they have."""
    headers = {"Authorization": authorization} if authorization else {}
    await setup.ask("GET", PODS, headers=headers, client=setup.client(shown))

    [seen] = upstream.seen
    assert (seen.user, seen.headers.get("Authorization", "")) == (user, authorization)


async def test_a_stranger_does_not_ride_on_a_kept_connection(setup, upstream):
    """Connections to the server that were opened as the component are not used for others."""
    await setup.ask("GET", PODS)
    await setup.ask("GET", PODS, client=setup.client(""))
    await setup.ask("GET", PODS)

    assert [seen.user for seen in upstream.seen] == ["system:kube-scheduler", "", "system:kube-scheduler"]


async def test_a_certificate_that_was_renewed_is_the_components(setup, upstream, files):
    """The subject counts, which the authority has signed."""
    files_user, setup.files_user = setup.files_user, "none"
    await setup.ask("GET", PODS, client=setup.client(files_user))

    assert upstream.seen[0].user == "system:kube-scheduler"


def watched(upstream):
    """An answer without an end, whose pieces the test sends."""
    pieces = asyncio.Queue()

    async def answer(request):
        stream = web.StreamResponse(headers={"Content-Type": "application/json"})
        await stream.prepare(request)
        while (piece := await pieces.get()) is not None:
            await stream.write(piece)
        return stream

    upstream.answers[PODS] = answer
    return pieces


def event(name, kind="ADDED"):
    return orjson.dumps({"type": kind, "object": {"metadata": {"name": name, "namespace": "ns"}}})


async def test_watches_are_streamed_until_the_server_ends_them(setup, upstream):
    """Events come as they are sent, the head before the first one; the server's end is the client's."""
    pieces = watched(upstream)
    response = await setup.client()(Request("GET", f"{PODS}?watch=true"))
    lines = response.lines()
    for name in ("a", "b"):
        pieces.put_nowait(event(name) + b"\n")
        assert await anext(lines) == event(name)
    pieces.put_nowait(None)
    assert [line async for line in lines] == []
    await response.close()


async def test_a_client_that_leaves_ends_the_servers_work(setup, upstream):
    """A watch is ended at the server as soon as its client is gone."""
    watched(upstream)
    response = await setup.client()(Request("GET", f"{PODS}?watch=true"))
    await response.close()
    async with asyncio.timeout(5):
        await upstream.gone.wait()


async def test_an_answer_that_breaks_off_does_so_for_the_client(setup, upstream):
    """Half an answer must not look like a whole one."""

    async def answer(request):
        stream = web.StreamResponse()
        await stream.prepare(request)
        await stream.write(b"half")
        request.transport.abort()
        return stream

    upstream.answers["/x"] = answer
    with pytest.raises(BROKEN):
        await setup.ask("GET", "/x")


async def test_a_server_that_is_not_there_resets_the_connection(setup, upstream):
    """No answer is made up; the client may try again."""
    await upstream.stop()
    for _ in range(2):
        with pytest.raises(BROKEN):
            await setup.ask("GET", PODS)


async def test_an_error_that_is_not_foreseen_resets_the_connection(setup, monkeypatch):
    """The program does not wait for an answer that nobody will give."""

    def broken(asked):
        raise ValueError(asked.target)

    monkeypatch.setattr(setup.proxy, "call", broken)
    with pytest.raises(BROKEN):
        await setup.ask("GET", PODS)


async def test_another_server_takes_over(files, upstream):
    """Of several servers one that refuses connections is left for the next."""
    gone = await Upstream().start(files)
    await gone.stop()
    async with set_up(files, gone.url, upstream.url) as setup:
        assert (await setup.ask("GET", PODS))[0] == 200
    assert len(upstream.seen) == 1


@pytest.mark.parametrize(
    "raw",
    [
        b"GET http://other/ HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        b"nonsense\r\n\r\n",
    ],
)
async def test_what_is_no_request_ends_the_connection(setup, upstream, files, raw):
    """The proxy is none for other hosts, and does not switch protocols."""
    context = config_of(files, setup.proxy.url).ssl_context()
    reader, writer = await asyncio.open_connection("127.0.0.1", setup.proxy.port, ssl=context)
    writer.write(raw)
    with contextlib.suppress(ConnectionError):
        assert await reader.read() == b""
    writer.transport.abort()
    assert upstream.seen == []


async def test_a_client_of_http_1_0_gets_no_chunks(setup, upstream, files):
    """Its answer ends with the connection."""
    pieces = watched(upstream)
    for piece in (b"a\n", b"b\n", None):
        pieces.put_nowait(piece)
    context = config_of(files, setup.proxy.url).ssl_context()
    reader, writer = await asyncio.open_connection("127.0.0.1", setup.proxy.port, ssl=context)
    writer.write(f"GET {PODS}?watch=1 HTTP/1.0\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    assert (head.startswith(b"HTTP/1.1 200 OK"), body) == (True, b"a\nb\n")


async def test_a_body_that_waits_for_leave_gets_it(setup, upstream, files):
    """`Expect: 100-continue` is answered here, where the body is kept."""
    context = config_of(files, setup.proxy.url).ssl_context()
    reader, writer = await asyncio.open_connection("127.0.0.1", setup.proxy.port, ssl=context)
    writer.write(b"PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
    assert await reader.readline() == b"HTTP/1.1 100 Continue\r\n"
    writer.write(b"hi")
    await reader.readuntil(b"HTTP/1.1 ")
    writer.transport.abort()
    assert (upstream.seen[0].body, "Expect" in upstream.seen[0].headers) == (b"hi", False)


# -- faults


def config_map(name):
    return {"metadata": {"name": name, "namespace": "ns"}}


def protobuf(name):
    """A create as typed Go clients send it."""
    return MAGIC + encode_bytes(2, encode_bytes(1, encode_text(1, name) + encode_text(3, "ns")))


CREATE = {"verb": "create", "resource": "configmaps", "name": "b"}


@pytest.mark.parametrize("body", [config_map("b"), protobuf("b")])
async def test_a_call_is_answered_instead_of_the_server(setup, upstream, body):
    """Errors have an API server's words; calls of other names go through, in JSON as in protobuf."""
    setup.set({**CREATE, "answer": 429, "retryAfter": 3})
    assert (await setup.ask("POST", MAPS, config_map("a")))[0] == 200
    content = body if isinstance(body, bytes) else orjson.dumps(body)
    response = await setup.client()(Request("POST", MAPS, {}, content, 5.0))
    status = orjson.loads(await response.body())
    await response.close()

    assert (status["code"], response.headers["retry-after"], len(upstream.seen)) == (429, "3", 1)
    assert setup.notes.noted == [("f0", 1, 1)]


async def test_a_client_that_takes_protobuf_alone_gets_it(setup):
    """Errors that no server gave come in a form that the client reads."""
    setup.set({"resource": "configmaps", "answer": 503})
    headers = {"Accept": "application/vnd.kubernetes.protobuf"}
    code, body = await setup.ask("GET", MAPS, headers=headers)
    assert (code, body[:4]) == (503, MAGIC)


@pytest.mark.parametrize(("lost", "made"), [("request", 0), ("answer", 1)])
async def test_requests_and_answers_get_lost(setup, upstream, lost, made):
    """The connection is reset; the server has done what was asked only if the answer alone is lost."""
    setup.set({**CREATE, "drop": lost})
    with pytest.raises(BROKEN):
        await setup.ask("POST", MAPS, config_map("b"))
    assert len(upstream.seen) == made


class HeldClock(SystemClock):
    """Whoever sleeps wakes up when the test wants it."""

    def __init__(self):
        self.slept = []
        self.over = asyncio.Event()

    async def sleep(self, seconds):
        self.slept.append(seconds)
        await self.over.wait()


async def test_a_delay(setup, upstream):
    """The call is made after its time."""
    setup.injector._clock = clock = HeldClock()
    setup.set({**CREATE, "delay": "80ms"})
    asking = asyncio.create_task(setup.ask("POST", MAPS, config_map("b")))
    await until(lambda: clock.slept)
    assert (clock.slept, upstream.seen) == ([0.08], [])
    clock.over.set()
    assert (await asking)[0] == 200


@pytest.mark.parametrize(("place", "made"), [("before", 0), ("after", 1)])
async def test_a_crash_before_or_after_the_call(setup, upstream, place, made):
    """The component dies at the second call, of which the server has learned or not; no answer comes."""
    setup.set({"verb": "create", "resource": "configmaps", "crash": place, "nth": 2})
    await setup.ask("POST", MAPS, config_map("a"))
    asking = asyncio.create_task(setup.ask("POST", MAPS, config_map("b")))
    await until(lambda: setup.notes.crashes)
    asking.cancel()

    assert setup.notes.crashes == [f"f0: crash {place}: create configmaps ns/b (call 2)"]
    assert len(upstream.seen) == 1 + made


async def test_an_outage_that_refuses(setup, upstream):
    """Watches are cut, and nothing gets through until it is over."""
    watched(upstream)
    response = await setup.client()(Request("GET", f"{PODS}?watch=true"))
    setup.set({"outage": True})
    with pytest.raises(BROKEN):
        async for _ in response.lines():
            pass
    await response.close()
    with pytest.raises(BROKEN):
        await setup.ask("GET", MAPS)
    setup.set()
    assert (await setup.ask("GET", MAPS))[0] == 200


async def test_an_outage_that_hangs(setup, upstream):
    """Requests wait, and so do events of watches, until it is over."""
    pieces = watched(upstream)
    response = await setup.client()(Request("GET", f"{PODS}?watch=true"))
    lines = response.lines()
    setup.set({"outage": "hang"})
    pieces.put_nowait(event("a") + b"\n")
    asking = asyncio.create_task(setup.ask("GET", MAPS))
    reading = asyncio.ensure_future(anext(lines))
    done, _ = await asyncio.wait({asking, reading}, timeout=0.06)
    assert done == set()
    setup.set()
    assert ((await asking)[0], await reading) == (200, event("a"))
    await response.close()


async def test_a_user_is_the_account_of_its_token(setup):
    """A fault may select the calls of one controller, which come with its own token."""
    account = "system:serviceaccount:kube-system:gc"
    fault = {"verb": "get", "resource": "configmaps", "user": account, "answer": 403}
    setup.set(fault, component="controller-manager")
    codes = [
        (await setup.ask("GET", f"{MAPS}/a", headers=headers))[0]
        for headers in ({}, {"Authorization": f"Bearer {TOKEN}"})
    ]
    assert codes == [404, 403]


async def events_of(setup, pieces, count, state):
    """The first events that come of a watch of a, b and c, and whether it is then open, ended or broken; only
    for an end it is worth waiting."""
    response = await setup.client()(Request("GET", f"{PODS}?watch=true"))
    for name in ("a", "b", "c"):
        pieces.put_nowait(event(name) + b"\n")
    lines = response.lines()
    found = [known(orjson.loads(await anext(lines))["object"]) for _ in range(count)]
    more = asyncio.ensure_future(anext(lines))
    await asyncio.wait({more}, timeout=0.03 if state == "open" else 10)
    if not more.done():
        state = "open"
        more.cancel()
    else:
        state = "ended" if isinstance(more.exception(), StopAsyncIteration) else "broken"
    await response.close()
    return found, state


def known(obj):
    return obj.get("code") or obj["metadata"]["name"]


WATCHED = {"event": "ADDED", "resource": "pods", "name": "b"}


@pytest.mark.parametrize(
    ("fault", "seen", "state"),
    [
        ({"drop": "connection"}, ["a"], "broken"),
        ({"answer": 410}, ["a", 410], "ended"),
        ({"stale": "60ms"}, ["a", "b", "c"], "open"),
        ({"stale": True}, ["a"], "open"),
        ({"delay": "40ms"}, ["a", "b", "c"], "open"),
    ],
)
async def test_events_of_watches(setup, upstream, fault, seen, state):
    """An event is held back, lost with its connection, or replaced by an error; those before it come."""
    setup.set({**WATCHED, **fault})
    async with asyncio.timeout(10):
        assert await events_of(setup, watched(upstream), len(seen), state) == (seen, state)


@pytest.mark.parametrize(("place", "names"), [("before", ["a"]), ("after", ["a", "b"])])
async def test_a_crash_at_an_event(setup, upstream, place, names):
    """The component dies before or after it gets the event."""
    setup.set({**WATCHED, "crash": place})
    async with asyncio.timeout(10):
        assert await events_of(setup, watched(upstream), len(names), "open") == (names, "open")
    await until(lambda: setup.notes.crashes)
    assert setup.notes.crashes == [f"f0: crash {place}: ADDED event of pods ns/b (call 1)"]


async def test_events_in_protobuf(setup, upstream):
    """They are selected by type and name as those in JSON are, and an error comes as a frame."""

    async def answer(request):
        kind = "application/vnd.kubernetes.protobuf;stream=watch"
        stream = web.StreamResponse(headers={"Content-Type": kind})
        await stream.prepare(request)
        await stream.write(frame("ADDED", "b")[:7])
        await stream.write(frame("ADDED", "b")[7:] + frame("DELETED", "a") + frame("DELETED", "b"))
        return stream

    upstream.answers[PODS] = answer
    setup.set({**WATCHED, "event": "DELETED", "answer": 410})
    code, body = await setup.ask("GET", f"{PODS}?watch=true")
    through = frame("ADDED", "b") + frame("DELETED", "a")
    assert (code, body[: len(through)]) == (200, through)
    rest = body[len(through) :]
    assert (int.from_bytes(rest[:4], "big"), payload(rest[4:], 1)) == (len(rest) - 4, b"ERROR")


async def test_a_client_that_does_not_read_holds_the_server_back(setup, upstream):
    """Only so much of an answer is kept here; the rest comes once there is room."""
    sent = 0

    async def answer(request):
        nonlocal sent
        stream = web.StreamResponse()
        await stream.prepare(request)
        for sent in range(1, 41):  # noqa: B007 - looked at outside
            await stream.write(b"x" * 1_000_000)
        return stream

    upstream.answers["/x"] = answer
    response = await setup.client()(Request("GET", "/x"))
    last = -1
    while sent != last:
        last = sent
        await asyncio.sleep(0.05)
    assert sent < 40
    assert sum([len(chunk) async for chunk in response.chunks()]) == 40_000_000
    await response.close()


async def test_a_fault_concerns_watches_that_are_open(setup, upstream):
    """A fault that is set later holds the next event, though another one is on its way in part."""
    pieces = watched(upstream)
    response = await setup.client()(Request("GET", f"{PODS}?watch=true"))
    lines = response.lines()
    first = event("a") + b"\n"
    pieces.put_nowait(first + event("b")[:10])
    assert await anext(lines) == event("a")
    setup.set({"event": "*", "resource": "pods", "drop": "connection"})
    pieces.put_nowait(event("b")[10:] + b"\n")
    assert await anext(lines) == event("b")
    pieces.put_nowait(event("c") + b"\n")
    with pytest.raises(BROKEN):
        await anext(lines)
    await response.close()


# -- facts that the shim learns


LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


def lease(holder, name="kube-scheduler"):
    return {"metadata": {"name": name, "namespace": "kube-system"}, "spec": {"holderIdentity": holder}}


def protobuf_lease(holder):
    metadata = encode_text(1, "kube-scheduler") + encode_text(3, "kube-system")
    return MAGIC + encode_bytes(2, encode_bytes(1, metadata) + encode_bytes(2, encode_text(1, holder)))


async def test_leading_is_a_write_of_the_lease_that_succeeded(setup, upstream):
    """Reads, writes of other leases and writes that fail say nothing; a lease without a holder is given
    back."""
    found = []
    for method, target, body in (
        ("GET", f"{LEASES}/kube-scheduler", None),
        ("POST", LEASES, lease("me", "other")),
        ("PUT", f"{LEASES}/kube-scheduler", lease("me")),  # 404
        ("POST", LEASES, lease("me")),
        ("PUT", f"{LEASES}/kube-scheduler", lease("")),
        ("PUT", f"{LEASES}/kube-scheduler", lease("you")),
    ):
        await setup.ask(method, target, body)
        found.append((setup.leadership.leading, setup.leadership.identity))
    assert found == [(False, "")] * 3 + [(True, "me"), (False, ""), (True, "you")]


@pytest.mark.parametrize(
    ("body", "known"),
    [
        (protobuf_lease("me"), (True, "me")),
        (protobuf_lease(""), (False, "")),
        (b'{"spec":{"renewTime":"x"}}', (True, "")),
        (b"no json", (True, "")),
    ],
)
def test_the_holder_of_a_lease(body, known):
    """It is read of protobuf, too; a patch of something else leaves the holder as it is."""
    leadership = Leadership("kube-system/kube-scheduler")
    assert leadership.is_write("PUT", f"{LEASES}/kube-scheduler", body)
    leadership.written(body)
    assert (leadership.leading, leadership.identity) == known


def test_informers_settle():
    """They have when a watch is open, no list is under way, and none has begun for a while; a watch that
    begins with the objects is like a list."""
    now = 0.0
    traffic = Traffic(lambda: now)
    listing, watching = (call_of("GET", f"{PODS}{query}") for query in ("", "?watch=true"))
    steps = []
    for at, done in (
        (1.0, lambda: traffic.begun(listing, PODS)),
        (2.0, lambda: traffic.ended(listing)),
        (2.05, lambda: traffic.begun(watching, f"{PODS}?watch=true")),
        (2.1, lambda: traffic.begun(watching, f"{PODS}?watch=true&sendInitialEvents=true")),
        (2.15, lambda: None),
        (2.3, lambda: None),
        (2.4, lambda: traffic.ended(watching)),
    ):
        now = at
        done()
        steps.append(traffic.settle())
    assert steps == [False] * 5 + [True, True]


def test_watches_of_single_objects_do_not_count():
    """A program that watches only these has no informers yet."""
    traffic = Traffic(lambda: 0.0)
    target = f"{PODS}?fieldSelector=metadata.name%3Da&watch=true"
    assert [traffic.counts(call_of("GET", each), each) for each in (target, PODS, "/api")] == [
        False,
        True,
        False,
    ]
