"""A webhook on loopback, over HTTPS, whose answers a test chooses: for tests."""

import asyncio
import base64
import datetime as dt
import ipaddress
import json
import ssl
from contextlib import asynccontextmanager

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

NAMES = ("hook.default.svc", "localhost")


def certificate(names=NAMES, addresses=("127.0.0.1",)):
    """A self-signed certificate and its key, both PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hook")])
    listed = [x509.DNSName(name) for name in names]
    listed += [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
    begin = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(begin)
        .not_valid_after(begin + dt.timedelta(days=36500))
        .add_extension(x509.SubjectAlternativeName(listed), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return made.public_bytes(serialization.Encoding.PEM), secret


CERTIFICATE, KEY = certificate()
BUNDLE = base64.b64encode(CERTIFICATE).decode()


class Hook:
    """A webhook's server: where it listens, what it got (`reviews`, `requests`), and how it answers
    (`answer(review)`)."""

    def __init__(self):
        self.port = 0
        self.reviews = []
        self.requests = []
        self.answer = lambda review: allow(review)

    @property
    def url(self):
        return f"https://127.0.0.1:{self.port}/hook"

    @property
    def config(self):
        """A clientConfig by url."""
        return {"url": self.url, "caBundle": BUNDLE}

    async def serve(self, request):
        body = await request.read()
        self.requests.append((request.method, request.path_qs, dict(request.headers), body))
        review = json.loads(body) if body else {}
        self.reviews.append(review)
        answer = self.answer(review)
        if asyncio.iscoroutine(answer):
            answer = await answer
        return answer if isinstance(answer, web.StreamResponse) else web.json_response(answer)


def allow(review, **more):
    """The answer that admits; `more` goes into the response."""
    response = {"uid": review["request"]["uid"], "allowed": True, **more}
    return {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}


def deny(review, **status):
    """The answer that refuses, with this Status."""
    return allow(review, allowed=False, **({"status": status} if status else {}))


def patch(review, *operations):
    """The answer that admits with a JSON patch."""
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return allow(review, patch=encoded, patchType="JSONPatch")


@asynccontextmanager
async def hook_server(tmp_path, pair=(CERTIFICATE, KEY)):
    """A running `Hook`."""
    (tmp_path / "hook.crt").write_bytes(pair[0])
    (tmp_path / "hook.key").write_bytes(pair[1])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "hook.crt", tmp_path / "hook.key")
    hook = Hook()
    runner = web.ServerRunner(web.Server(hook.serve), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    hook.port = runner.addresses[0][1]
    try:
        yield hook
    finally:
        await runner.cleanup()
