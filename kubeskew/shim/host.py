"""The work of a shim: the program's kubeconfig, its proxy and processes, and their end."""

import asyncio
import json
import logging
import math
import ssl
from base64 import b64encode
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import click

from kubeskew.apimachinery.client.kubeconfig import Kubeconfig, load_kubeconfig
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS
from kubeskew.apimachinery.durable_files import private_part
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.process.component import ComponentContext
from kubeskew.apimachinery.process.runtime import STOP_SECONDS
from kubeskew.apimachinery.security.tls import serving_context
from kubeskew.shim.leadership import Leadership
from kubeskew.shim.program_file import Program
from kubeskew.shim.programs import Programs
from kubeskew.shim.proxy import Proxy
from kubeskew.shim.readiness import Readiness
from kubeskew.shim.traffic import Traffic

_SERVER_POLL_SECONDS = 0.05
_FIRST_DELAY_SECONDS, _MOST_DELAY_SECONDS = 10.0, 300.0
_FORGIVEN_SECONDS = 600.0
T = TypeVar("T")
log = logging.getLogger(__name__)
ENDED = "ended"  # on the time line: the program has ended by itself


class ProgramEndedError(click.ClickException):
    """The program cannot be started, or has ended by itself: this process ends with status 1."""


async def main(program: Program, programs: Programs, ctx: ComponentContext) -> None:
    """Runs the program until `ctx.stop` is set or the program ends."""
    now = asyncio.get_running_loop().time
    leadership, traffic = Leadership(program.lease), Traffic(now)
    readiness = Readiness(programs, program.health, leadership, traffic, now)
    readiness.add_checks(ctx.health)
    config = load_kubeconfig(ctx.options.kubeconfig)
    injector = ctx.faults.injector if ctx.faults is not None else None
    proxy = Proxy(config, leadership, traffic, injector)
    ctx.health.add_page("/program", lambda: _page(program, programs, proxy))
    try:
        await proxy.start(_context(program))
        content = kubeconfig_for(config, proxy.url, program.authority.read_bytes())
        private_part(program.kubeconfig, content).replace(program.kubeconfig)
        if await _server_is_ready(ctx):
            await _start(program, programs.start())
            looking = asyncio.create_task(readiness.watch())
            try:
                await _run(program, programs, readiness, ctx)
            finally:
                looking.cancel()
        await leadership.give_back(ctx.client, ctx.environment.clock)
    finally:
        await programs.end()
        await proxy.close()
        await readiness.close()


def _page(program: Program, programs: Programs, proxy: Proxy) -> dict[str, object]:
    return {"pids": programs.pids, "path": program.path, "version": program.version, "proxy": proxy.url}


def _context(program: Program) -> ssl.SSLContext:
    return serving_context(str(program.certificate), str(program.key), str(program.authority))


async def _server_is_ready(ctx: ComponentContext) -> bool:
    """Waits for an API server that is ready: a program that starts before may find no roles yet and end.
    False if this process is to stop meanwhile.
    """
    while not ctx.stop.is_set():
        try:
            await _before_stop(ctx.client.request("GET", "/readyz", accept="*/*"), ctx)
        except (StatusError, *CONNECTION_ERRORS):
            await ctx.environment.clock.sleep(_SERVER_POLL_SECONDS)
        else:
            return not ctx.stop.is_set()
    return False


async def _start(program: Program, start: Awaitable[None]) -> None:
    try:
        await start
    except OSError as error:
        raise ProgramEndedError(f"cannot run {program.path}: {error.strerror or error}") from error


async def _run(program: Program, programs: Programs, readiness: Readiness, ctx: ComponentContext) -> None:
    """Waits until this process is to stop. A process of the program that ends by itself is started again, as
    a kubelet does with a static pod, but not before there is an API server again, without which it would only
    end once more; one that has never been ready is not.
    """
    delays = RestartDelays(ctx.environment.clock.monotonic)
    while True:
        ended = await _before_stop(programs.ended(), ctx)
        if ended is None:
            return await programs.stop()
        name, text = ended
        how = f"{name}: {text}" if name else text
        log.error("%s ended by itself: %s", program.path, how)
        await ctx.announce(ctx.name, ENDED, detail=how)
        if not readiness.was_ready:
            with suppress(TimeoutError):
                async with asyncio.timeout(STOP_SECONDS):
                    await programs.stop()
            raise ProgramEndedError(f"{program.path} ended by itself: {how}")
        await _before_stop(ctx.environment.clock.sleep(delays.next(name)), ctx)
        if not await _server_is_ready(ctx):
            return await programs.stop()
        readiness.begin_again()
        await _start(program, programs.start_again(name))
        await ctx.announce(ctx.name, "started", detail=str(program))


async def _before_stop(work: Coroutine[Any, Any, T], ctx: ComponentContext) -> T | None:
    """The result of `work`; None if this process is to stop before."""
    working = asyncio.create_task(work)
    stopping = asyncio.create_task(ctx.stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() and not ctx.stop.is_set() else None
    finally:
        working.cancel()
        stopping.cancel()


class RestartDelays:
    """A kubelet's delays before it starts a container again: none, 10 s, 20 s, up to 5 minutes; none again
    after 10 minutes without an end (pkg/kubelet/kubelet.go, 1.36).
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._last: dict[str, tuple[float, float]] = {}  # the time of the last end, and the delay after it

    def next(self, name: str) -> float:
        now, (last, delay) = self._now(), self._last.get(name, (-math.inf, 0.0))
        if now - last > _FORGIVEN_SECONDS:
            chosen = 0.0
        else:
            chosen = min(2 * delay or _FIRST_DELAY_SECONDS, _MOST_DELAY_SECONDS)
        self._last[name] = now, chosen
        return chosen


def kubeconfig_for(config: Kubeconfig, server: str, authority: bytes) -> str:
    """The program's kubeconfig: the component's own credentials, and the proxy as the server."""
    user = {"token": config.token} if config.token else {}
    if config.certificate:
        user["client-certificate-data"] = b64encode(config.certificate).decode()
        user["client-key-data"] = b64encode(config.key).decode()
    cluster = {"server": server, "certificate-authority-data": b64encode(authority).decode()}
    context = {"cluster": "kubeskew", "user": "program", "namespace": config.namespace}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "kubeskew", "cluster": cluster}],
        "users": [{"name": "program", "user": user}],
        "contexts": [{"name": "kubeskew", "context": context}],
        "current-context": "kubeskew",
    }
    return json.dumps(document, indent=1)
