"""Access to a node's server: TLS, client certificates, and what is open to all."""

import ssl
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import aiohttp
import orjson
import pytest
from aiohttp import web

from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.clock import SystemClock
from kubeskew.cluster.pki import Authority
from kubeskew.kubelet.server.access import Access, AccessOptions
from kubeskew.kubelet.server.server import Credentials, Listener, Routes
from kubeskew.kubelet.server.stats import ServerError


class Pages:
    """Answers everything."""

    async def serve(self, request, _path):
        return web.Response(text="served")


@pytest.fixture
def pki(tmp_path):
    """An authority, and how to write a pair of its: (directory, function)."""
    authority = Authority.create(datetime.now(UTC))

    def write(name, pair):
        (tmp_path / f"{name}.crt").write_bytes(pair.certificate)
        (tmp_path / f"{name}.key").write_bytes(pair.key)
        return str(tmp_path / f"{name}.crt"), str(tmp_path / f"{name}.key")

    (tmp_path / "ca.crt").write_bytes(authority.pair.certificate)
    return authority, write, str(tmp_path / "ca.crt")


class Reviews:
    """An API server that reviews: it knows tokens, and who may what of its node."""

    def __init__(self):
        self.tokens = {"good": {"username": "prometheus", "groups": ["monitoring"], "uid": "u"}}
        self.allowed = {
            ("prometheus", "get", "metrics"),
            ("admin", "get", "proxy"),
            ("reader", "get", "pods"),
        }
        self.asked = []
        self.away = False

    async def __call__(self, request):
        if self.away:
            raise ConnectionError("away")
        review = orjson.loads(request.body)
        spec = review["spec"]
        if "token" in spec:
            self.asked.append(spec["token"])
            user = self.tokens.get(spec["token"])
            review["status"] = {"authenticated": True, "user": user} if user else {}
        else:
            attributes = spec["resourceAttributes"]
            assert (attributes["resource"], attributes["name"]) == ("nodes", "n")
            key = (spec["user"], attributes["verb"], attributes["subresource"])
            self.asked.append(key)
            review["status"] = {"allowed": key in self.allowed}
        return Reviewed(review)

    async def close(self):
        pass


class Reviewed:
    status, headers = 201, {"Content-Type": "application/json"}

    def __init__(self, review):
        self._review = review

    async def body(self):
        return orjson.dumps(self._review)

    async def close(self):
        pass


class Server:
    """A node's server, asked as somebody."""

    def __init__(self, pki, reviews, clock, **how):
        self.authority, self.write, self.ca = pki
        certificate, key = self.write("kubelet", self.authority.node_serving(["127.0.0.1"]))
        how = {"fine_grained": True, "plural": True, "options": AccessOptions(), **how}
        access = Access(APIClient(reviews), clock, "n", how.pop("options"), **how)
        self.listener = Listener(Pages(), Credentials(certificate, key, self.ca).context(), access)

    async def get(self, path, user="", token="", method="GET"):
        context = ssl.create_default_context(cafile=self.ca)
        if user:
            context.load_cert_chain(*self.write(user, self.authority.client(user)))
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        url = f"https://127.0.0.1:{self.listener.port}{path}"
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, url, ssl=context, headers=headers) as answer,
        ):
            return answer.status, await answer.text()


@asynccontextmanager
async def serving(pki, reviews, clock=None, **how):
    server = Server(pki, reviews, clock or SystemClock(), **how)
    await server.listener.start("127.0.0.1", 0)
    try:
        yield server
    finally:
        await server.listener.stop()


