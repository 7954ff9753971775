"""Follows the types of parameters that classes name, while they name them.

Which resource a type is, is known without asking: from the release's own kinds, and from definitions of
custom resources, which are followed. So a type is found as soon as its definition is established. Types that
extension servers serve are not found.

Source: KEP-4381 as drafted, sections Notes/Constraints/Caveats and Monitoring Requirements.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from kubeskew.apimachinery.catalogue.serving import version_order
from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.client.informer_factory import InformerFactory
from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.allocator.claims import ClaimNotUsable


class ParameterType(NamedTuple):
    """A kind in a group; how it reads is how messages name it."""

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
        """Returns an object with its kind. Raises ClaimNotUsable that says what it waits for."""
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
        """Follows the type by the resource that it is now."""
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
    """Returns the resource in the version that clients prefer; None if none is served."""
    spec = definition["spec"]
    names = (definition.get("status") or {}).get("acceptedNames") or spec["names"]
    served = [version["name"] for version in spec.get("versions") or () if version.get("served")]
    if not served:
        return None
    version = min(served, key=version_order)
    namespaced = spec.get("scope") == "Namespaced"
    return Ref(spec["group"], version, names["plural"], namespaced, names["kind"])
