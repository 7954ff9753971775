"""Everything that semantic parameters need, kept current by informers."""

from functools import partial
from typing import TYPE_CHECKING

from kubeskew.apimachinery.catalogue.table import catalogue_for
from kubeskew.apimachinery.client.informer import InformerFactory
from kubeskew.apimachinery.client.refs import CUSTOM_RESOURCE_DEFINITIONS, Ref, dra_refs, parameters_refs
from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.framework.events import EventHint, EventResource
from kubeskew.scheduler.plugins.dynamicresources.informer_handlers import follow, moves
from kubeskew.scheduler.plugins.dynamicresources.semantic.allocation import SemanticAllocation
from kubeskew.scheduler.plugins.dynamicresources.semantic.metrics import show_counts
from kubeskew.scheduler.plugins.dynamicresources.semantic.models import MODELS
from kubeskew.scheduler.plugins.dynamicresources.semantic.parameters import (
    IN_TREE,
    ClaimsOf,
    GetClass,
    ParameterType,
    ParameterTypes,
    SemanticParameters,
    claim_types,
    followed_types,
    semantic_hints,
)
from kubeskew.scheduler.plugins.dynamicresources.semantic.resources import SemanticResources, semantic_handles
from kubeskew.scheduler.queue import SchedulingQueue

if TYPE_CHECKING:
    from prometheus_client.registry import CollectorRegistry


class SemanticState:
    """One per scheduler. The caller notifies `resources` of changes to claims."""

    def __init__(self, environment: Environment, finalizer: str) -> None:
        self._environment = environment
        self._finalizer = finalizer
        self.resources = SemanticResources(MODELS)
        self._classes: dict[str, Object] = {}
        self._types: ParameterTypes | None = None
        self._shown = False

    def connect(
        self, factory: InformerFactory, queue: SchedulingQueue, classes: dict[str, Object]
    ) -> SemanticAllocation:
        """Follows slices, parameters and definitions of custom resources; reports changes to the queue.

        `classes` are followed already, by name.
        """
        self._classes = classes
        refs = dra_refs(self._environment.version)
        _, of_claims = parameters_refs(self._environment.version)
        types = self._types = ParameterTypes(self._builtin, factory, partial(_notify, queue))
        self._follow_slices(factory, refs.slices, queue)
        parameters = factory.informer(of_claims)
        moved = moves(queue, EventResource.RESOURCE_CLAIM_PARAMETERS)
        parameters.add_handler(partial(moved, None), moved)
        follow(factory, refs.device_classes, self._class_changed, self._class_changed)
        follow(factory, CUSTOM_RESOURCE_DEFINITIONS, types.set_definition, types.remove_definition)
        allocation = SemanticAllocation(
            MODELS, self.resources, SemanticParameters(parameters, types), self._finalizer
        )
        allocation.listener = queue.move_all_to_active_or_backoff_queue
        return allocation

    def _follow_slices(self, factory: InformerFactory, ref: Ref, queue: SchedulingQueue) -> None:
        moved = moves(queue, EventResource.NODE_RESOURCE_SLICE)

        def changed(old: Object | None, new: Object) -> None:
            self.resources.set_slice(new)
            moved(old, new)

        factory.informer(ref).add_handler(partial(changed, None), changed, self.resources.remove_slice)

    def _class_changed(self, _: Object) -> None:
        if self._types is not None:
            followed = [followed_types(resource_class) for resource_class in self._classes.values()]
            self._types.want(wanted for types in followed for wanted in types)

    def _builtin(self, wanted: ParameterType) -> Ref | None:
        """Finds a kind of the release itself, for instance ConfigMap."""
        table = catalogue_for(self._environment.version, self._environment.gates)
        for group, versions in table.groups():
            for version in versions if group == wanted.group else ():
                for resource in table.resources(group, version):
                    if resource.kind == wanted.kind:
                        return Ref(group, version, resource.plural, resource.namespaced, resource.kind)
        return None

    # -- for the plugin of classic releases

    def hints(self, claims_of: ClaimsOf, get_class: GetClass) -> list[EventHint]:
        return semantic_hints(claims_of, get_class)

    def has_allocated(self, claim: Object) -> bool:
        return bool(semantic_handles(claim))

    def allocates(self, resource_class: Object) -> bool:
        return bool(claim_types(resource_class))

    # -- for metrics

    def show_metrics(self, registry: "CollectorRegistry") -> None:
        """Profiles share the metrics: only the first call has an effect."""
        if not self._shown:
            self._shown = True
            show_counts(registry, self)

    def classes(self) -> int:
        return sum(bool(claim_types(resource_class)) for resource_class in self._classes.values())

    def types(self, *, resolved: bool) -> int:
        """Counts the types of claim parameters that classes name."""
        named = dict.fromkeys(
            wanted for resource_class in self._classes.values() for wanted in claim_types(resource_class)
        )
        known = self._types
        return sum(
            (wanted == IN_TREE or (known is not None and known.is_resolved(wanted))) is resolved
            for wanted in named
        )

    def allocated(self) -> int:
        return self.resources.allocated


def _notify(queue: SchedulingQueue, about: ParameterType, old: Object | None, new: Object | None) -> None:
    """An object without a name reports a change of the type itself."""
    api_version = f"{about.group}/v1" if about.group else "v1"
    type_fields = {"apiVersion": api_version, "kind": about.kind}
    moves(queue, EventResource.VENDOR_PARAMETERS)(old, {"metadata": {}, **(new or {}), **type_fields})
