"""Calls of webhooks return answers or the errors of upstream."""

import asyncio
import socket

import pytest
from aiohttp import web
from server_in_process import Caller, close_server, open_server
from webhook_server import BUNDLE, allow, hook_server

from kubeskew.apiserver.webhooks.client import CallError, WebhookClient
from kubeskew.apiserver.webhooks.endpoints import ServiceResolver

REVIEW = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "1"}}
SERVICE = {"service": {"namespace": "default", "name": "hook", "port": 443, "path": "/x"}, "caBundle": BUNDLE}


@pytest.fixture
async def server():
    made = await open_server()
    yield made
    await close_server(made)


@pytest.fixture
async def hook(tmp_path):
    async with hook_server(tmp_path) as made:
        yield made


async def failure(server, config, seconds=5.0):
    with pytest.raises(CallError) as caught:
        await server.services.webhooks.post(config, REVIEW, seconds)
    return caught.value.message


async def test_post_by_url(server, hook):
    """A review goes out with the timeout as a parameter, and the answer comes back."""
    hook.answer = allow
    answer = await server.services.webhooks.post(hook.config, REVIEW, 9.2)
    assert answer["response"] == {"uid": "1", "allowed": True}
    assert hook.requests[0][:2] == ("POST", "/hook?timeout=10s")


async def test_post_by_service(server, hook):
    """A service is reached where its annotation says, under its own name."""
    spec = {"ports": [{"port": 443}]}
    annotations = {"apiserver.kubeskew.io/local-address": f"127.0.0.1:{hook.port}"}
    metadata = {"name": "hook", "annotations": annotations}
    body = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
    assert (await Caller(server).post("/api/v1/namespaces/default/services", body)).status == 201
    await server.services.webhooks.post(SERVICE, REVIEW, 5)
    assert hook.requests[0][1] == "/x?timeout=5s"
    assert hook.requests[0][2]["Host"] == "hook.default.svc:443"


async def test_service_that_is_not_there(server):
    """A service that does not exist is named in the words of upstream's resolver."""
    message = await failure(server, SERVICE, 10)
    assert message == 'Post "https://hook.default.svc:443/x?timeout=10s": service "hook" not found'


async def test_nobody_listens(server):
    """A port that nobody listens on refuses."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        message = await failure(server, {"url": f"https://127.0.0.1:{port}/a"}, 10)
    url = f"https://127.0.0.1:{port}/a?timeout=10s"
    assert message == f'Post "{url}": dial tcp 127.0.0.1:{port}: connect: connection refused'


async def test_late_answer(server, hook):
    """An answer that does not come in time is a deadline that passed."""
    hook.answer = lambda review: asyncio.sleep(30)
    message = await failure(server, hook.config, 0.05)
    assert message == f'Post "{hook.url}?timeout=1s": context deadline exceeded'


async def test_untrusted_certificates(server, hook, tmp_path):
    """A certificate is refused for its signer, and for its names."""
    prefix = "tls: failed to verify certificate: x509: "
    message = await failure(server, {"url": hook.url})
    assert message.endswith(f": {prefix}certificate signed by unknown authority")
    config = {**SERVICE, "service": {**SERVICE["service"], "name": "other"}}
    resolver = ServiceResolver(server.services.store, {"default/other": f"127.0.0.1:{hook.port}"})
    await server.services.webhooks.close()
    server.services.webhooks = WebhookClient(resolver, server.services.environment.clock)
    message = await failure(server, config)
    names = "hook.default.svc, localhost"
    assert message.endswith(f": {prefix}certificate is valid for {names}, not other.default.svc")


async def test_answers_that_are_errors(server, hook):
    """A status code that is no success becomes the words of the REST client."""
    hook.answer = lambda review: web.Response(status=500, text="oh no\n")
    message = await failure(server, hook.config)
    assert message == 'an error on the server ("oh no") has prevented the request from succeeding'
    hook.answer = lambda review: web.Response(status=404, text="404 page not found")
    assert await failure(server, hook.config) == "the server could not find the requested resource"
    hook.answer = lambda review: web.Response(status=200, text="not json")
    message = await failure(server, hook.config)
    said = "couldn't get version/kind; json parse error: "
    assert message.startswith(f"{said}json: cannot unmarshal string into Go value of type struct")
    hook.answer = lambda review: web.Response(status=200, text='{"apiVersion": ["v1"]}')
    message = await failure(server, hook.config)
    assert message == f"{said}json: cannot unmarshal array into Go struct field .apiVersion of type string"
    hook.answer = lambda review: web.Response(status=200, text="{not json")
    message = await failure(server, hook.config)
    assert message.startswith(f"{said}invalid character 'n'")
