"""The network of a real API server: it leads the addresses of a cluster to addresses of this machine.

An emulated server resolves Services itself (`apiserver/webhooks/endpoints.py`); a real one dials their
cluster IPs, the addresses of nodes and of pods. Where pods have a network, it is asked first
(`egress.py`); no other address of the cluster leads anywhere.
"""

from collections.abc import Iterator, Mapping

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.storage.etcd.keys import bytes_of, object_key
from kubeskew.apiserver.storage.etcd.server import EtcdServer
from kubeskew.apiserver.storage.etcd.wire import State
from kubeskew.apiserver.storage.interfaces import StorageError
from kubeskew.apiserver.storage.records import Entry, Key, Page
from kubeskew.apiserver.unreadable import known_object
from kubeskew.apiserver.webhooks.endpoints import Address, ResolutionError, ServiceResolver


class ClusterNetwork:
    def __init__(self, etcd: EtcdServer, services: Mapping[str, str]) -> None:
        """`services` are local addresses by NAMESPACE/NAME, which come before what the Services say."""
        self._etcd = etcd
        self._objects = _Objects(etcd)
        self._resolver = ServiceResolver(self._objects, services)

    async def find(self, host: str, port: int) -> Address:
        """Raises ResolutionError."""
        try:
            await self._etcd.backing.sync()
        except StorageError as error:
            raise ResolutionError(str(error)) from error
        for service in self._objects.that_name(host, "services"):
            spec, metadata = service.get("spec") or {}, service["metadata"]
            if host in (spec.get("clusterIPs") or [spec.get("clusterIP")]):
                return self._resolver.resolve(metadata["namespace"], metadata["name"], port)
            if spec.get("type") == "ExternalName" and spec.get("externalName") == host:
                return Address(host, port)
        for node in self._objects.that_name(host, "nodes"):
            if any(each.get("address") == host for each in (node.get("status") or {}).get("addresses") or ()):
                return Address(host, port)
        shown = f"[{host}]" if ":" in host else host
        raise ResolutionError(f"dial tcp {shown}:{port}: connect: connection refused")


class _Objects:
    """Objects of the API among the keys in memory."""

    def __init__(self, etcd: EtcdServer) -> None:
        self._etcd = etcd

    def get(self, key: Key) -> Entry | None:
        found = self._etcd.keyspace.live.get(bytes_of(key))
        return None if found is None else _entry(key, found)

    def list(self, resource: str, namespace: str | None = None) -> Page:
        return Page(self._etcd.keyspace.revision, [*self._entries(resource, namespace)])

    def that_name(self, text: str, resource: str) -> Iterator[Object]:
        """Yields those that have the text somewhere; others are not even decoded."""
        wanted = text.encode()
        for entry in self._entries(resource, None):
            if wanted in entry.value and (obj := known_object(entry)) is not None:
                yield obj

    def _entries(self, resource: str, namespace: str | None) -> Iterator[Entry]:
        begin = bytes_of(Key(resource, namespace or "", ""))
        for state in self._etcd.keyspace.current(begin, begin[:-1] + b"0"):  # what follows the slash
            key = object_key(state.key)
            if key is not None:
                yield _entry(key, state)


def _entry(key: Key, state: State) -> Entry:
    return Entry(key, "", state.revision, state.created, state.value or b"")
