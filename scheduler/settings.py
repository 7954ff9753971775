"""The settings of a configuration with upstream's defaults, durations as Go writes them, and how long a pod
that failed waits before it is tried again.

Source: k8s.io/kubernetes/pkg/scheduler/apis/config/v1/defaults.go, 1.36.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kubeskew.apimachinery import go_formats
from kubeskew.apimachinery.client.leader import LeaseTiming
from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.framework.profile import DEFAULT_SCHEDULER_NAME

INITIAL_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 1.0, 10.0
# The file's names, in the order in which the cycle runs them.
EXTENSION_POINTS = (
    "preEnqueue", "queueSort", "preFilter", "filter", "postFilter", "preScore", "score",
    "reserve", "permit", "preBind", "bind", "postBind",
)  # fmt: skip
MULTI_POINT = "multiPoint"


class ConfigurationError(ValueError):
    """The file cannot be used; the text says why."""


def parse_duration(text: str) -> float:
    """Seconds of a duration as Go writes it (`1m30s`); raises ConfigurationError."""
    try:
        return go_formats.parse_duration(text)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None


class Attempted(Protocol):
    """A pod with its failed attempts: how many, and when (monotonic) the last one ended."""

    failures: int
    tried: float


@dataclass(frozen=True, slots=True)
class Backoff:
    """`podInitialBackoffSeconds` and `podMaxBackoffSeconds` of the configuration."""

    initial_seconds: float = INITIAL_BACKOFF_SECONDS
    max_seconds: float = MAX_BACKOFF_SECONDS

    def seconds(self, failures: int) -> float:
        """Initial time after the first failed attempt, doubled with each, up to the maximum."""
        if failures <= 0:
            return 0.0
        return float(min(self.initial_seconds * 2 ** (min(failures, 16) - 1), self.max_seconds))

    def ready_at(self, pod: Attempted) -> float:
        """Monotonic time, like `tried`."""
        return pod.tried + self.seconds(pod.failures)


@dataclass(frozen=True, slots=True)
class PluginRef:
    """An enabled plugin; weight 0 is the default one."""

    name: str
    weight: int = 0


@dataclass(frozen=True, slots=True)
class PluginSet:
    """The plugins that are added at an extension point, and those disabled; `*` disables all."""

    enabled: Sequence[PluginRef] = ()
    disabled: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ProfileSettings:
    scheduler_name: str = DEFAULT_SCHEDULER_NAME
    percentage_of_nodes_to_score: int | None = None
    plugins: Mapping[str, PluginSet] = field(default_factory=dict)  # by extension point
    arguments: Mapping[str, Object] = field(default_factory=dict)  # by plugin


@dataclass(frozen=True, slots=True)
class LeaderElection:
    """The lease to hold; with None the flag decides whether to hold one."""

    elect: bool | None = None
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"
    timing: LeaseTiming = field(default_factory=LeaseTiming)


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """Fields of the file that this scheduler does not use are left out."""

    profiles: Sequence[ProfileSettings] = (ProfileSettings(),)
    percentage_of_nodes_to_score: int = 0  # 0: by the size of the cluster
    backoff: Backoff = field(default_factory=Backoff)
    leader_election: LeaderElection = field(default_factory=LeaderElection)
