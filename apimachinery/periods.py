"""Periods and back-offs of components: upstream's by release, in seconds, and the shorter ones of clusters
whose users would rather not wait.

A component is given one `Periods` value with its environment. Under virtual time waiting costs nothing, so
that a simulation with upstream's periods shows orders of events that a real cluster can have.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Final, NamedTuple

from kubeskew.apimachinery.versions import Version

QUICK: Final = "quick"
REAL: Final = "real"
TIMES: Final = (QUICK, REAL)


class Period(NamedTuple):
    """A row of the table: what waits, upstream's seconds, ours with `quick`, and where upstream has it.

    `before` is the first minor with `real`, and the seconds of those before it.
    """

    component: str
    what: str
    real: float
    quick: float
    before: tuple[int, float] | None
    source: str

    def at(self, minor: int, time: str) -> float:
        if time == QUICK and self.quick != self.real:
            return self.quick
        return self.before[1] if self.before is not None and minor < self.before[0] else self.real


def _period(
    component: str,
    what: str,
    real: float,
    source: str,
    *,
    quick: float | None = None,
    before: tuple[int, float] | None = None,
) -> Any:
    row = Period(component, what, real, real if quick is None else quick, before, source)
    return field(default=row.quick, metadata={"row": row})


_ALL, _MANAGER, _SCHEDULER = "all", "controller-manager", "scheduler"
_SERVER, _KUBELET, _LEADERS = "apiserver", "kubelet", "controller-manager, scheduler"
_WORK_QUEUE = "client-go/util/workqueue/default_rate_limiters.go"
_REFLECTOR = "client-go/tools/cache/reflector.go"
_LEADER = "component-base/config/v1alpha1/defaults.go"
_LIFECYCLE = "pkg/controller/nodelifecycle/config/v1alpha1/defaults.go"
_HEALTH = "pkg/controller/nodelifecycle/node_lifecycle_controller.go"
_POD_GC = "pkg/controller/podgc/gc_controller.go"
_VOLUMES = "pkg/controller/volume/persistentvolume/config/v1alpha1/defaults.go"
_JOB = "pkg/controller/job/job_controller.go"
_CORE = "cmd/kube-controller-manager/app/core.go"
_QUOTA = "pkg/controller/resourcequota/config/v1alpha1/defaults.go"
_NAMESPACES = "pkg/controller/namespace/namespace_controller.go"
_NAMESPACE = "pkg/controller/namespace/deletion/namespaced_resources_deleter.go"
_AUTOSCALER = "pkg/controller/podautoscaler/config/v1alpha1/defaults.go"
_QUEUE = "pkg/scheduler/backend/queue/scheduling_queue.go"
_DEFINITIONS = "apiextensions-apiserver/pkg/controller/finalizer/crd_finalizer.go"
_PLUGINS = "pkg/kubelet/pluginmanager/plugin_manager.go"


@dataclass(frozen=True, slots=True)
class Periods:
    """The seconds of one release. Built without arguments they are those of `quick` at the newest one."""

    reflector_first: float = _period(
        _ALL, "an informer that was refused lists again", 0.8, _REFLECTOR, quick=0.05
    )
    reflector_longest: float = _period(
        _ALL, "… and waits twice as long each time, up to", 30.0, _REFLECTOR, quick=1.0
    )
    reflector_jitter: float = _period(
        _ALL, "… each time at random between so many times that and twice as many", 1.0, _REFLECTOR, quick=0.5
    )
    reflector_reset: float = _period(
        _ALL, "… until it did not have to wait for", 120.0, _REFLECTOR, quick=0.0
    )
    lease_duration: float = _period(_LEADERS, "a leader's lease lasts", 15.0, _LEADER)
    lease_renew_deadline: float = _period(_LEADERS, "a leader that cannot renew it ends after", 10.0, _LEADER)
    lease_retry: float = _period(_LEADERS, "a lease is looked at every", 2.0, _LEADER)
    lease_unanswered: float = _period(_LEADERS, "… while no API server answers", 2.0, _LEADER, quick=0.1)
    work_queue_longest: float = _period(
        _MANAGER, "a failing object is tried again after 5 ms, then twice as long each time, up to", 1000.0,
        _WORK_QUEUE, quick=30.0,
    )  # fmt: skip
    work_queue_unanswered: float = _period(
        _MANAGER, "… but while no API server answers, up to", 1000.0, _WORK_QUEUE, quick=0.25
    )
    garbage_collector_discovery: float = _period(
        _MANAGER, "the garbage collector looks for new resources every", 30.0, _CORE, quick=5.0
    )
    garbage_collector_retry: float = _period(
        _MANAGER, "… and if that failed, again after", 30.0, _CORE, quick=0.25
    )
    quota_discovery: float = _period(
        _MANAGER, "the quota controller looks for new resources every", 30.0, _CORE, quick=1.0
    )
    quota_resync: float = _period(_MANAGER, "all quotas are measured every", 300.0, _QUOTA)
    namespace_grace: float = _period(
        _MANAGER, "a deleted namespace is looked at after each of its changes by", 5.0,
        _NAMESPACES, quick=0.0,
    )  # fmt: skip
    namespace_first: float = _period(
        _MANAGER, "… then after half of its pods' grace, or of 15 for finalizers, and 1; at most",
        math.inf, _NAMESPACE, quick=0.2,
    )  # fmt: skip
    namespace_longest: float = _period(_MANAGER, "… later at most", math.inf, _NAMESPACE, quick=2.0)
    volume_resync: float = _period(
        _MANAGER, "claims that wait look for a volume every (0: when one changes)", 15.0, _VOLUMES, quick=0.0
    )
    node_monitor: float = _period(_MANAGER, "nodes' health is looked at every", 5.0, _HEALTH)
    node_grace: float = _period(
        _MANAGER, "a node that is silent counts as lost after", 50.0, _LIFECYCLE, before=(32, 40.0)
    )
    node_startup_grace: float = _period(_MANAGER, "… a new one after", 60.0, _LIFECYCLE)
    pod_gc: float = _period(_MANAGER, "pods without a node are looked for every", 20.0, _POD_GC)
    pod_gc_quarantine: float = _period(_MANAGER, "… and deleted once the node was gone for", 40.0, _POD_GC)
    job_batch: float = _period(
        _MANAGER, "a job is looked at after changes of its pods, gathered for", 1.0, _JOB, quick=0.0
    )
    job_backoff_first: float = _period(_MANAGER, "a job's pod that failed is replaced after", 10.0, _JOB)
    job_backoff_longest: float = _period(_MANAGER, "… then twice as late each time, up to", 600.0, _JOB)
    autoscaler_first: float = _period(
        _MANAGER, "a new HorizontalPodAutoscaler is looked at after", 15.0, _AUTOSCALER, quick=0.0
    )
    autoscaler_sync: float = _period(_MANAGER, "… and every", 15.0, _AUTOSCALER)
    scheduler_leftover: float = _period(
        _SCHEDULER, "a rejected pod is tried again without an event after", 300.0, _QUEUE
    )
    scheduler_flush: float = _period(_SCHEDULER, "… such pods are looked for every", 30.0, _QUEUE)
    definition_deletion: float = _period(
        _SERVER, "what is left of a deleted definition's objects is looked at every", 5.0, _DEFINITIONS,
        quick=0.25,
    )  # fmt: skip
    plugin_look: float = _period(_KUBELET, "sockets of plugins are looked at every", 1.0, _PLUGINS)
    plugin_look_busy: float = _period(
        _KUBELET, "… in the ten seconds after one has changed, every", 1.0, _PLUGINS, quick=0.1
    )

    @classmethod
    def at(cls, version: Version, time: str) -> "Periods":
        """`time` is one of TIMES."""
        return cls(**{name: row.at(version.minor, time) for name, row in rows()})


DEFAULT_PERIODS: Final = Periods()


def rows() -> Iterator[tuple[str, Period]]:
    """Yields each row of the table with its name in `Periods`, in order."""
    for each in fields(Periods):
        yield each.name, each.metadata["row"]
