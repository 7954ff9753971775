"""The parts of one node's kubelet that a pod worker uses, passed as one value, and the crash-loop back-off.

The back-off is k8s.io/client-go/util/flowcontrol/backoff.go as kuberuntime uses it: the first restart is
immediate, each later one waits twice as long as the one before, counted from the moment the container ended;
a container that ran for twice the longest wait starts from the beginning. It is kept in memory only: a
restarted kubelet begins from the beginning too.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from kubeskew.apimachinery.client.recorder import EventRecorder
from kubeskew.apimachinery.clock import Clock
from kubeskew.kubelet.allocation import PodAllocations
from kubeskew.kubelet.containers.environment import PodContents
from kubeskew.kubelet.containers.runtime_service import RuntimeService
from kubeskew.kubelet.device_managers import DevicePlugins, PodDevices
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.metrics import KubeletMetrics
from kubeskew.kubelet.pods.handlers import Asker
from kubeskew.kubelet.pods.images import ImageManager
from kubeskew.kubelet.pods.sync_periods import SyncPeriods
from kubeskew.kubelet.probe_counts import ProbeCounts
from kubeskew.kubelet.resourcemanagers.managers import ResourceManagers
from kubeskew.kubelet.status.status_manager import StatusWriter
from kubeskew.kubelet.volumes.dns import DNSSettings
from kubeskew.kubelet.volumes.pod_volumes import PodVolumes


@dataclass(slots=True)
class _Entry:
    seconds: float
    updated: datetime


class CrashBackoff:
    """The waits of one kubelet's containers."""

    def __init__(self, clock: Clock, first_seconds: float = 10.0, longest_seconds: float = 300.0) -> None:
        self._clock = clock
        self._first = first_seconds
        self._longest = longest_seconds
        self._entries: dict[str, _Entry] = {}

    def waits_until(self, key: str, ended_at: datetime) -> datetime | None:
        """None means that the container that ended at `ended_at` may run again at once."""
        entry = self._entries.get(key)
        if entry is None or self._expired(entry, ended_at):
            return None
        until = ended_at + timedelta(seconds=entry.seconds)
        return until if until > self._clock.now() else None

    def seconds(self, key: str) -> float:
        """The present wait; zero before the first restart."""
        entry = self._entries.get(key)
        return entry.seconds if entry is not None else 0.0

    def restarted(self, key: str, ended_at: datetime) -> None:
        """Doubles the next wait: the container runs again."""
        entry = self._entries.get(key)
        if entry is None or self._expired(entry, ended_at):
            seconds = self._first
        else:
            seconds = min(entry.seconds * 2, self._longest)
        self._entries[key] = _Entry(seconds, self._clock.now())

    def forget(self, prefix: str) -> None:
        for key in [key for key in self._entries if key.startswith(prefix)]:
            del self._entries[key]

    def _expired(self, entry: _Entry, ended_at: datetime) -> bool:
        return (ended_at - entry.updated).total_seconds() > 2 * self._longest


@dataclass(frozen=True, slots=True)
class NodeServices:
    node_name: str
    host_ip: str
    clock: Clock
    features: KubeletFeatures
    runtime: RuntimeService
    images: ImageManager
    asker: Asker
    probes: ProbeCounts
    volumes: PodVolumes
    statuses: StatusWriter
    recorder: EventRecorder
    backoff: CrashBackoff
    periods: SyncPeriods
    devices: PodDevices
    plugins: DevicePlugins
    managers: ResourceManagers
    allocations: PodAllocations
    cdi: Path  # the directory of CDI specs
    metrics: KubeletMetrics
    contents: PodContents
    logs: Path  # the directory of pods' logs
    node_memory: int  # bytes
    dns: DNSSettings
