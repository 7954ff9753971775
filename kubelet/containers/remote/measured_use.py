"""The use of containers as their runtime last measured it.

A runtime counts the time of processors; what a container uses at the moment is a rate between two counts,
where the runtime does not say it.

Source: pkg/kubelet/stats/cri_stats_provider.go (getAndUpdateContainerUsageNanoCores), 1.36.
"""

from collections.abc import Iterable
from typing import NamedTuple

from kubeskew.kubelet.containers.runtime_service import ContainerStats
from kubeskew.kubelet.protocols.messages import cri_v1_pb2 as messages

_BILLION = 1_000_000_000


class _Measured(NamedTuple):
    stats: messages.ContainerStats
    cores: float


class MeasuredUse:
    """The last measurement of each container."""

    def __init__(self) -> None:
        self._measured: dict[str, _Measured] = {}

    def noted(self, stats: Iterable[messages.ContainerStats]) -> None:
        """Takes a measurement of all containers."""
        self._measured = {each.attributes.id: _Measured(each, self._cores(each)) for each in stats}

    def of(self, container_id: str) -> ContainerStats:
        """Zeros for one that was not measured."""
        found, cores = self._measured.get(container_id, _NOTHING)
        return ContainerStats(
            found.cpu.usage_core_nano_seconds.value / _BILLION,
            found.memory.working_set_bytes.value,
            found.memory.rss_bytes.value,
            written=found.writable_layer.used_bytes.value,
            cores=cores,
        )

    def _cores(self, now: messages.ContainerStats) -> float:
        if now.cpu.HasField("usage_nano_cores"):
            return now.cpu.usage_nano_cores.value / _BILLION
        before, cores = self._measured.get(now.attributes.id, _NOTHING)
        passed = now.cpu.timestamp - before.cpu.timestamp
        used = now.cpu.usage_core_nano_seconds.value - before.cpu.usage_core_nano_seconds.value
        if not before.cpu.timestamp or used < 0:
            return 0.0
        return used / passed if passed > 0 else cores


_NOTHING = _Measured(messages.ContainerStats(), 0.0)
