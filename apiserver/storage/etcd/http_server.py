"""Health, version and metrics over HTTP (server/etcdserver/api/etcdhttp, 3.6), at URLs of their own."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from aiohttp import web

from kubeskew.apiserver.storage.etcd.maintenance import CLUSTER_VERSION, VERSION
from kubeskew.apiserver.storage.etcd.server import EtcdServer
from kubeskew.apiserver.storage.interfaces import StorageError


class HTTPServer:
    def __init__(self, server: EtcdServer) -> None:
        self._server = server

    def application(self) -> web.Application:
        application = web.Application()
        application.router.add_get("/health", self._health)
        application.router.add_get("/version", self._version)
        application.router.add_get("/metrics", self._metrics)
        return application

    async def _health(self, request: web.Request) -> web.Response:
        try:
            await self._server.backing.sync()
        except StorageError as error:
            return web.json_response({"health": "false", "reason": str(error)}, status=503)
        return web.json_response({"health": "true", "reason": ""})

    async def _version(self, request: web.Request) -> web.Response:
        return web.json_response(
            {"etcdserver": VERSION, "etcdcluster": CLUSTER_VERSION, "storage": CLUSTER_VERSION}
        )

    async def _metrics(self, request: web.Request) -> web.Response:
        keyspace, watches = self._server.keyspace, self._server.watches
        values = {
            "etcd_server_has_leader": 1,
            "etcd_server_is_leader": 1,
            "etcd_mvcc_db_total_size_in_bytes": await self._server.backing.size(),
            "etcd_debugging_mvcc_current_revision": keyspace.revision,
            "etcd_debugging_mvcc_compact_revision": max(keyspace.compacted, 0),
            "etcd_debugging_mvcc_keys_total": len(keyspace.live),
            "etcd_debugging_mvcc_watch_stream_total": watches.streams,
            "etcd_debugging_mvcc_watcher_total": watches.watchers,
            "etcd_debugging_lease_total": len(self._server.leases.by_id),
        }
        lines = [f"# TYPE {name} gauge\n{name} {value}\n" for name, value in sorted(values.items())]
        return web.Response(text="".join(lines), content_type="text/plain", charset="utf-8")


@asynccontextmanager
async def served(server: EtcdServer, addresses: Sequence[tuple[str, int]]) -> AsyncIterator[None]:
    """Serves at each host and port. Raises OSError if it cannot listen there."""
    runner = web.AppRunner(HTTPServer(server).application(), access_log=None)
    await runner.setup()
    try:
        for host, port in addresses:
            await web.TCPSite(runner, host, port).start()
        yield
    finally:
        await runner.cleanup()
