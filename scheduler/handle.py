"""The parts of the scheduler that plugins may use."""

from collections.abc import Callable
from dataclasses import dataclass, field

from kubeskew.apimachinery.client.informer import Informer, InformerFactory
from kubeskew.apimachinery.client.recorder import EventRecorder
from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.clock import Clock, Entropy
from kubeskew.scheduler.cache import Cache
from kubeskew.scheduler.features import SchedulerFeatures
from kubeskew.scheduler.framework.filters import NodeFilter, Nominator
from kubeskew.scheduler.metrics import Metrics


@dataclass(slots=True)
class Handle:
    """One handle per profile; the later fields are set once the scheduler is complete."""

    client: APIClient
    informers: InformerFactory
    recorder: EventRecorder
    features: SchedulerFeatures
    cache: Cache
    nominator: Nominator
    metrics: Metrics
    clock: Clock
    entropy: Entropy
    activations: list[Callable[[str], None]] = field(default_factory=list)
    filters: list[NodeFilter] = field(default_factory=list)

    @property
    def node_filter(self) -> NodeFilter:
        return self.filters[0]

    def activate(self, uid: str) -> None:
        for run in self.activations:
            run(uid)

    def informer(self, ref: Ref) -> Informer:
        return self.informers.informer(ref)
