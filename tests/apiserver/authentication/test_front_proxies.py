"""Front proxies name users in headers; clients cannot, and proxies are no users."""

import asyncio
import json
import ssl
from datetime import UTC, datetime

import aiohttp
import pytest
from server_in_process import ADMIN, Caller, close_server, open_server
from until import until

from kubeskew.apimachinery.security.tls import serving_context
from kubeskew.cluster.pki import Authority

WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
CONFIG = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
NAMED = [
    ("X-Remote-User", "alice"), ("X-Remote-Group", "devs"), ("X-Remote-Group", "ops"),
    ("X-Remote-Extra-Acme.com%2Fproject", "x"), ("X-Remote-Extra-Acme.com%2Fproject", "y"),
    ("X-Remote-Uid", "42"),
]  # fmt: skip


class Cluster:
    """Holds two authorities, their files and a server that listens with TLS."""

    def __init__(self, directory, minor=36):
        now = datetime.now(UTC)
        self.directory, self.minor = directory, minor
        self.clients, self.proxies = Authority.create(now, "clients"), Authority.create(now, "proxies")
        self._file("clients.crt", self.clients.pair.certificate)
        self._file("proxies.crt", self.proxies.pair.certificate)
        pair = self.clients.serving()
        self._file("serving.crt", pair.certificate)
        self._file("serving.key", pair.key)

    def _file(self, name, content):
        (self.directory / name).write_bytes(content)
        return str(self.directory / name)

    async def __aenter__(self):
        self.server = await open_server(
            self.minor,
            client_ca_file=str(self.directory / "clients.crt"),
            requestheader_client_ca_file=str(self.directory / "proxies.crt"),
            requestheader_allowed_names=("front-proxy-client",),
            requestheader_username_headers=("X-Remote-User",),
            requestheader_uid_headers=("X-Remote-Uid",),
            requestheader_group_headers=("X-Remote-Group",),
            requestheader_extra_headers_prefix=("X-Remote-Extra-",),
        )
        files = [
            str(self.directory / name)
            for name in ("serving.crt", "serving.key", "clients.crt", "proxies.crt")
        ]
        self.port = await self.server.listener.accept("127.0.0.1", 0, serving_context(*files))
        return self

    async def __aexit__(self, *_):
        self.server.listener.finish()
        await self.server.listener.close(0)
        await close_server(self.server)

    async def ask(self, pair, headers=NAMED):
        """Status and user of who asks with a certificate and headers."""
        context = ssl.create_default_context(cafile=str(self.directory / "clients.crt"))
        if pair is not None:
            certificate, key = self._file("c.crt", pair.certificate), self._file("c.key", pair.key)
            context.load_cert_chain(certificate, key)
        url = f"https://127.0.0.1:{self.port}{WHO}"
        async with (
            aiohttp.ClientSession() as session,
            session.post(url, json=REVIEW, headers=headers, ssl=context) as answer,
        ):
            body = await answer.json()
            return answer.status, (body.get("status") or {}).get("userInfo") if answer.status == 201 else None


@pytest.fixture
async def cluster(tmp_path):
    async with Cluster(tmp_path) as cluster:
        yield cluster


async def test_a_front_proxy_names_users(cluster):
    """With a certificate of its authority and an allowed name, the headers say who asks."""
    status, user = await cluster.ask(cluster.proxies.client("front-proxy-client"))

    assert status == 201
    assert user == {
        "username": "alice",
        "uid": "42",
        "groups": ["devs", "ops", "system:authenticated"],
        "extra": {"acme.com/project": ["x", "y"]},
    }


async def test_nobody_else_does(cluster):
    """A client stays who it is; another name is refused, and so is a proxy that names nobody."""
    status, user = await cluster.ask(cluster.clients.client("bob", "system:masters"))
    assert (status, user["username"]) == (201, "bob")
    status, user = await cluster.ask(cluster.clients.client("front-proxy-client"))
    assert (status, user["username"]) == (201, "front-proxy-client")  # a client of that name, no proxy
    assert (await cluster.ask(None))[0] == 403  # anonymous, who may not
    assert (await cluster.ask(cluster.proxies.client("other")))[0] == 401
    assert (await cluster.ask(cluster.proxies.client("front-proxy-client"), []))[0] == 401
    masters = cluster.proxies.client("mallory", "system:masters")
    assert (await cluster.ask(masters, []))[0] == 401


