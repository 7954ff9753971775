"""Tells why a pod fitted no node: asks the scheduler's plugins about the cluster as it was at a revision.

Events and conditions say how many nodes gave which reason; what is told here is which plugin refused which
node. The log has all that decides: objects, read as an API server of that moment served them, and the version
and gates of the scheduler.
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
    """Returns in words which plugin refused which nodes to a pod (namespace, name) at `revision`; none where
    the log does not tell enough.
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
    """Returns version and gates that a component (the first API server) last told before a revision."""
    told = [
        entry
        for entry in log
        if isinstance(entry, ComponentChange)
        and entry.component in (component, f"{component}-1")
        and entry.version
        and entry.revision <= revision
        and not entry.what.startswith(FAULT)
    ]
    return FeatureGates.parse(Version.parse(told[-1].version), told[-1].gates) if told else None


class _Lists:
    """Answers lists with the objects of a log at a revision, as an API server of that moment did."""

    def __init__(
        self, reader: LogReader, gates: FeatureGates, runtime_config: Mapping[str, bool], revision: int
    ) -> None:
        self._reader = reader
        self._revision = revision
        self._table = catalogue_for(gates.version, gates, runtime_config)
        environment = Environment(gates.version, gates, SystemClock(), SeededEntropy(0))
        self._codec = Codec(self._table, environment, NoWebhooks())

    async def __call__(self, path: str) -> Object:
        """Returns the list of a path. Raises StatusError if the server did not serve it, UnreadableError."""
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
