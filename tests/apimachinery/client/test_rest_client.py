"""The API client: what it sends, what it makes of answers, and when it asks again."""

import aiohttp
import orjson
import pytest
from aiohttp import web

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.client.refs import CONFIG_MAPS, NODES, PODS, dra_refs
from kubeskew.apimachinery.client.rest import APIClient, user_agent
from kubeskew.apimachinery.client.transport import HTTPTransport, split_lines
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.versions import Version

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

POD = {"metadata": {"name": "p", "namespace": "ns"}, "spec": {}}


class Scripted:
    """A transport that gives the prepared answers in order and keeps the requests."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.requests = []

    async def __call__(self, request):
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def close(self):
        pass


class Answer:
    def __init__(self, content, status=200, **headers):
        self.content = content if isinstance(content, bytes) else orjson.dumps(content)
        self.status = status
        self.headers = {"Content-Type": "application/json"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }

    async def body(self):
        return self.content

    async def lines(self):
        for line in self.content.splitlines():
            yield line

    async def close(self):
        pass


async def collect(events, seen):
    async for event in events:
        seen.append(event)


def talking_to(clock, *answers):
    transport = Scripted(*answers)
    return APIClient(transport, clock=clock), transport.requests


@pytest.mark.parametrize(
    ("ref", "arguments", "path"),
    [
        pytest.param(PODS, (), "/api/v1/pods", id="all-namespaces"),
        pytest.param(PODS, ("ns", "p", "status"), "/api/v1/namespaces/ns/pods/p/status", id="subresource"),
        pytest.param(NODES, ("ignored", "n"), "/api/v1/nodes/n", id="cluster-scoped"),
        pytest.param(
            dra_refs(Version(32)).claims,
            ("ns", "c"),
            "/apis/resource.k8s.io/v1beta1/namespaces/ns/resourceclaims/c",
            id="group",
        ),
        pytest.param(CONFIG_MAPS, ("ns", "a/b"), "/api/v1/namespaces/ns/configmaps/a%2Fb", id="escaped"),
    ],
)
async def test_paths(ref, arguments, path):
    """A ref knows the URL of its collection, objects and subresources."""
    assert path == ref.path(*arguments)


@pytest.mark.parametrize(
    ("minor", "version", "classes"),
    [
        (26, "v1alpha1", "resourceclasses"),
        (30, "v1alpha2", "resourceclasses"),
        (31, "v1alpha3", "deviceclasses"),
        (33, "v1beta1", "deviceclasses"),
        (34, "v1", "deviceclasses"),
        (37, "v1", "deviceclasses"),
    ],
)
async def test_components_speak_the_dra_version_of_their_release(minor, version, classes):
    """Each minor's components use the version of resource.k8s.io that upstream's do."""
    refs = dra_refs(Version(minor))

    assert (version, version, classes) == (refs.version, refs.slices.version, refs.device_classes.plural)


async def test_the_user_agent_has_upstreams_form():
    """Servers and logs recognise a component by it."""
    assert user_agent("kube-scheduler", Version(36)).startswith("kube-scheduler/v1.36.5 (linux/")
    assert user_agent("kube-scheduler", Version(36)).endswith(") kubernetes/kubeskew")


async def test_an_error_status_is_raised(clock):
    """Failures carry the server's code, reason and message."""
    failure = errors.not_found(PODS.group_resource, "p")
    client, _ = talking_to(clock, Answer(failure.status(), 404))
    with pytest.raises(StatusError) as raised:
        await client.get(PODS, "p", "ns")

    assert (404, "NotFound", failure.message) == (
        raised.value.code,
        raised.value.reason,
        raised.value.message,
    )


async def test_an_error_without_a_status_gets_one(clock):
    """A proxy's plain text becomes a StatusError with the reason of its code."""
    client, _ = talking_to(clock, Answer(b"go away", 403, Content_Type="text/plain"))
    with pytest.raises(StatusError) as raised:
        await client.get(PODS, "p", "ns")

    assert (raised.value.code, raised.value.reason, raised.value.message) == (403, "Forbidden", "go away")


async def test_refusals_with_retry_after_are_repeated(clock, looptime):
    """429 and 503 are asked again after the time the server says, writes too."""
    busy = errors.too_many_requests("busy", 2).status()
    client, requests = talking_to(
        clock, Answer(busy, 429, Retry_After="2"), Answer(busy, 503, Retry_After="3"), Answer(POD)
    )

    assert await client.create(PODS, POD) == POD
    assert looptime == 5
    assert len(requests) == 3


