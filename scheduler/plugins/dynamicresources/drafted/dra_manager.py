"""Everything that the plugin of KEP-3063's draft needs: claims and classes, kept current by informers."""

from collections.abc import Mapping
from typing import Any

from kubeskew.apimachinery.client.informer_factory import InformerFactory
from kubeskew.apimachinery.client.refs import dra_refs
from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.features.classic import ClassicFeatures
from kubeskew.scheduler.features.scheduler import SchedulerFeatures
from kubeskew.scheduler.handle import Handle
from kubeskew.scheduler.plugins.dynamicresources.claim_tracker import ClaimTracker
from kubeskew.scheduler.plugins.dynamicresources.classic.pod_claims import ClassicPodClaims
from kubeskew.scheduler.plugins.dynamicresources.drafted.plugin import DraftedDynamicResources
from kubeskew.scheduler.plugins.dynamicresources.drafted.writing import DraftedWriter
from kubeskew.scheduler.plugins.dynamicresources.informer_handlers import follow, follow_classes
from kubeskew.scheduler.queue.scheduling_queue import SchedulingQueue


class DraftedState:
    """The inventory, and the plugin made from it."""

    extended = None  # no class backs extended resources
    totals = None

    def __init__(
        self, environment: Environment, features: SchedulerFeatures, classic: ClassicFeatures
    ) -> None:
        self._features = features
        self._refs = dra_refs(environment.version)
        self.claims = ClaimTracker()
        self._classes: dict[str, Object] = {}
        self._pod_claims = ClassicPodClaims(classic, self.claims)

    def plugin(self, handle: Handle, profile: str, args: Mapping[str, Any]) -> DraftedDynamicResources:
        """The plugin of one profile; raises ConfigurationError, for it takes no arguments."""
        self._features.dynamic.with_arguments(args)
        writer = DraftedWriter(handle.client, self._refs.claims, self.claims)
        return DraftedDynamicResources(self._pod_claims, self._classes, writer, handle.entropy)

    def connect(self, factory: InformerFactory, queue: SchedulingQueue) -> None:
        """Follow claims and classes; tell the queue what changed."""
        self.claims.listener = queue.move_all_to_active_or_backoff_queue
        follow(factory, self._refs.claims, self.claims.set_claim, self.claims.remove_claim)
        follow_classes(factory, self._refs.device_classes, self._classes, queue)
