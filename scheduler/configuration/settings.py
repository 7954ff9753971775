"""The settings of a configuration, with upstream's defaults.

Source: k8s.io/kubernetes/pkg/scheduler/apis/config/v1/defaults.go, 1.36.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kubeskew.apimachinery.client.leader import LeaseTiming
from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.configuration.backoff import Backoff
from kubeskew.scheduler.framework.profile import DEFAULT_SCHEDULER_NAME

# The file's names, in the order in which the cycle runs them.
EXTENSION_POINTS = (
    "preEnqueue", "queueSort", "preFilter", "filter", "postFilter", "preScore", "score",
    "reserve", "permit", "preBind", "bind", "postBind",
)  # fmt: skip
MULTI_POINT = "multiPoint"


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
    """One scheduler name."""

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
    """All of the file that changes what this scheduler does."""

    profiles: Sequence[ProfileSettings] = (ProfileSettings(),)
    percentage_of_nodes_to_score: int = 0  # 0: by the size of the cluster
    backoff: Backoff = field(default_factory=Backoff)
    leader_election: LeaderElection = field(default_factory=LeaderElection)
