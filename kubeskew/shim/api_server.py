"""The shim of an API server: the program stores in the cluster's log, through etcd's API at a Unix socket.

The shim is the log's writer. It has what a real API server lacks: the time line of components, faults in
commits, and a network of the cluster, for the addresses that the program dials. It listens in the program's
place (`kubeskew/shim/front.py`), and has clients speak to the program itself while there are no faults.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import click

from kubeskew.apimachinery.client.kubeconfig import load_kubeconfig
from kubeskew.apimachinery.client.timeline_sockets import take_announcements
from kubeskew.apimachinery.durable_files import private_part
from kubeskew.apimachinery.environment import announcement
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.process.component import ComponentContext
from kubeskew.apimachinery.process.network_agent import NetworkAgent
from kubeskew.apiserver.faults import ServerFaults
from kubeskew.apiserver.http.user_agents import component_of
from kubeskew.apiserver.storage.announcements import event_of
from kubeskew.apiserver.storage.etcd.grpc_server import GRPCServer
from kubeskew.apiserver.storage.etcd.log_backing import LogBacking
from kubeskew.apiserver.storage.etcd.server import EtcdServer
from kubeskew.apiserver.storage.factory import SQLStorage
from kubeskew.apiserver.storage.interfaces import Log, StorageError
from kubeskew.apiserver.storage.records import Author, Change
from kubeskew.shim.audit import AuditSink, audit_policy
from kubeskew.shim.audit_webhook import AuditWebhook
from kubeskew.shim.cluster_network import ClusterNetwork
from kubeskew.shim.egress import Egress, egress_selection
from kubeskew.shim.front import Front
from kubeskew.shim.front_proxy import Files, FrontProxy
from kubeskew.shim.program_file import Program, Server
from kubeskew.shim.programs import Programs
from kubeskew.shim.readiness import Readiness
from kubeskew.shim.supervision import Supervision

# For requests under way. Upstream's server waits up to a minute for connections with watches to be closed by
# clients (k8s.io/apiserver/pkg/server/secure_serving.go, 1.36).
_GRACE_SECONDS = 2.0

log = logging.getLogger(__name__)


async def main(program: Program, server: Server, programs: Programs, ctx: ComponentContext) -> None:
    """Runs the program until `ctx.stop` is set or the program ends."""
    try:
        event_log = await SQLStorage().log(server.storage, ctx.environment.clock)
        await _serve(event_log, program, server, programs, ctx)
    except (StorageError, OSError) as error:
        raise click.ClickException(f"{ctx.name} cannot run: {error}") from error


async def _serve(
    event_log: Log, program: Program, server: Server, programs: Programs, ctx: ComponentContext
) -> None:
    """Owns the log. Raises StorageError, OSError."""
    clock = ctx.environment.clock
    timeline = _Timeline(event_log, ctx)
    faults = _faults(event_log, ctx)
    context = load_kubeconfig(ctx.options.kubeconfig).ssl_context()
    now = asyncio.get_running_loop().time
    readiness = Readiness(programs, program.health, context, now, address=server.program_address)
    readiness.add_checks(ctx.health)
    ctx.health.add_page("/program", lambda: _page(program, programs))
    async with AsyncExitStack() as stack:
        stack.push_async_callback(readiness.close)
        author = Author("", "kube-apiserver", str(ctx.environment.version), program.version, "")
        backing = await LogBacking.open(event_log, clock, author, _interception(faults))
        etcd = await EtcdServer.open(backing, clock, ctx.environment.entropy)
        stack.push_async_callback(etcd.close)
        grpc_server = GRPCServer(etcd, [f"unix://{server.etcd_socket}"])
        stack.push_async_callback(grpc_server.stop)
        _clear(server)
        await grpc_server.listen_at(server.etcd_socket)
        announcements = await take_announcements(server.timeline_socket, timeline.take)
        stack.callback(announcements.close)
        network = NetworkAgent(server.network) if server.network else None
        egress = await Egress.open(server.egress_socket, ClusterNetwork(etcd, server.services).find, network)
        stack.push_async_callback(egress.close)
        selection = egress_selection(server.egress_socket)
        private_part(server.egress_config, selection).replace(server.egress_config)
        sink = AuditSink(event_log, clock, program.version, component_of, author)
        stack.push_async_callback(sink.close)
        webhook = AuditWebhook(sink.received)
        stack.push_async_callback(webhook.close)
        await webhook.start()
        private_part(server.audit_config, webhook.kubeconfig()).replace(server.audit_config)
        private_part(server.audit_policy, json.dumps(audit_policy())).replace(server.audit_policy)
        front = await _front(program, server, faults, ctx, stack)
        stack.push_async_callback(programs.end)
        serving = partial(_serving, program, front, timeline)
        supervision = Supervision(
            program, programs, readiness, ctx, timeline.announce, _at_once, serving, _GRACE_SECONDS
        )
        await supervision.run()
        await programs.end()
        await timeline.announce("stopped", "")


def _clear(server: Server) -> None:
    """Removes the sockets of a shim that was killed."""
    server.timeline_socket.parent.mkdir(mode=0o700, exist_ok=True)
    for path in (server.etcd_socket, server.timeline_socket, server.egress_socket):
        path.unlink(missing_ok=True)


def _page(program: Program, programs: Programs) -> dict[str, object]:
    return {"pids": programs.pids, "path": program.path, "version": program.version}


async def _at_once() -> bool:
    return True


async def _front(
    program: Program,
    server: Server,
    faults: ServerFaults | None,
    ctx: ComponentContext,
    stack: AsyncExitStack,
) -> Front:
    """Raises OSError."""
    proxy = None
    if faults is not None:
        files = Files(
            *(program.certificate, program.key, program.authority, server.requestheader_authority),
            *(server.proxy_certificate, server.proxy_key, server.tokens),
        )
        proxy = FrontProxy(files, program.health, server.program_address, faults, ctx.environment)
        stack.push_async_callback(proxy.close)
        await proxy.start()
    front = Front(server.port, server.shared_port, server.program_address, proxy)
    stack.push_async_callback(front.close)
    if faults is not None:
        stack.push_async_callback(faults.stop)
        faults.begin(front.refuse_during)
        reloads: dict[asyncio.Task[None], None] = {}
        ctx.reloads.append(partial(_reload, front, reloads))
    return front


def _reload(front: Front, running: dict[asyncio.Task[None], None]) -> None:
    task = asyncio.create_task(front.reload(), name="reload faults")
    running[task] = None
    task.add_done_callback(running.pop)


@asynccontextmanager
async def _serving(program: Program, front: Front, timeline: "_Timeline") -> AsyncIterator[None]:
    """Announces the start, and lets clients in while the program serves. Raises OSError."""
    await timeline.announce("started", str(program))
    await front.listen()
    try:
        yield
    finally:
        front.stop_listening()


class _Timeline:
    def __init__(self, event_log: Log, ctx: ComponentContext) -> None:
        self._log = event_log
        self._ctx = ctx

    async def announce(self, what: str, detail: str) -> None:
        body = announcement(self._ctx.environment, self._ctx.name, what, detail)
        try:
            await self._log.record(event_of(body, self._ctx.environment.clock.now()))
        except StorageError as error:
            log.warning("cannot announce %s: %s", what, error)

    async def take(self, body: Any) -> None:
        """Takes an announcement of another component. Raises ValueError for none, OSError if the log cannot
        be written.
        """
        try:
            await self._log.record(event_of(body, self._ctx.environment.clock.now()))
        except StatusError as error:
            raise ValueError(str(error)) from error
        except StorageError as error:
            raise OSError(str(error)) from error


def _faults(event_log: Log, ctx: ComponentContext) -> ServerFaults | None:
    directory = ctx.options.faults_dir
    if directory is None:
        return None
    return ServerFaults(directory, ctx.name, ctx.environment, event_log, ctx.options.machine.kill)


def _interception(
    faults: ServerFaults | None,
) -> Callable[[Change, Callable[[], Awaitable[int]]], Awaitable[int]] | None:
    """A write that a fault refuses or loses is an error of etcd's to the program."""
    if faults is None:
        return None

    async def intercept(change: Change, write: Callable[[], Awaitable[int]]) -> int:
        try:
            return await faults.intercept(change, write)
        except (StatusError, ConnectionError) as error:
            raise StorageError(str(error)) from error

    return intercept
