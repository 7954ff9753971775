"""Everything that classic dynamic resources need besides their plugin, kept current by informers."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from kubeskew.apimachinery.client.informer import InformerFactory
from kubeskew.apimachinery.client.refs import parameters_refs, scheduling_context_ref
from kubeskew.apimachinery.environment import Environment
from kubeskew.scheduler.features import SchedulerFeatures
from kubeskew.scheduler.framework.events import EventResource
from kubeskew.scheduler.handle import Handle
from kubeskew.scheduler.plugins.dynamicresources.claim_tracker import ClaimTracker
from kubeskew.scheduler.plugins.dynamicresources.claim_writer import NoConversion
from kubeskew.scheduler.plugins.dynamicresources.classic.claims import ClassicWriter
from kubeskew.scheduler.plugins.dynamicresources.classic.decisions import ClassicDecisions, ClassicInventory
from kubeskew.scheduler.plugins.dynamicresources.classic.features import ClassicFeatures
from kubeskew.scheduler.plugins.dynamicresources.classic.negotiation import Negotiation, SchedulingContexts
from kubeskew.scheduler.plugins.dynamicresources.classic.plugin import (
    ClassicDynamicResources,
    ClassicSimulation,
)
from kubeskew.scheduler.plugins.dynamicresources.classic.scheduler_allocation import OwnAllocation
from kubeskew.scheduler.plugins.dynamicresources.classic.structured_parameters import (
    Parameters,
    StructuredAllocation,
)
from kubeskew.scheduler.plugins.dynamicresources.informer_handlers import follow, follow_classes, moves
from kubeskew.scheduler.queue import SchedulingQueue


class ClassicState:
    """The inventory, and the plugin made from it. Objects are as the server has them."""

    extended = None  # no class backs extended resources
    totals = None

    def __init__(
        self,
        environment: Environment,
        features: SchedulerFeatures,
        classic: ClassicFeatures,
        own: OwnAllocation | None = None,
    ) -> None:
        """`own` allocates the claims of some classes without their drivers."""
        self._environment = environment
        self._features = features
        self._classic = classic
        self._edge = NoConversion(environment.version)
        self._contexts_ref = scheduling_context_ref(environment.version)
        self._own = own
        self.claims = ClaimTracker(observer=own.resources if own is not None else None)
        self._inventory = ClassicInventory(self.claims, SchedulingContexts(self._contexts_ref, classic))

    def plugin(self, handle: Handle, profile: str, args: Mapping[str, Any]) -> ClassicDynamicResources:
        """Raises ConfigurationError, for the plugin takes no arguments."""
        self._features.dynamic.with_arguments(args)
        inventory = self._inventory
        negotiation = Negotiation(self._classic, inventory.contexts, handle.client, handle.entropy)
        writer = ClassicWriter(
            self._classic, handle.client, self._edge, self.claims, handle.clock, handle.entropy
        )
        if self._own is not None:
            self._own.show_metrics(handle.metrics.dynamic.registry)
        return ClassicDynamicResources(
            self._classic, inventory, negotiation, writer, self._simulate, self._own
        )

    def _simulate(self) -> ClassicSimulation:
        inventory, allocated = self._inventory, None
        if inventory.allocation is not None:
            claims, allocated = inventory.allocation.simulated(self.claims)
        else:
            claims = self.claims.copy()
        copy = replace(inventory, claims=claims, allocation=allocated, classes=dict(inventory.classes))
        return ClassicSimulation(ClassicDecisions(self._classic, copy), claims, allocated)

    def connect(self, factory: InformerFactory, queue: SchedulingQueue) -> None:
        inventory, refs = self._inventory, self._edge.refs
        self.claims.listener = queue.move_all_to_active_or_backoff_queue
        inventory.contexts.listener = queue.move_all_to_active_or_backoff_queue
        follow(factory, refs.claims, self.claims.set_claim, self.claims.remove_claim)
        follow(factory, self._contexts_ref, inventory.contexts.set_context, inventory.contexts.remove_context)
        follow_classes(factory, refs.device_classes, inventory.classes, queue)
        if self._classic.named_resources:
            inventory.allocation = self._structured(factory, queue)
        if self._own is not None:
            inventory.allocation = self._own.connect(factory, queue, inventory.classes)

    def _structured(self, factory: InformerFactory, queue: SchedulingQueue) -> StructuredAllocation:
        of_classes, of_claims = parameters_refs(self._environment.version)
        informers = factory.informer(of_classes), factory.informer(of_claims)
        parameters = Parameters(*informers)
        for informer, resource in zip(
            informers,
            (EventResource.RESOURCE_CLASS_PARAMETERS, EventResource.RESOURCE_CLAIM_PARAMETERS),
            strict=True,
        ):
            moved = moves(queue, resource)
            informer.add_handler(partial(moved, None), moved)
        return StructuredAllocation(self.claims, parameters, factory.informer(self._edge.refs.slices).list)
