"""Health, version and metrics over HTTP (server/etcdserver/api/etcdhttp, 3.6)."""

import json

from kubeskew.apiserver.storage.etcd.maintenance import CLUSTER_VERSION, VERSION
from kubeskew.apiserver.storage.etcd.server import EtcdServer
from kubeskew.apiserver.storage.interfaces import StorageError

_JSON, _TEXT = "application/json", "text/plain"
Answer = tuple[int, str, str]  # status, content type, body


class HTTPAnswers:
    def __init__(self, server: EtcdServer) -> None:
        self._server = server

    async def answer(self, path: str) -> Answer:
        """Answers a GET."""
        name = path.partition("?")[0]
        if name == "/health":
            return await self._health()
        if name == "/version":
            versions = {"etcdserver": VERSION, "etcdcluster": CLUSTER_VERSION, "storage": CLUSTER_VERSION}
            return 200, _JSON, json.dumps(versions)
        if name == "/metrics":
            return 200, _TEXT, await self._metrics()
        return 404, _TEXT, "404 page not found\n"

    async def _health(self) -> Answer:
        try:
            await self._server.backing.sync()
        except StorageError as error:
            return 503, _JSON, json.dumps({"health": "false", "reason": str(error)})
        return 200, _JSON, json.dumps({"health": "true", "reason": ""})

    async def _metrics(self) -> str:
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
        return "".join(f"# TYPE {name} gauge\n{name} {value}\n" for name, value in sorted(values.items()))
