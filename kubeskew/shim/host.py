"""The work of a shim: the program's kubeconfig, its proxy and processes, and their end."""

import asyncio
import json
import os
import ssl
from base64 import b64encode
from contextlib import suppress
from pathlib import Path

import click

from kubeskew.apimachinery.client.kubeconfig import Kubeconfig, load_kubeconfig
from kubeskew.apimachinery.process.component import ComponentContext
from kubeskew.apimachinery.process.runtime import STOP_SECONDS
from kubeskew.apimachinery.security.tls import serving_context
from kubeskew.shim.leadership import Leadership
from kubeskew.shim.program_file import Program
from kubeskew.shim.programs import Programs
from kubeskew.shim.proxy import Proxy
from kubeskew.shim.readiness import Readiness
from kubeskew.shim.traffic import Traffic

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
        write_private(program.kubeconfig, kubeconfig_for(config, proxy.url, program.authority.read_bytes()))
        await _start(program, programs)
        looking = asyncio.create_task(readiness.watch())
        try:
            await _run(program, programs, ctx)
        finally:
            looking.cancel()
        await leadership.give_back(ctx.client, ctx.environment.clock)
    finally:
        programs.kill()
        await proxy.close()
        await readiness.close()


def _page(program: Program, programs: Programs, proxy: Proxy) -> dict[str, object]:
    return {"pids": programs.pids, "path": program.path, "version": program.version, "proxy": proxy.url}


def _context(program: Program) -> ssl.SSLContext:
    return serving_context(str(program.certificate), str(program.key), str(program.authority))


async def _start(program: Program, programs: Programs) -> None:
    try:
        await programs.start()
    except OSError as error:
        raise ProgramEndedError(f"cannot run {program.path}: {error.strerror or error}") from error


async def _run(program: Program, programs: Programs, ctx: ComponentContext) -> None:
    """Waits for the end: that of a program by itself, or that of all of them, which was asked for."""
    ending = asyncio.create_task(programs.ended())
    stopping = asyncio.create_task(ctx.stop.wait())
    try:
        await asyncio.wait({ending, stopping}, return_when=asyncio.FIRST_COMPLETED)
        by_itself = ending.result() if ending.done() and not ctx.stop.is_set() else None
    finally:
        ending.cancel()
        stopping.cancel()
    if by_itself is None:
        await programs.stop()
    else:
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await programs.stop()
        await ctx.announce(ctx.name, ENDED, detail=by_itself)
        raise ProgramEndedError(f"{program.path} ended by itself: {by_itself}")


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


def write_private(path: Path, text: str) -> None:
    """Writes a file that only its owner can read."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    part.replace(path)