async def test_a_resumed_connection_is_no_other(cluster):
    """A resumed TLS connection authenticates the same client as the first one."""
    pair = cluster.proxies.client("front-proxy-client")
    found = [await cluster.ask(pair) for _ in range(3)]
    assert {status for status, _ in found} == {201}


@pytest.mark.parametrize("minor", [28, 36])
async def test_extension_servers_are_informed(tmp_path, minor):
    """The config map holds both authorities and the headers; the header for uids from its gate on."""
    async with Cluster(tmp_path, minor) as cluster:
        data = (await Caller(cluster.server, ADMIN).get(CONFIG)).body["data"]
    published = {name.removeprefix("requestheader-"): text for name, text in data.items()}

    assert published.pop("client-ca-file") in {
        cluster.proxies.pair.certificate.decode(),
        cluster.clients.pair.certificate.decode(),
    }
    assert data["client-ca-file"] == cluster.clients.pair.certificate.decode()
    assert data["requestheader-client-ca-file"] == cluster.proxies.pair.certificate.decode()
    assert published == {
        "username-headers": '["X-Remote-User"]',
        "group-headers": '["X-Remote-Group"]',
        "extra-headers-prefix": '["X-Remote-Extra-"]',
        "allowed-names": '["front-proxy-client"]',
        **({"uid-headers": '["X-Remote-Uid"]'} if minor >= 33 else {}),
    }


async def test_what_was_published_before_is_completed(tmp_path):
    """A server adds what an older cluster lacks, and keeps other servers' authorities."""
    url = f"sqlite+aiosqlite:///{tmp_path}/log.db"
    cluster = Cluster(tmp_path)
    first, second = str(tmp_path / "proxies.crt"), str(tmp_path / "clients.crt")
    await close_server(await open_server(url=url, client_ca_file=first))
    server = await open_server(
        url=url, client_ca_file=second, requestheader_client_ca_file=first, requestheader_allowed_names=("a",)
    )
    data = (await Caller(server, ADMIN).get(CONFIG)).body["data"]
    await close_server(server)

    both = (cluster.proxies, cluster.clients)
    assert data["client-ca-file"] == "".join(each.pair.certificate.decode() for each in both)
    assert json.loads(data["requestheader-allowed-names"]) == ["a"]


async def test_an_extension_server_sees_the_front_proxy(tmp_path):
    """The aggregator shows its client certificate to the server of an APIService."""
    cluster = Cluster(tmp_path)
    pair = cluster.proxies.client("front-proxy-client")
    files = cluster._file("p.crt", pair.certificate), cluster._file("p.key", pair.key)
    shown = []

    async def answer(reader, writer):
        certificate = writer.get_extra_info("peercert")
        shown.append([value for names in certificate["subject"] for _, value in names])
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()

    context = serving_context(
        str(tmp_path / "serving.crt"), str(tmp_path / "serving.key"), str(tmp_path / "proxies.crt")
    )
    context.verify_mode = ssl.CERT_REQUIRED
    extension = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    port = extension.sockets[0].getsockname()[1]
    server = await open_server(proxy_client_cert_file=files[0], proxy_client_key_file=files[1])
    try:
        api = Caller(server, ADMIN)
        annotations = {"apiserver.kubeskew.io/local-address": f"127.0.0.1:{port}"}
        service = {
            "metadata": {"name": "hook", "annotations": annotations},
            "spec": {"ports": [{"port": 443}]},
        }
        assert (await api.post("/api/v1/namespaces/default/services", service)).status == 201
        spec = {
            "group": "metrics.example.com", "version": "v1", "groupPriorityMinimum": 9, "versionPriority": 9,
            "service": {"name": "hook", "namespace": "default"}, "insecureSkipTLSVerify": True,
        }  # fmt: skip
        made = {"metadata": {"name": "v1.metrics.example.com"}, "spec": spec}
        assert (await api.post("/apis/apiregistration.k8s.io/v1/apiservices", made)).status == 201

        async def served():
            return (await api.get("/apis/metrics.example.com/v1/things")).status == 200

        await until(served, 20, every=0.05)
    finally:
        await close_server(server)
        extension.close()
    assert ["front-proxy-client"] in shown
