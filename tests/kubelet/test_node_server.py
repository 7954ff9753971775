"""Who may ask a node's server: TLS, client certificates, and what is open to all."""

import ssl
from datetime import UTC, datetime

import aiohttp
import pytest
from aiohttp import web

from kubelet.server.listening import Credentials, Listener
from kubeskew.pki import Authority


class Pages:
    """Answers everything."""

    async def serve(self, request):
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


async def test_who_may_ask(pki):
    """The API server and administrators; others are refused, but for their health check."""
    authority, write, ca = pki
    certificate, key = write("kubelet", authority.node_serving(["127.0.0.1"]))
    listener = Listener(Pages(), Credentials(certificate, key, ca).context())
    await listener.start("127.0.0.1", 0)
    clients = {
        "nobody": None,
        "somebody": authority.client("somebody", "some"),
        "admin": authority.client("kubernetes-admin", "system:masters"),
        "apiserver": authority.client("kube-apiserver-kubelet-client"),
    }
    found = {}
    try:
        for name, pair in clients.items():
            context = ssl.create_default_context(cafile=ca)
            if pair is not None:
                context.load_cert_chain(*write(name, pair))
            async with aiohttp.ClientSession() as session:
                for path in ("/pods", "/healthz"):
                    url = f"https://127.0.0.1:{listener.port}{path}"
                    async with session.get(url, ssl=context) as answer:
                        found[name, path] = answer.status
                        text = await answer.text()
                if name == "somebody":
                    async with session.get(url.replace("healthz", "pods"), ssl=context) as answer:
                        text = await answer.text()
                    assert (
                        text == "Forbidden (user=somebody, verb=get, resource=nodes, subresource(s)=[proxy])"
                    )
    finally:
        await listener.stop()
    assert {name: found[name, "/pods"] for name in clients} == {
        "nobody": 401, "somebody": 403, "admin": 200, "apiserver": 200,
    }  # fmt: skip
    assert {found[name, "/healthz"] for name in clients} == {200}
