"""Finds the parameters of claims and classes that the scheduler is to allocate for, follows the types that
classes name, and has the events that may help a pod whose claims wait for parameters or resources.

Which resource a type is, is known without asking: from the release's own kinds, and from definitions of
custom resources, which are followed. So a type is found as soon as its definition is established. Types that
extension servers serve are not found.

Sources: KEP-4381 as drafted, sections Notes/Constraints/Caveats and Monitoring Requirements; KEP-4381 as
drafted, sections Using semantic parameters as claim parameters, ResourceClass extension and
ResourceClaimParameters; KEP-4381 as drafted; which events there are is a guess after 1.30's.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from kubeskew.apimachinery.catalogue.served_resources import version_order
from kubeskew.apimachinery.client.informer import Informer, InformerFactory
from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.allocator.claims import ClaimNotUsable, allocation
from kubeskew.scheduler.framework.events import Action, ClusterEvent, EventHint, EventResource
from kubeskew.scheduler.plugins.dynamicresources.classic.scheduler_allocation import (
    GeneratedParameters,
    refers_to,
)

ClaimsOf = Callable[[Object], Sequence[Object] | None]  # None if they are not all there
GetClass = Callable[[str], Object | None]

_CHANGED = Action.ADD | Action.UPDATE


class ParameterType(NamedTuple):
    """Messages name it as `str` writes it."""

    group: str
    kind: str

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind


def type_of(reference: Mapping[str, Any]) -> ParameterType:
    return ParameterType(reference.get("apiGroup") or "", reference.get("kind") or "")


Changed = Callable[[ParameterType, Object | None, Object | None], None]


class ParameterTypes:
    """The types that are wanted, and the objects of those that can be resolved to a resource."""

    def __init__(
        self, builtin: Callable[[ParameterType], Ref | None], factory: InformerFactory, changed: Changed
    ) -> None:
        """`builtin` finds kinds of the release itself.

        `changed` is called for objects that come or change, and without any when a type becomes known,
        can or cannot be listed, or is gone.
        """
        self._builtin = builtin
        self._factory = factory
        self._changed = changed
        self._custom: dict[str, Object] = {}  # definitions that are established, by name
        self._wanted: dict[ParameterType, None] = {}
        self._informers: dict[ParameterType, Informer] = {}

    def want(self, types: Iterable[ParameterType]) -> None:
        """Follows these types, and no others."""
        self._wanted = dict.fromkeys(types)
        for known in [known for known in self._informers if known not in self._wanted]:
            self._end(known)
        for wanted in self._wanted:
            self._begin(wanted)

    def is_resolved(self, wanted: ParameterType) -> bool:
        return self._resource(wanted) is not None

    def get(self, wanted: ParameterType, namespace: str, name: str) -> Object:
        """Adds the object's kind. Raises ClaimNotUsable with the reason to wait."""
        informer = self._informers.get(wanted)
        if informer is None:
            raise ClaimNotUsable(f"no resource of kind {wanted} is known")
        found = informer.get(namespace if informer.ref.namespaced else "", name)
        if found is not None:
            return {**found, "apiVersion": informer.ref.api_version, "kind": informer.ref.kind}
        if informer.failure:
            raise ClaimNotUsable(f"{wanted} cannot be listed: {informer.failure}")
        if not informer.has_synced:
            raise ClaimNotUsable(f"{wanted} are not listed yet")
        shown = f"{namespace}/{name}" if informer.ref.namespaced else name
        raise ClaimNotUsable(f"{wanted} {shown} not found")

    # -- definitions of custom resources

    def set_definition(self, definition: Object) -> None:
        name = definition["metadata"]["name"]
        self._custom.pop(name, None)
        if _is_established(definition):
            self._custom[name] = definition
        self._redefined(definition)

    def remove_definition(self, definition: Object) -> None:
        self._custom.pop(definition["metadata"]["name"], None)
        self._redefined(definition)

    def _redefined(self, definition: Object) -> None:
        for wanted in self._wanted:
            if wanted.group == definition["spec"]["group"]:
                self._begin(wanted)

    def _resource(self, wanted: ParameterType) -> Ref | None:
        for name in sorted(self._custom):
            found = _ref(self._custom[name])
            if found is not None and (found.group, found.kind) == wanted:
                return found
        return self._builtin(wanted)

    # -- informers

    def _begin(self, wanted: ParameterType) -> None:
        ref = self._resource(wanted)
        known = self._informers.get(wanted)
        if known is not None and known.ref == ref:
            return
        if known is not None:
            self._end(wanted)
        if ref is not None:
            informer = self._informers[wanted] = self._factory.follow(ref)
            changed = partial(self._changed, wanted)
            informer.add_handler(partial(changed, None), changed)
            informer.add_state_handler(partial(changed, None, None))
        self._changed(wanted, None, None)

    def _end(self, known: ParameterType) -> None:
        self._factory.unfollow(self._informers.pop(known))