async def test_who_may_ask(pki):
    """Tokens and certificates say who asks, the API server whether they may, by the path's subresource."""
    async with serving(pki, Reviews()) as server:
        assert await server.get("/metrics/cadvisor", token="good") == (200, "served")
        assert await server.get("/pods", user="admin") == (200, "served")
        assert await server.get("/pods", user="reader") == (200, "served")
        assert await server.get("/pods") == (401, "Unauthorized")
        assert await server.get("/healthz") == (401, "Unauthorized")
        assert await server.get("/metrics", token="bad") == (401, "Unauthorized")
        text = "Forbidden (user={}, verb={}, resource=nodes, subresource(s)=[{}])"
        for path, subresources in {
            "/pods": "pods proxy", "/runningpods/": "pods proxy", "/configz": "configz proxy",
            "/healthz/ping": "healthz proxy", "/stats/summary": "stats", "/logs/x": "log",
            "/exec/a/b/c": "proxy", "/metricsx": "proxy", "//metrics": "proxy",
        }.items():  # fmt: skip
            shown = text.format("prometheus", "get", subresources)
            assert await server.get(path, token="good") == (403, shown), path
        shown = text.format("prometheus", "create", "metrics")
        assert await server.get("/metrics", token="good", method="POST") == (403, shown)


async def test_before_paths_had_subresources_of_their_own(pki):
    """Without KubeletFineGrainedAuthz all but metrics, stats and logs is nodes/proxy."""
    async with serving(pki, Reviews(), fine_grained=False, plural=False) as server:
        shown = "Forbidden (user=reader, verb=get, resource=nodes, subresource=proxy)"
        assert await server.get("/pods", user="reader") == (403, shown)


async def test_flags_of_access(pki):
    """Anonymous requests, tokens and authorization go by the kubelet's flags."""
    reviews = Reviews()
    open_to_all = AccessOptions(anonymous=True, token_webhook=False)
    async with serving(pki, reviews, options=open_to_all) as server:
        shown = "Forbidden (user=system:anonymous, verb=get, resource=nodes, subresource(s)=[metrics])"
        assert await server.get("/metrics") == (403, shown)
        assert await server.get("/metrics", token="good") == (403, shown)
        reviews.allowed.add(("system:anonymous", "get", "stats"))
        assert (await server.get("/stats/summary"))[0] == 200
    async with serving(pki, reviews, options=AccessOptions(authorization_webhook=False)) as server:
        assert (await server.get("/metrics"))[0] == 401
        assert (await server.get("/run/a/b/c", user="somebody"))[0] == 200


class ClockAt(SystemClock):
    def __init__(self):
        self.seconds = 0.0

    def monotonic(self):
        return self.seconds


async def test_answers_of_the_api_server_hold_for_some_time(pki):
    """A token holds two minutes, a yes five minutes and a no half a minute; without any answer nobody may."""
    reviews, clock = Reviews(), ClockAt()
    async with serving(pki, reviews, clock) as server:
        for _ in range(2):
            await server.get("/metrics", token="good")
            await server.get("/stats", token="good")
        assert reviews.asked == ["good", ("prometheus", "get", "metrics"), ("prometheus", "get", "stats")]
        reviews.asked.clear()
        clock.seconds = 31
        await server.get("/stats", token="good")
        assert reviews.asked == [("prometheus", "get", "stats")]
        reviews.away = True
        clock.seconds = 119
        assert (await server.get("/metrics", token="good"))[0] == 200
        about = "(user=prometheus, verb=get, resource=nodes, subresource(s)=[stats])"
        assert await server.get("/stats", token="good") == (500, f"Authorization error {about}")
        clock.seconds = 121
        assert (await server.get("/metrics", token="good"))[0] == 401


@pytest.mark.parametrize(
    ("method", "accept", "status", "text"),
    [
        ("GET", "application/json", 406, "406: Not Acceptable\n\nAvailable representations: "),
        ("POST", "application/json", 415, "415: Unsupported Media Type\n\nAvailable representations: "),
        ("GET", "application/json, */*;q=0.1", 404, "pod does not exist"),
        ("GET", None, 404, "pod does not exist"),
    ],
)
async def test_streams_are_for_clients_that_take_any_type(method, accept, status, text):
    """A page that says nothing of its media types serves nobody who names some, as real kubelets do."""

    class Request:
        headers = {} if accept is None else {"Accept": accept}

    Request.method = method
    routes = Routes(_NodeWithoutPods(), health=None)
    answer = await routes.serve(Request(), "/exec/default/pod/c")
    assert (answer.status, answer.text) == (status, text)


class _NodeWithoutPods:
    def running(self, _namespace, _pod, _container):
        raise ServerError(404, "pod does not exist")
