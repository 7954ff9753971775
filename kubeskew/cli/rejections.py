"""Explains why a pod fitted no node: runs the scheduler's plugins on the cluster as it was at a revision.

Events and conditions have the numbers of nodes by reason; here are the plugins and the nodes that they
refused. The log has everything that decides: objects, read as an API server of that moment served them, and
the version and gates of the scheduler.
"""

from collections.abc import Mapping, Sequence

from kubeskew.apimachinery.catalogue.table import catalogue_for
from kubeskew.apimachinery.clock import SeededEntropy, SystemClock
from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.errors import StatusError, unknown_path
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.registry.codec import Codec
from kubeskew.apiserver.storage.encoding import loads, with_revision
from kubeskew.apiserver.storage.interfaces import CompactedError
from kubeskew.apiserver.storage.sql_log import LogReader
from kubeskew.cluster.autoscaling.manifests import Manifests
from kubeskew.cluster.autoscaling.simulator import Source, rejections
from kubeskew.cluster.failures import ClusterError, named
from kubeskew.conformance.evidence.log import FAULT, ComponentChange, Logged
from kubeskew.conformance.storage.servers import NoWebhooks
from kubeskew.scheduler.autoscaling.snapshot import SimulationError


async def refusals(
    reader: LogReader,
    log: Sequence[Logged],
    runtime_config: Mapping[str, bool],
    revision: int,
    pod: tuple[str, str],
) -> list[str]:
    """Plugins and reasons have a line each, for a pod (namespace, name) at `revision`; none if the log lacks
    what decides.
    """
    scheduler, server = (_settings(log, revision, name) for name in ("scheduler", "apiserver"))
    if scheduler is None or server is None:
        return []
    source = Source(
        *(scheduler.version, scheduler, _Lists(reader, server, runtime_config, revision)),
        Manifests(scheduler.version, scheduler),
    )
    try:
        found = await rejections(source, *pod)
    except (ClusterError, CompactedError, SimulationError, StatusError):
        return []
    return [
        f"{plugin or 'no plugin'} refused {named(nodes)}: {why}" for (plugin, why), nodes in found.items()
    ]


def _settings(log: Sequence[Logged], revision: int, component: str) -> FeatureGates | None:
    """The component, or the first API server, last reported these up to the revision."""
    changes = [
        entry
        for entry in log
        if isinstance(entry, ComponentChange)
        and entry.component in (component, f"{component}-1")
        and entry.version
        and entry.revision <= revision
        and not entry.what.startswith(FAULT)
    ]
    return FeatureGates.parse(Version.parse(changes[-1].version), changes[-1].gates) if changes else None


class _Lists:
    """Serves lists of a log's objects at a revision, as an API server of that moment did."""

    def __init__(
        self, reader: LogReader, gates: FeatureGates, runtime_config: Mapping[str, bool], revision: int
    ) -> None:
        self._reader = reader
        self._revision = revision
        self._table = catalogue_for(gates.version, gates, runtime_config)
        environment = Environment(gates.version, gates, SystemClock(), SeededEntropy(0))
        self._codec = Codec(self._table, environment, NoWebhooks(), range(revision + 1))

    async def __call__(self, path: str) -> Object:
        """Raises StatusError if the server did not serve the path, and UnreadableError."""
        _, root, *parts = path.split("/")
        group, version, plural = ("", *parts) if root == "api" else parts
        resource = self._table.resource(group, version, plural)
        if resource is None:
            raise unknown_path()
        items = [
            loads(with_revision(self._codec.served(resource, entry.value, entry.revision), entry.revision))
            for entry in await self._reader.at(self._revision, resource.storage_resource)
        ]
        return {"metadata": {"resourceVersion": str(self._revision)}, "items": items}
