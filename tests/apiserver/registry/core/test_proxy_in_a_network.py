"""Pods and nodes that have a network are reached at their own addresses."""

import asyncio
import gzip
import json
import time

import pytest
from pod_network import pod_network
from streaming_node import PODS, Bench

from kubeskew.apiserver.nodes.html_tags import rewrite_tags
from kubeskew.apiserver.nodes.proxied_pages import Links

ADDRESS, NODE = "10.244.1.2", "127.9.8.7"


@pytest.fixture
def network():
    with pod_network() as agent:
        agent.add_pod("uid", ADDRESS).close()
        agent.add_node("node-1", NODE).close()
        yield agent


async def _serve(reader, writer):
    head = await reader.readuntil(b"\r\n\r\n")
    body = head.split(b"\r\n")[0]
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
    await writer.drain()
    writer.close()


async def test_pods_and_services(bench: Bench, network):
    """The proxies of pods and services dial the pod's address; its errors are those of the connection."""
    bench.server.services.nodes.network = network
    status = {"podIP": ADDRESS, "podIPs": [{"ip": ADDRESS}]}
    assert (await bench.api.patch(f"{PODS}/p/status", {"status": status})).status == 200
    address = {"ip": ADDRESS, "targetRef": {"namespace": "default", "name": "p"}}
    endpoints = {"metadata": {"name": "s"}, "subsets": [{"addresses": [address], "ports": [{"port": 80}]}]}
    assert (await bench.api.post("/api/v1/namespaces/default/endpoints", endpoints)).status == 201
    async with await asyncio.start_server(_serve, sock=network.listen("uid", ADDRESS, 80)):
        assert await bench.read(f"{PODS}/p:80/proxy/a?x=1") == (200, "GET /a?x=1 HTTP/1.1")
        service = "/api/v1/namespaces/default/services/s/proxy/b"
        assert await bench.read(service) == (200, "GET /b HTTP/1.1")
    for port, failure in (
        ("81", f"dial tcp {ADDRESS}:81: connect: connection refused"),
        ("x", "dial tcp: lookup tcp/x: unknown port"),
        ("99999", "dial tcp: lookup tcp/99999: unknown port"),
    ):
        code, text = await bench.read(f"{PODS}/p:{port}/proxy/")
        assert (code, json.loads(text)["message"]) == (503, f"error trying to reach service: {failure}")


