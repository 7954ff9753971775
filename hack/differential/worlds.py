"""An API server of ours without controllers, with one component at it: upstream's program, or ours.

A history's steps are requests, as in histories of the API. Both worlds answer them; what the component makes
of them is compared when it is quiet.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from in_process_transport import MASTER
from servers import client

from benchmarks.real_servers import ROOT, TOKEN, RealServer, free_port, listening, write_credentials
from benchmarks.server import until_ready
from kubeskew.apiserver.http.request import Request
from kubeskew.apiserver.server import APIServer

Object = dict[str, Any]
MERGE = "application/merge-patch+json"
_READY_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of a server."""

    status: int
    body: Any

    @property
    def items(self) -> list[Object]:
        """The items of a list; none if the server does not serve the kind."""
        return list(self.body.get("items") or ()) if self.status == 200 else []


class Remote:
    """Requests to a server that is a process."""

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self.http = http
        self._url = url

    async def __call__(self, method: str, path: str, body: Any = None, content: str = "") -> Answer:
        data = None if body is None else _written(body)
        headers = {"Content-Type": content or "application/json"} if data is not None else {}
        async with self.http.request(method, self._url + path, data=data, headers=headers) as response:
            return Answer(response.status, _parsed(await response.read()))


class Local:
    """Requests to a server in this process."""

    def __init__(self, server: APIServer) -> None:
        self._server = server

    async def __call__(self, method: str, path: str, body: Any = None, content: str = "") -> Answer:
        data = b"" if body is None else _written(body)
        headers = {"content-type": content or "application/json"} if data else {}
        response = await self._server.handle(Request.of(method, path, headers, data, MASTER))
        made = response.body
        if not isinstance(made, bytes):
            made = b"".join([part async for part in made])
        return Answer(response.status, _parsed(made))


API = Remote | Local


def _written(body: Any) -> bytes:
    """Writes JSON without spaces, as Go does: parameters of drivers are compared as bytes."""
    return json.dumps(body, separators=(",", ":")).encode()


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return {"text": text.decode(errors="replace")}


@dataclass(frozen=True, slots=True)
class Program:
    """A running program of upstream."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path


@asynccontextmanager
async def own_server(
    directory: Path, patch: str, flags: Sequence[str] = ()
) -> AsyncIterator[tuple[Remote, int]]:
    """A server of ours in a process, and its port; ended with the context."""
    port = free_port()
    arguments = {
        "storage-url": f"sqlite:///{directory / 'log.db'}",
        "emulated-version": patch,
        "secure-port": port,
        "cert-dir": directory / "certificates",
        "token-auth-file": directory / "tokens.csv",
        "service-account-key-file": directory / "sa.key",
        "service-account-signing-key-file": directory / "sa.key",
    }
    command = [
        sys.executable,
        "-m",
        "kubeskew",
        "apiserver",
        *(f"--{key}={arguments[key]}" for key in arguments),
    ]
    write_credentials(directory)
    with (directory / "server.log").open("wb") as log:
        process = subprocess.Popen([*command, *flags], stdout=log, stderr=log, cwd=ROOT)
    try:
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(_READY_SECONDS):
                await listening(process, port, directory)
                await until_ready(RealServer(port, 0, process.pid, 0, directory))
            http = await stack.enter_async_context(client())
            yield Remote(http, f"https://127.0.0.1:{port}"), port
    finally:
        await _ended(process)


@asynccontextmanager
async def program(
    binary: Path, directory: Path, server: int, arguments: Sequence[str]
) -> AsyncIterator[Program]:
    """A program of upstream, with a kubeconfig (`kubeconfig` in the directory) for the server at a port."""
    port, log = free_port(), directory / f"{binary.name}.log"
    write_kubeconfig(directory / "kubeconfig", server)
    common = (f"--secure-port={port}", "--bind-address=127.0.0.1", f"--cert-dir={directory / 'own'}")
    allowed = "--authorization-always-allow-paths=/metrics,/healthz,/readyz"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(binary), *common, allowed, *arguments],
            stdout=out,
            stderr=out,
            env={**os.environ, "GOMAXPROCS": "2"},
        )
    try:
        async with asyncio.timeout(_READY_SECONDS):
            await listening(process, port, directory)
        yield Program(process, port, log)
    finally:
        await _ended(process)


def write_kubeconfig(path: Path, port: int) -> None:
    """Writes how an administrator reaches a server of this machine."""
    cluster = {"server": f"https://127.0.0.1:{port}", "insecure-skip-tls-verify": True}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": TOKEN}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(config))


@asynccontextmanager
async def directory() -> AsyncIterator[Path]:
    """A directory that goes with the context."""
    with tempfile.TemporaryDirectory(prefix="kubeskew-differential-") as name:
        yield Path(name)


async def _ended(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        await asyncio.to_thread(process.wait, 10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def resolved(step: Mapping[str, Any], run: str) -> Object:
    """Returns a step with the name of this run's namespace."""
    made: Object = json.loads(json.dumps(step).replace("${run}", run))
    return made


async def send(api: API, step: Mapping[str, Any]) -> Answer:
    """Sends a step's request."""
    return await api(step["method"], step["path"], step.get("body"), step.get("content", ""))


async def remove(api: API, collections: Sequence[str], *, spared: Sequence[str] = ()) -> None:
    """Deletes the objects of collections, finalizers or not, and waits until none is left."""
    ended = time.monotonic() + 20
    while True:
        left: list[str] = []
        for collection in collections:
            found = (await api("GET", collection)).items
            found = [each for each in found if each["metadata"]["name"] not in spared]
            left += [f"{collection}/{each['metadata']['name']}" for each in found]
            for namespace in dict.fromkeys(each["metadata"].get("namespace", "") for each in found):
                await _remove_all(api, collection, namespace, found, together=not spared)
        if not left:
            return
        if time.monotonic() >= ended:
            raise RuntimeError(f"{left} cannot be deleted")


async def _remove_all(
    api: API, collection: str, namespace: str, found: Sequence[Object], *, together: bool
) -> None:
    base, _, plural = collection.rpartition("/")
    path = f"{base}/namespaces/{namespace}/{plural}" if namespace else collection
    options = "gracePeriodSeconds=0&propagationPolicy=Background"
    if together:
        await api("DELETE", f"{path}?{options}")
    for each in found:
        name, finalizers = each["metadata"]["name"], each["metadata"].get("finalizers")
        if each["metadata"].get("namespace", "") != namespace:
            continue
        if finalizers:
            await api("PATCH", f"{path}/{name}", {"metadata": {"finalizers": None}}, MERGE)
        if not together:
            await api("DELETE", f"{path}/{name}?{options}")
