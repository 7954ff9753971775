"""The events that may help a pod whose claims wait for semantic parameters or resources.

Source: KEP-4381 as drafted; which events there are is a guess after 1.30's.
"""

from collections.abc import Callable, Iterator, Sequence

from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.allocator.claims import allocation
from kubeskew.scheduler.framework.events import Action, ClusterEvent, EventHint, EventResource
from kubeskew.scheduler.plugins.dynamicresources.generated_parameters import refers_to
from kubeskew.scheduler.plugins.dynamicresources.semantic.parameter_types import type_of
from kubeskew.scheduler.plugins.dynamicresources.semantic.parameters import IN_TREE, claim_types

ClaimsOf = Callable[[Object], Sequence[Object] | None]  # None if they are not all there
GetClass = Callable[[str], Object | None]

_CHANGED = Action.ADD | Action.UPDATE


def semantic_hints(claims_of: ClaimsOf, get_class: GetClass) -> list[EventHint]:
    waiting = _Waiting(claims_of, get_class)
    return [
        EventHint(ClusterEvent(EventResource.NODE_RESOURCE_SLICE, _CHANGED), waiting.after_slice),
        EventHint(ClusterEvent(EventResource.RESOURCE_CLAIM_PARAMETERS, _CHANGED), waiting.after_parameters),
        EventHint(ClusterEvent(EventResource.VENDOR_PARAMETERS, _CHANGED), waiting.after_vendors),
    ]


class _Waiting:
    """The claims of a pod that the scheduler is to allocate, with their classes. Its methods are hints."""

    def __init__(self, claims_of: ClaimsOf, get_class: GetClass) -> None:
        self._claims_of = claims_of
        self._get_class = get_class

    def _of(self, pod: Object) -> Iterator[tuple[Object, Object]]:
        for claim in self._claims_of(pod) or ():
            found = self._get_class(claim["spec"].get("resourceClassName") or "")
            if found is not None and claim_types(found) and allocation(claim) is None:
                yield claim, found

    def after_slice(self, pod: Object, old: Object | None, new: Object | None) -> bool:
        if new is None or (old is not None and old.get("resources") == new.get("resources")):
            return False
        return any(found["driverName"] == new.get("driverName") for _, found in self._of(pod))

    def after_parameters(self, pod: Object, old: Object | None, new: Object | None) -> bool:
        told = ("parameters", "shareable", "generatedFrom")
        if new is None or (old is not None and all(old.get(name) == new.get(name) for name in told)):
            return False
        return any(
            namespace == new["metadata"].get("namespace") and refers_to(reference, new, IN_TREE.kind)
            for reference, namespace in self._references(pod)
        )

    def after_vendors(self, pod: Object, old: Object | None, new: Object | None) -> bool:
        """Judges an object of a vendor's type, or the type itself, which has no name."""
        if new is None:
            return False
        about, metadata = (new["apiVersion"].rpartition("/")[0], new["kind"]), new["metadata"]
        for reference, namespace in self._references(pod):
            if type_of(reference) != about:
                continue
            if not metadata.get("name"):
                return True
            if reference["name"] == metadata["name"] and metadata.get("namespace") in (None, namespace):
                return True
        return False

    def _references(self, pod: Object) -> Iterator[tuple[Object, str | None]]:
        """Yields the references to parameters, with the namespaces that they mean."""
        for claim, found in self._of(pod):
            of_claim, of_class = claim["spec"].get("parametersRef"), found.get("parametersRef")
            if of_claim is not None:
                yield of_claim, claim["metadata"].get("namespace")
            if of_class is not None:
                yield of_class, of_class.get("namespace")
