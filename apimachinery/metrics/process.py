"""Makes the families that every component has: its process, build, gates and number of families.

`/version` has the same fields of a component's build. There are no families of Go's runtime (`go_*`), because
there is none. Sources, 1.36: component-base/metrics/{version.go,registry.go,processstarttime.go},
prometheus/features/metrics.go, client_golang/prometheus/process_collector_procfsenabled.go.
"""

import hashlib
import platform
import resource
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.metrics.series import families, hidden
from kubeskew.apimachinery.versions import Version

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric

_PROC = Path("/proc/self")
_VERSION_LABELS = ("binary", "component", "emulation", "min_compat")
_BUILD_LABELS = {
    "build_date": "buildDate",
    "compiler": "compiler",
    "git_commit": "gitCommit",
    "git_tree_state": "gitTreeState",
    "git_version": "gitVersion",
    "go_version": "goVersion",
    "platform": "platform",
}


def build_information(version: Version) -> dict[str, str]:
    """Fields of version.Info about the build, by their names in JSON."""
    return {
        "gitVersion": version.git_version,
        "gitCommit": hashlib.sha1(version.git_version.encode(), usedforsecurity=False).hexdigest(),
        "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z",
        "goVersion": "go1.25.0",
        "compiler": "gc",
        "platform": f"linux/{'arm64' if platform.machine() == 'aarch64' else 'amd64'}",
    }


class ProcessMetrics:
    """Collects, at each scrape, numbers that no code counts."""

    def __init__(self, registry: "CollectorRegistry", environment: Environment) -> None:
        self._registry = registry
        self._environment = environment
        self._begun = environment.clock.now().timestamp()
        self._looking = False
        registry.register(self)

    def describe(self) -> "Iterator[Metric]":
        """Yields nothing: no other collector has these names."""
        yield from ()

    def collect(self) -> "Iterator[Metric]":
        if self._looking:  # counting the families collects them
            return
        self._looking = True
        try:
            yield from self._process()
            yield from self._release()
            yield from self._shown()
        finally:
            self._looking = False

    def _process(self) -> "Iterator[Metric]":
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        usage, limits = resource.getrusage(resource.RUSAGE_SELF), resource.getrlimit
        pages = (_PROC / "statm").read_text().split()
        size = resource.getpagesize()
        yield CounterMetricFamily(
            "process_cpu_seconds", "Seconds of processors used.", usage.ru_utime + usage.ru_stime
        )
        for name, text, count in _network():
            yield CounterMetricFamily(name, text, count)
        values = {
            "process_max_fds": ("Files that may be open.", limits(resource.RLIMIT_NOFILE)[0]),
            "process_open_fds": ("Files that are open.", len(list((_PROC / "fd").iterdir()))),
            "process_resident_memory_bytes": ("Bytes of memory in use.", int(pages[1]) * size),
            "process_start_time_seconds": ("When the process began, in seconds since 1970.", self._begun),
            "process_virtual_memory_bytes": ("Bytes of address space in use.", int(pages[0]) * size),
            "process_virtual_memory_max_bytes": (
                "Bytes of address space that may be used.",
                limits(resource.RLIMIT_AS)[0] % 2**64,
            ),
        }
        for name, (text, value) in values.items():
            yield GaugeMetricFamily(name, text, float(value))

    def _release(self) -> "Iterator[Metric]":
        from prometheus_client.core import GaugeMetricFamily

        version, gates = self._environment.version, self._environment.gates
        fields = build_information(version)
        build = {label: fields[name] for label, name in _BUILD_LABELS.items()}
        build.update(major="1", minor=str(version.minor))
        info = GaugeMetricFamily("kubernetes_build_info", "The build, in labels.", labels=tuple(build))
        info.add_metric(tuple(build.values()), 1)
        yield info
        enabled = GaugeMetricFamily(
            "kubernetes_feature_enabled", "Whether a gate is on.", labels=("name", "stage")
        )
        for name, stage, on in gates.states():
            enabled.add_metric((name, "" if stage == "GA" else stage.upper()), float(on))
        yield enabled
        compatible = GaugeMetricFamily(
            "version_info", "The versions that the component emulates.", labels=_VERSION_LABELS
        )
        emulated = (f"{version.git_version[1:]}", "kube", f"1.{version.minor}", f"1.{version.minor - 1}")
        compatible.add_metric(emulated, 1)
        yield compatible

    def _shown(self) -> "Iterator[Metric]":
        """Counts the families that are registered, by stability, and those of them that are not shown."""
        from prometheus_client.core import CounterMetricFamily

        minor = self._environment.version.base.minor
        known, old = families(minor), set(hidden(minor))
        names = [
            name
            for metric in self._registry.collect()
            for name in (metric.name, f"{metric.name}_total")
            if name in known or name in old
        ]
        registered = CounterMetricFamily(
            "registered_metrics", "Families registered.", labels=("stability_level", "deprecated_version")
        )
        counts = Counter((known[name].stability, known[name].deprecated) for name in names if name in known)
        for labels, count in counts.items():
            registered.add_metric(labels, count)
        yield registered
        yield CounterMetricFamily("hidden_metrics", "Families hidden.", len(old.intersection(names)))
        yield CounterMetricFamily("disabled_metrics", "Families switched off.", 0)


def _network() -> Iterator[tuple[str, str, int]]:
    """Bytes that passed through the machine's network, as the library counts them."""
    file = _PROC / "net" / "netstat"
    lines = file.read_text().splitlines() if file.exists() else []
    for names, values in zip(lines[::2], lines[1::2], strict=False):
        found = dict(zip(names.split(), values.split(), strict=True))
        if "InOctets" in found:
            yield "process_network_receive_bytes", "Bytes received.", int(found["InOctets"])
            yield "process_network_transmit_bytes", "Bytes sent.", int(found["OutOctets"])