def _is_established(definition: Object) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(
        condition["type"] == "Established" and condition["status"] == "True" for condition in conditions
    )


def _ref(definition: Object) -> Ref | None:
    """Takes the version that clients prefer; None if none is served."""
    spec = definition["spec"]
    names = (definition.get("status") or {}).get("acceptedNames") or spec["names"]
    served = [version["name"] for version in spec.get("versions") or () if version.get("served")]
    if not served:
        return None
    version = min(served, key=version_order)
    namespaced = spec.get("scope") == "Namespaced"
    return Ref(spec["group"], version, names["plural"], namespaced, names["kind"])


IN_TREE = ParameterType("resource.k8s.io", "ResourceClaimParameters")


class ClaimParameters(NamedTuple):
    """`parameters` is what the scheduler reads, `snapshot` the object that the user wrote, as it is kept in
    the allocation."""

    parameters: Object
    snapshot: Object | None


class SemanticParameters:
    def __init__(self, of_claims: Informer, types: ParameterTypes) -> None:
        self._of_claims = of_claims
        self._generated = GeneratedParameters(of_claims)
        self._types = types

    def of_class(self, resource_class: Object) -> Object | None:
        """Raises ClaimNotUsable if the object is not there."""
        reference = resource_class.get("parametersRef")
        if reference is None:
            return None
        return self._get(reference, reference.get("namespace") or "")

    def of_claim(self, claim: Object, resource_class: Object) -> ClaimParameters:
        """Raises ClaimNotUsable if the parameters are not there, or were made for an older version of the
        user's.

        A claim without parameters asks for any resource, which it shares: so it is in 1.30.
        """
        reference, namespace = claim["spec"].get("parametersRef"), claim["metadata"]["namespace"]
        if reference is None:
            return ClaimParameters({"shareable": True}, None)
        wanted = type_of(reference)
        if wanted not in claim_types(resource_class):
            name = resource_class["metadata"]["name"]
            raise ClaimNotUsable(f"resource class {name} does not allow parameters of kind {wanted}")
        found = self._get(reference, namespace)
        if wanted == IN_TREE:
            return ClaimParameters(found, found)
        return ClaimParameters(self._translated(found, wanted, reference, namespace), found)

    def _get(self, reference: Mapping[str, Any], namespace: str) -> Object:
        wanted, name = type_of(reference), reference["name"]
        if wanted != IN_TREE:
            return self._types.get(wanted, namespace, name)
        found = self._of_claims.get(namespace, name)
        if found is None:
            raise ClaimNotUsable(f"claim parameters {namespace}/{name} not found")
        return {**found, "apiVersion": self._of_claims.ref.api_version, "kind": wanted.kind}

    def _translated(
        self, vendors: Object, wanted: ParameterType, reference: Mapping[str, Any], namespace: str
    ) -> Object:
        """Finds the driver's translation of the vendor's object in its present generation."""
        uid, generation = vendors["metadata"]["uid"], vendors["metadata"].get("generation") or 0
        found = self._generated.only(
            "claim",
            reference,
            namespace,
            lambda origin: (origin.get("uid"), origin.get("generation") or 0) == (uid, generation),
            f" (generation {generation})",
        )
        return {**found, "kind": IN_TREE.kind}


def claim_types(resource_class: Object) -> list[ParameterType]:
    return [type_of(given) for given in resource_class.get("parameterTypes") or ()]


def followed_types(resource_class: Object) -> list[ParameterType]:
    """Types whose objects the class needs, without those that are always followed."""
    found = claim_types(resource_class)
    reference = resource_class.get("parametersRef")
    if found and reference is not None:
        found.append(type_of(reference))
    return [wanted for wanted in found if wanted != IN_TREE]


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
        compared = ("parameters", "shareable", "generatedFrom")
        if new is None or (old is not None and all(old.get(name) == new.get(name) for name in compared)):
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
        for claim, found in self._of(pod):
            of_claim, of_class = claim["spec"].get("parametersRef"), found.get("parametersRef")
            if of_claim is not None:
                yield of_claim, claim["metadata"].get("namespace")
            if of_class is not None:
                yield of_class, of_class.get("namespace")
