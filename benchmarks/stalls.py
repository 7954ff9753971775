"""Measures how long the API server keeps others waiting while it works on a large request."""

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.connection import Connection
from benchmarks.row import Row
from benchmarks.server import Server

MAPS = "/api/v1/namespaces/default/configmaps"
PROBE_SECONDS = 0.002
_CONTAINER = {"name": "c", "image": "i"}
_APPLY = "application/apply-patch+yaml"
Load = tuple[str, str, str, Any, str]  # what, method, path, body, its type


def _pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "large"}, "spec": {"containers": [_CONTAINER], **spec}}


def loads() -> Iterator[Load]:
    """Bodies of nearly 3 MiB with as many items as fit."""
    pods, plain = "/api/v1/namespaces/default/pods", "application/json"
    env = [{"name": f"V{n}", "value": ""} for n in range(90_000)]
    yield "variables", "POST", pods, _pod(containers=[{**_CONTAINER, "env": env}]), plain
    yield "tolerations", "POST", pods, _pod(tolerations=[{"key": f"k{n}"} for n in range(140_000)]), plain
    data = {f"k{n}": "" for n in range(200_000)}
    yield "keys", "POST", MAPS, {"metadata": {"name": "large"}, "data": data}, plain
    labels = {f"k{n}": "" for n in range(200_000)}
    yield "labels", "POST", MAPS, {"metadata": {"name": "large", "labels": labels}}, plain
    owners = [{"apiVersion": "v1", "kind": "A", "name": f"n{n}", "uid": f"u{n}"} for n in range(40_000)]
    yield "owners", "POST", MAPS, {"metadata": {"name": "large", "ownerReferences": owners}}, plain
    rules = [{"apiGroups": [""], "resources": [f"r{n}"], "verbs": ["get"]} for n in range(40_000)]
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    yield "rules", "POST", roles, {"metadata": {"name": "large"}, "rules": rules}, plain
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": data}
    yield "applied", "PATCH", f"{MAPS}/applied?fieldManager=m", applied, _APPLY
    patch = [{"op": "test", "path": "/a", "value": n} for n in range(60_000)]
    yield "patches", "PATCH", f"{MAPS}/probe", patch, "application/json-patch+json"
    yield "numbers", "POST", MAPS, {"metadata": {"name": "large"}, "data": {"a": [1] * 1_400_000}}, plain
    yield "unknown", "POST", MAPS, {"metadata": {"name": "l"}, **{f"f{n}": 1 for n in range(200_000)}}, plain


async def _probe(connection: Connection, longest: list[float]) -> None:
    while True:
        started = time.perf_counter()
        await connection.request("GET", f"{MAPS}/probe")
        longest[0] = max(longest[0], time.perf_counter() - started)
        await asyncio.sleep(PROBE_SECONDS)


async def stalls(server: Server) -> Row:
    """The longest wait for a small GET during each of some large writes, in ms."""
    found: dict[str, float] = {}
    async with server.connection() as probing, server.connection() as loading:
        await loading.request("POST", MAPS, b'{"metadata":{"name":"probe"}}')
        for what, method, path, body, kind in loads():
            text = json.dumps(body, separators=(",", ":")).encode()
            longest = [0.0]
            probe = asyncio.create_task(_probe(probing, longest))
            await loading.request(method, path, text, kind)
            await asyncio.sleep(PROBE_SECONDS)
            probe.cancel()
            await asyncio.gather(probe, return_exceptions=True)
            found[what] = longest[0] * 1000
    waits = ", ".join(f"{what} {ms:.0f}" for what, ms in found.items())
    return Row("longest wait of a GET during a write of 3 MiB", "—", "≤ 100 ms", f"{waits} ms")
