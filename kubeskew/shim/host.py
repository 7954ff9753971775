"""The shim of a program that is a client of API servers: its kubeconfig, its proxy and its processes.

That of a kubelet also has its node's container runtime.
"""

import asyncio
import json
import ssl
from base64 import b64encode
from functools import partial
from typing import TYPE_CHECKING

from kubeskew.apimachinery.client.kubeconfig import Kubeconfig, client_context, load_kubeconfig
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS
from kubeskew.apimachinery.durable_files import private_part
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.process.component import ComponentContext
from kubeskew.apimachinery.security.tls import serving_context
from kubeskew.kubelet.containers.runtime_service import ContainerRuntimeError
from kubeskew.shim.leadership import Leadership
from kubeskew.shim.program_file import Program
from kubeskew.shim.programs import Programs
from kubeskew.shim.proxy import Proxy
from kubeskew.shim.readiness import Readiness
from kubeskew.shim.supervision import ProgramEndedError, Supervision, before_stop
from kubeskew.shim.traffic import Traffic

if TYPE_CHECKING:
    from kubeskew.shim.node import RealNode

_SERVER_POLL_SECONDS = 0.05


async def main(program: Program, programs: Programs, ctx: ComponentContext) -> None:
    """Runs the program until `ctx.stop` is set or the program ends."""
    now = asyncio.get_running_loop().time
    leadership, traffic = Leadership(program.lease), Traffic(now)
    node = _node(program, programs, ctx)
    context = client_context(insecure=True) if node is None else node.context()
    readiness = Readiness(programs, program.health, context, now, leadership=leadership, traffic=traffic)
    readiness.add_checks(ctx.health)
    config = load_kubeconfig(ctx.options.kubeconfig)
    injector = ctx.faults.injector if ctx.faults is not None else None
    proxy = Proxy(config, leadership, traffic, injector)
    ctx.health.add_page("/program", lambda: _page(program, programs, proxy))
    try:
        await proxy.start(_context(program))
        content = kubeconfig_for(config, proxy.url, program.authority.read_bytes())
        private_part(program.kubeconfig, content).replace(program.kubeconfig)
        if node is not None:
            node.add_pages(ctx.health)
            await node.start()
        is_startable = partial(_server_is_ready, ctx, node)
        announce = partial(_announce, ctx)
        has_served = None if node is None else node.has_been_ready
        supervision = Supervision(
            program, programs, readiness, ctx, announce, is_startable, has_served=has_served
        )
        await supervision.run()
        await leadership.give_back(ctx.client, ctx.environment.clock)
    except (ContainerRuntimeError, OSError) as error:
        raise ProgramEndedError(f"{ctx.name} cannot run: {error}") from error
    finally:
        await programs.end()
        if node is not None:
            await node.stop()
        await proxy.close()
        await readiness.close()


def _page(program: Program, programs: Programs, proxy: Proxy) -> dict[str, object]:
    return {"pids": programs.pids, "path": program.path, "version": program.version, "proxy": proxy.url}


def _context(program: Program) -> ssl.SSLContext:
    return serving_context(str(program.certificate), str(program.key), str(program.authority))


async def _announce(ctx: ComponentContext, what: str, detail: str) -> None:
    await ctx.announce(ctx.name, what, detail=detail)


def _node(program: Program, programs: Programs, ctx: ComponentContext) -> "RealNode | None":
    if program.node is None:
        return None
    from kubeskew.shim.node import RealNode  # gRPC is slow to import

    return RealNode(program.health, program.node, programs, ctx)


async def _server_is_ready(ctx: ComponentContext, node: "RealNode | None") -> bool:
    """Waits for an API server that is ready: a program that starts before may find no roles yet and end,
    and without one it would only end once more. False if this process is to stop meanwhile.
    """
    while not ctx.stop.is_set():
        try:
            await before_stop(ctx.client.request("GET", "/readyz", accept="*/*"), ctx)
        except (StatusError, *CONNECTION_ERRORS):
            await ctx.environment.clock.sleep(_SERVER_POLL_SECONDS)
        else:
            if node is not None:
                node.begin_again()
            return not ctx.stop.is_set()
    return False


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
