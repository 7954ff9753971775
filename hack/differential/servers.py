"""A real kube-apiserver above etcd, and ours of the same patch release, with the same flags."""

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
from multidict import CIMultiDict
from transcripts import Run

from benchmarks.real_servers import ROOT, TOKEN, RealServer, free_port, listening, real_server
from benchmarks.server import until_ready

_READY_SECONDS = 60.0
STORAGE = "--storage-media-type=application/vnd.kubernetes.protobuf"  # the default: empty lists are null


class HistoryRun(Run):
    """A run in which a connection that the server closes is an answer, too."""

    async def _request(self, step: dict[str, Any]) -> dict[str, Any]:
        try:
            return await super()._request(step)
        except aiohttp.ServerDisconnectedError:
            return {"failed": "the server closed the connection"}


@dataclass(frozen=True, slots=True)
class Pair:
    """A real API server and ours, with a client of each."""

    real: str
    ours: str
    http: aiohttp.ClientSession

    async def runs(self, sequence: Mapping[str, Any]) -> tuple[Run, Run]:
        """Has both servers answer a sequence."""
        one, other = (HistoryRun(self.http, url, dict(sequence)) for url in (self.real, self.ours))
        await asyncio.gather(one.go(), other.go())
        return one, other

    async def ask(self, step: Mapping[str, Any]) -> Sequence[tuple[int, str]]:
        """Returns status and text of both servers' answers to a request; 0 if a connection ended."""
        return await asyncio.gather(self.answer(self.real, step), self.answer(self.ours, step))

    async def answer(self, url: str, step: Mapping[str, Any]) -> tuple[int, str]:
        """Sends a request: method, path, headers (several values in a list) and body, an object or text."""
        headers = CIMultiDict[str]()
        for name, value in step["headers"].items():
            for each in (value,) if isinstance(value, str) else value:
                headers.add(name, each)
        body = step.get("body")
        data = body if body is None or isinstance(body, str) else json.dumps(body)
        if data is not None:
            headers.setdefault("Content-Type", "application/json")
        try:
            async with self.http.request(
                step["method"], url + step["path"], headers=headers, data=data
            ) as answer:
                return answer.status, await answer.text()
        except aiohttp.ClientError as error:
            return 0, type(error).__name__


@asynccontextmanager
async def servers(
    binaries: Path, minor: str, patch: str, gates: Mapping[str, bool], extra: Sequence[str] = ()
) -> AsyncIterator[Pair]:
    """Both servers, with gates other than the release's defaults and more flags; ended with the context."""
    flags = [*extra]
    if gates:
        flags.append(f"--feature-gates={','.join(f'{name}={str(on).lower()}' for name, on in gates.items())}")
    async with AsyncExitStack() as stack:
        real = await stack.enter_async_context(real_server(binaries, minor, "etcd", extra=[STORAGE, *flags]))
        ours = await stack.enter_async_context(emulated_server(real, patch, flags))
        http = await stack.enter_async_context(client())
        yield Pair(f"https://127.0.0.1:{real.port}", f"https://127.0.0.1:{ours}", http)


@asynccontextmanager
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    """A client of both servers."""
    connector = aiohttp.TCPConnector(ssl=False, limit=0)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with aiohttp.ClientSession(
        headers=headers, connector=connector, max_line_size=2**16, max_field_size=2**16
    ) as http:
        yield http


@asynccontextmanager
async def emulated_server(
    real: RealServer,
    patch: str,
    flags: Sequence[str] = (),
    interpreter: Sequence[str] = (sys.executable,),
    environment: Mapping[str, str] | None = None,
) -> AsyncIterator[int]:
    """Our server at a patch release, whose port is yielded; ended with the context."""
    directory, port = Path(tempfile.mkdtemp(prefix="emulated-", dir=real.directory)), free_port()
    arguments = {
        "storage-url": f"sqlite:///{directory / 'log.db'}",
        "emulated-version": patch,
        "secure-port": port,
        "cert-dir": directory / "certificates",
        "token-auth-file": real.directory / "tokens.csv",
        "service-account-key-file": real.directory / "sa.key",
        "service-account-signing-key-file": real.directory / "sa.key",
    }
    command = [
        *interpreter,
        "-m",
        "kubeskew",
        "apiserver",
        *(f"--{key}={value}" for key, value in arguments.items()),
    ]
    with (directory / "log.log").open("wb") as log:
        process = subprocess.Popen([*command, *flags], stdout=log, stderr=log, cwd=ROOT, env=environment)
    try:
        async with asyncio.timeout(_READY_SECONDS):
            await listening(process, port, directory)
            await until_ready(replace(real, port=port, directory=directory))
        yield port
    finally:
        process.terminate()
        try:
            await asyncio.to_thread(process.wait, 20)
        except subprocess.TimeoutExpired:
            process.kill()
            await asyncio.to_thread(process.wait)
            print("the emulated server did not end within 20 seconds", file=sys.stderr)
