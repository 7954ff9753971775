"""The server counts its requests, as a scraper reads it."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

import pytest
from server_in_process import MAPS, Caller, close_server, open_server

from kubeskew.apimachinery.clock import SystemClock
from kubeskew.apiserver.http.request import Request, RequestInfo, Response, Tunnel, Upgrade, parse_info
from kubeskew.apiserver.metrics import RequestMetrics
from kubeskew.apiserver.pipeline import with_audit

GET = RequestInfo(True, "/", "get", "", "v1", "pods", "", "default", "a")
LABELS = (
    'component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="GET",'
    'version="v1"'
)


def asked(info: RequestInfo) -> Request:
    """A request that is already understood."""
    request = Request.of("GET", info.path)
    request.info = info
    return request


def lines(metrics: RequestMetrics) -> dict[str, float]:
    """Samples by name and sorted labels."""
    found = {}
    for line in metrics.render().decode().splitlines():
        if not line.startswith("#"):
            sample, _, value = line.rpartition(" ")
            name, _, labels = sample.removesuffix("}").partition("{")
            found[f"{name}{{{','.join(sorted(labels.split(',')))}}}"] = float(value)
    return found


def test_requests_are_counted_by_code_and_timed():
    """Buckets are cumulative and go by seconds; a code is a label of the counter alone."""
    metrics = RequestMetrics()
    for code, seconds in ((200, 0.001), (200, 0.005), (404, 0.3), (200, 100.0)):
        metrics.observe(asked(GET), Response(code, b"{}"), seconds)
    found = lines(metrics)

    for code, count in ((200, 3), (404, 1)):
        assert found[f'apiserver_request_total{{code="{code}",{LABELS}}}'] == count
    for bound, count in (("0.005", 2), ("0.2", 2), ("0.4", 3), ("60", 3), ("+Inf", 4)):
        labels = LABELS.replace(",resource", f',le="{bound}",resource')
        assert found[f"apiserver_request_duration_seconds_bucket{{{labels}}}"] == count
    assert found[f"apiserver_request_duration_seconds_count{{{LABELS}}}"] == 4


def test_what_nothing_serves_is_counted_together():
    """Clients cannot fill the memory with names that they make up."""
    metrics = RequestMetrics(lambda info: info.resource == "pods" or not info.is_resource)
    for name in ("a", "b", "c"):
        metrics.observe(asked(GET._replace(resource=name)), Response(404, b""), 0.1)

    totals = [name for name in lines(metrics) if name.startswith("apiserver_request_total")]
    assert len(totals) == 1


def long_running(metrics: RequestMetrics) -> dict[tuple[str, str, str], float]:
    """Open answers by verb, subresource and scope."""
    gauges = [
        metric for metric in metrics.registry.collect() if metric.name.endswith("_longrunning_requests")
    ]
    return {
        (labels["verb"], labels["subresource"], labels["scope"]): sample.value
        for gauge in gauges
        for sample in gauge.samples
        for labels in [sample.labels]
    }


@pytest.mark.parametrize(
    ("query", "scope"), [("", "namespace"), ("&fieldSelector=metadata.name%3Da", "resource")]
)
async def test_open_watches_are_counted_until_they_end(query: str, scope: str):
    """A watch is counted from its first event to its end; a list never is."""
    server = await open_server()
    try:
        api = Caller(server)
        metrics = server.services.metrics
        before = long_running(metrics)
        await api.get(MAPS)
        watch = api.watch(
            f"{MAPS}?watch=1&sendInitialEvents=true&allowWatchBookmarks=true"
            f"&resourceVersionMatch=NotOlderThan{query}"
        )
        assert long_running(metrics) == before
        assert (await anext(watch))[0] in {"ADDED", "BOOKMARK"}
        assert long_running(metrics)["WATCH", "", scope] == 1
        server.services.lifetime.stop()
        assert [event async for event in watch if event[0] == "ERROR"] == []
        assert long_running(metrics)["WATCH", "", scope] == 0
    finally:
        await close_server(server)


class _Silence:
    """A tunnel whose client says nothing."""

    async def read(self) -> bytes:
        return b""

    async def write(self, data: bytes) -> None:
        """Takes everything."""


@pytest.mark.parametrize(("connect_verb", "verb"), [(True, "CONNECT"), (False, "POST")])
async def test_upgraded_connections_are_counted_while_they_last(*, connect_verb: bool, verb: str):
    """An exec is counted while both sides talk, also if it fails; its verb is CONNECT from 1.27 on."""
    metrics = RequestMetrics(connect_verb=connect_verb)
    talking, end = asyncio.Event(), asyncio.Event()

    async def talk(_tunnel: Tunnel) -> None:
        talking.set()
        await end.wait()
        raise ConnectionResetError

    async def upgrade(_request: Request) -> Response:
        return Response(101, Upgrade(talk))

    request = Request.of("POST", "/api/v1/namespaces/default/pods/a/exec?command=date")
    request.info = parse_info(request.method, request.path, request.query)
    response = await with_audit(upgrade, metrics, SystemClock())(request)
    assert isinstance(response.body, Upgrade)
    connection = asyncio.create_task(_fails(response.body, _Silence()))
    await talking.wait()
    assert long_running(metrics) == {(verb, "exec", "resource"): 1}
    end.set()
    await connection
    assert long_running(metrics) == {(verb, "exec", "resource"): 0}


async def _fails(upgrade: Upgrade, tunnel: Tunnel) -> None:
    with pytest.raises(ConnectionResetError):
        await upgrade.talk(tunnel)


async def test_logs_are_counted_while_they_are_followed():
    """A client that leaves in the middle of a log ends its count; what nothing here serves is not counted."""
    metrics = RequestMetrics(lambda info: info.resource == "pods")

    async def lines() -> AsyncIterator[bytes]:
        while True:
            yield b"line\n"

    async def follow(_request: Request) -> Response:
        return Response(200, lines())

    for path, expected in (("pods/a/log", {("CONNECT", "log", "resource"): 1}), ("others/a/log", {})):
        request = Request.of("GET", f"/api/v1/namespaces/default/{path}?follow=true")
        request.info = parse_info(request.method, request.path, request.query)
        response = await with_audit(follow, metrics, SystemClock())(request)
        body = response.body
        assert isinstance(body, AsyncGenerator)
        await anext(body)
        assert {key: count for key, count in long_running(metrics).items() if count} == expected
        await body.aclose()
    assert long_running(metrics) == {("CONNECT", "log", "resource"): 0}