async def test_a_refusal_without_retry_after_is_final(clock):
    """Only the server decides that asking again makes sense."""
    client, requests = talking_to(clock, Answer(errors.service_unavailable("no").status(), 503))
    with pytest.raises(StatusError):
        await client.get(PODS, "p", "ns")

    assert len(requests) == 1


async def test_reads_survive_a_reset_connection(clock):
    """A read on a connection that the restarting server closed goes out again."""
    client, _ = talking_to(clock, aiohttp.ServerDisconnectedError(), ConnectionResetError(), Answer(POD))

    assert await client.get(PODS, "p", "ns") == POD


async def test_writes_are_not_repeated_after_a_reset(clock):
    """Nobody knows whether the server acted, so the caller decides."""
    client, requests = talking_to(clock, aiohttp.ServerDisconnectedError())
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await client.create(PODS, POD)

    assert len(requests) == 1


async def test_list_items_say_their_kind(clock):
    """Servers leave kind and apiVersion out of list items; the client puts them back."""
    client, _ = talking_to(clock, Answer({"metadata": {"resourceVersion": "7"}, "items": [POD]}))
    found = await client.list(PODS, "ns", "a=b", limit=5)

    assert found["items"] == [{"kind": "Pod", "apiVersion": "v1", **POD}]


async def test_queries_leave_out_what_is_empty(clock):
    """Only selectors and options that are given reach the URL."""
    client, requests = talking_to(clock, Answer({"items": None}))
    found = await client.list(PODS, "", "a in (b,c)", "spec.nodeName=n")

    assert requests[0].target == "/api/v1/pods?labelSelector=a+in+%28b%2Cc%29&fieldSelector=spec.nodeName%3Dn"
    assert found["items"] == []


async def test_delete_sends_its_options(clock):
    """Grace period zero is not the same as none."""
    client, requests = talking_to(clock, Answer(POD))
    await client.delete(PODS, "p", "ns", grace_period=0, propagation="Orphan", preconditions={"uid": "u"})

    assert orjson.loads(requests[0].body) == {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Orphan",
        "preconditions": {"uid": "u"},
    }


async def test_apply_goes_out_as_an_apply_patch(clock):
    """Kind and version are filled in; manager and force are in the query."""
    client, requests = talking_to(clock, Answer(POD))
    await client.apply(PODS, POD, field_manager="me", force=True, subresource="status")

    assert requests[0].target == "/api/v1/namespaces/ns/pods/p/status?fieldManager=me&force=true"
    assert requests[0].headers["Content-Type"] == "application/apply-patch+yaml"
    assert orjson.loads(requests[0].body) == {"apiVersion": "v1", "kind": "Pod", **POD}


async def test_watch_gives_events_and_raises_errors(clock):
    """An ERROR event ends the stream as a StatusError."""
    lines = [{"type": "ADDED", "object": POD}, {"type": "ERROR", "object": errors.expired("old").status()}]
    client, _ = talking_to(clock, Answer(b"\n".join(orjson.dumps(line) for line in lines)))
    seen = []
    with pytest.raises(StatusError, match="old"):
        await collect(client.watch(PODS, resource_version="1"), seen)

    assert seen == [("ADDED", POD)]


async def test_lines_may_come_in_any_pieces():
    """Chunk borders mean nothing; empty lines are skipped; the last line needs no end."""

    async def chunks():
        for chunk in (b"o", b"ne\ntw", b"o", b"\n\nthr", b"ee"):
            yield chunk

    assert [line async for line in split_lines(chunks())] == [b"one", b"two", b"three"]


@pytest.mark.looptime(False)
async def test_http_survives_a_server_restart():
    """A client goes on with a new server at the same port; long lines pass through watches."""
    big = "x" * 500_000

    async def answer(request):
        if "watch" in request.query:
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(orjson.dumps({"type": "ADDED", "object": {"big": big}}) + b"\n")
            return response
        return web.json_response({"agent": request.headers["User-Agent"]})

    async def serve(port):
        app = web.Application()
        app.router.add_get("/{path:.*}", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", port, reuse_address=True)
        await site.start()
        return runner, site._server.sockets[0].getsockname()[1]

    runner, port = await serve(0)
    client = APIClient(HTTPTransport(f"http://127.0.0.1:{port}"), headers={"User-Agent": "me"})
    try:
        assert await client.request("GET", "/version") == {"agent": "me"}

        await runner.cleanup()
        with pytest.raises(ConnectionRefusedError):
            await client.request("GET", "/version")
        runner, _ = await serve(port)

        assert await client.request("GET", "/version") == {"agent": "me"}
        assert [big] == [obj["big"] async for _, obj in client.watch(PODS)]
    finally:
        await client.close()
        await runner.cleanup()