async def test_links_lead_through_the_proxy(bench: Bench, network):
    """Pages and redirections of a pod name its own paths below the path of the proxy."""
    page, packed = b'<a href="/there">x</a>', gzip.compress(b"<img src=/there>")
    huge = gzip.compress(bytes(1 << 25))  # unpacked it is too large to be rewritten
    answers = {
        b"/page": b"Content-Type: text/html; charset=utf-8\r\nContent-Length: %d\r\n\r\n%b"
        % (len(page), page),
        b"/packed": b"Content-Type: text/html\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b"
        % (len(packed), packed),
        b"/text": b"Content-Type: text/plain\r\nContent-Length: %d\r\n\r\n%b" % (len(page), page),
        b"/moved": b"Location: http://%b:80/there/\r\nContent-Length: 0\r\n\r\n" % ADDRESS.encode(),
        b"/broken": b"Content-Type: text/html\r\nContent-Length: 99\r\n\r\n<p>",
        b"/huge": b"Content-Type: text/html\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b"
        % (len(huge), huge),
    }
    forwarded = []

    async def serve(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        path = head.split()[1]
        forwarded.append(
            [line for line in head.split(b"\r\n") if line.startswith((b"Host:", b"X-Forwarded-"))]
        )
        writer.write(b"HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\n" + answers[path])
        await writer.drain()
        writer.close()

    bench.server.services.nodes.network = network
    status = {"podIP": ADDRESS, "podIPs": [{"ip": ADDRESS}]}
    assert (await bench.api.patch(f"{PODS}/p/status", {"status": status})).status == 200
    proxy = f"{PODS}/p:80/proxy"
    async with await asyncio.start_server(serve, sock=network.listen("uid", ADDRESS, 80)):
        headers = {"host": "cluster.example:6443", "x_forwarded_for": "192.0.2.1"}
        found = await bench.api.get(f"{proxy}/page", **headers)
        assert found.raw.decode() == f'<a href="{proxy}/there">x</a>'
        unpacked = gzip.decompress((await bench.api.get(f"{proxy}/packed")).raw).decode()
        assert unpacked == f'<img src="{proxy}/there">'
        assert await bench.read(f"{proxy}/text") == (200, page.decode())
        moved = await bench.api.get(f"{proxy}/moved")
        code, failure = await bench.read(f"{proxy}/broken")
        assert (code, json.loads(failure)["message"]) == (500, "unexpected EOF")
        assert (await bench.api.get(f"{proxy}/huge")).raw == huge
    assert dict(moved.headers)["Location"] == f"{proxy}/there/"
    assert "Access-Control-Allow-Origin" not in dict(moved.headers)
    assert forwarded[0] == [
        b"Host: cluster.example:6443",
        b"X-Forwarded-For: 192.0.2.1",
        f"X-Forwarded-Uri: {proxy}/page".encode(),
    ]


@pytest.mark.parametrize(
    ("page", "wanted"),
    [
        (
            b"<!DOCTYPE html>\n<P>\n<A HREF=/a?b&c>\xff",
            b'<!DOCTYPE html>\n<p>\n<a href="/proxy/a?b&amp;c">\xff',
        ),
        (b"<script>if (a<b) '<a href=/x>'</script>", b"<script>if (a<b) '<a href=/x>'</script>"),
        (b'<br/><a href="rel" title=/t>', b'<br/><a href="rel" title="/t">'),
        (b'<a href="http://else/x"><a href="http://[">', b'<a href="http://else/x"><a href="http://[">'),
        (b'<a href="/proxy/x"><a href="http://pod:80/x/">', b'<a href="/proxy/x"><a href="/proxy/x/">'),
        (b'<a href="http://api/x?q=100%">', b'<a href="http://api/proxy/x?q=100%">'),
        (b"<a href='/a b/../%c3%a9'>", b'<a href="/proxy/%C3%A9">'),
        (
            b"<a href=/x?a&copy=1&amp;b&lt;&#x80;&#0;>",
            '<a href="/proxy/x?a&amp;copy=1&amp;b&lt;€\ufffd">'.encode(),
        ),
        (b"<TITLE><a href=/x></TiTle><a href=/x href=/y>", b'<title><a href=/x></TiTle><a href="/proxy/x">'),
        (
            b"<noscript><img src=/x></noscriptx></noscript >",
            b"<noscript><img src=/x></noscriptx></noscript >",
        ),
        (b"<plaintext></plaintext><a href=/x>", b"<plaintext></plaintext><a href=/x>"),
        (b"<!--><a b/><!-- > --!><p a=/>", b'<!--><a b=""/><!-- > --!><p a="/">'),
        (
            b"<script><!--<script></script><a href=/x>--></script><a>",
            b"<script><!--<script></script><a href=/x>--></script><a>",
        ),
        (b"<script><!-- <3 <script></script><A>", b"<script><!-- <3 <script></script><a>"),
        (b"<script><!--></script><A>", b"<script><!--></script><a>"),
        (b"</a b='>'<A></><A><!x><A><?x><A>", b"</a b='>'<A></><a><!x><a><?x><a>"),
        (b"a < b <p><a href='/x", b"a < b <p>"),
        (b"<p></a x='", b"<p>"),
    ],
)
def test_links_of_a_page(page, wanted):
    """Only links to the backend itself change; text, scripts and links to others stay."""
    assert rewrite_tags(page, Links("/proxy", "pod:80", "api").changed) == wanted


@pytest.mark.parametrize(
    "piece", [b"<a ", b'<a x="', b"<!--", b"</title", b"<script><!--", b"&#1", b"<a b=&a"]
)
def test_pages_take_time_in_proportion(piece):
    """A page of what no parser can finish takes no time to speak of (a quadratic one: hours)."""
    started = time.process_time()
    rewrite_tags(piece * 200_000, Links("/proxy", "pod:80", "api").changed)
    assert time.process_time() - started < 5


async def test_nodes(bench: Bench, network):
    """Other ports of a node than its kubelet's are those of its namespace."""
    bench.server.services.nodes.network = network
    node = (await bench.api.get("/api/v1/nodes/node-1")).body
    status = {**node["status"], "addresses": [{"type": "InternalIP", "address": NODE}]}
    assert (await bench.api.patch("/api/v1/nodes/node-1/status", {"status": status})).status == 200
    async with await asyncio.start_server(_serve, sock=network.listen("node:node-1", "", 8000)):
        found = await bench.read("/api/v1/nodes/node-1:8000/proxy/c")
    assert found == (200, "GET /c HTTP/1.1")
