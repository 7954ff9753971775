"""Finds the DeviceClass that backs an extended resource (KEP-5004), and the nodes on which it does.

Lookups as releases have them: 1.34, 1.35 to 1.37, and later ones.
"""

from collections.abc import Iterable, Mapping, Set
from typing import Any, Protocol

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import IMPLICIT, is_dra_extended_resource, is_extended_resource

_NATIVE = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})


def implicit_name(class_name: str) -> str:
    return IMPLICIT + class_name


def explicit_name(device_class: Mapping[str, Any] | None) -> str:
    """Empty if the class's spec has no name."""
    spec = (device_class or {}).get("spec") or {}
    return str(spec.get("extendedResourceName") or "")


class ExtendedResources(Protocol):
    """The lookup as plugins use it; it is called with changes of classes."""

    def class_for(self, resource: str) -> Object | None: ...

    def may_back(self, resource: str) -> bool:
        """False spares DynamicResources the look for a class of that name."""
        ...

    def is_lacking(self, allocatable: Mapping[str, int], resource: str) -> bool:
        """A resource that no device plugin of the node provides may come from DRA."""
        ...

    def delegated(self, resources: Iterable[str], *, in_hints: bool = False) -> Set[str]:
        """NodeResourcesFit leaves these of the pod's resources to DRA where they are lacking.

        `in_hints`: as queueing hints judge it.
        """
        ...

    def set_class(self, old: Object | None, new: Object) -> None: ...

    def remove_class(self, device_class: Object) -> None: ...


def class_may_help(pod: Object, old: Object | None, new: Object | None) -> bool:
    """A pod may be helped if it requests a name of a new class, or the changed name of an old one."""
    if new is None:
        return False
    if old is not None and explicit_name(old) == explicit_name(new):
        return False
    wanted = {explicit_name(new)}
    if old is None:
        wanted.add(implicit_name(new["metadata"]["name"]))
    spec = pod["spec"]
    return any(
        resource in wanted
        for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
        for resource in (container.get("resources") or {}).get("requests") or ()
    )


def _is_newer(device_class: Object, other: Object) -> bool:
    """The class that was created later wins a name; among equals, the one with the smaller name."""
    mine, theirs = device_class["metadata"], other["metadata"]
    created, other_created = mine.get("creationTimestamp") or "", theirs.get("creationTimestamp") or ""
    if created != other_created:
        return bool(created > other_created)
    return bool(mine["name"] < theirs["name"])


class IndexedExtendedResources:
    """1.35 and later: an index kept by events (k8s.io/dynamic-resource-allocation, ExtendedResourceCache).

    Its quirks are upstream's (141110, open at 1.37): a class that loses its explicit name is not registered
    under its implicit name either and keeps its old entries; an update that keeps the explicit name is not
    noticed; a class that gives its explicit name up, or goes, takes the name away even from the class that
    owns it now.
    """

    def __init__(self) -> None:
        self._by_resource: dict[str, Object] = {}

    def class_for(self, resource: str) -> Object | None:
        return self._by_resource.get(resource)

    def may_back(self, resource: str) -> bool:
        return is_dra_extended_resource(resource)

    def is_lacking(self, allocatable: Mapping[str, int], resource: str) -> bool:
        """A device plugin that is gone leaves the amount 0 behind, which counts as lacking."""
        return allocatable.get(resource, 0) <= 0

    def delegated(self, resources: Iterable[str], *, in_hints: bool = False) -> Set[str]:
        return {resource for resource in resources if self.class_for(resource) is not None}

    def set_class(self, old: Object | None, new: Object) -> None:
        name, resource, was = new["metadata"]["name"], explicit_name(new), explicit_name(old)
        owner = self._by_resource.get(resource) if resource else None
        if owner is not None and not _is_newer(new, owner):
            return
        if was:
            self._by_resource.pop(was, None)
        if resource:
            self._by_resource[resource] = new
        self._by_resource[implicit_name(name)] = new

    def remove_class(self, device_class: Object) -> None:
        self._by_resource.pop(explicit_name(device_class), None)
        self._by_resource.pop(implicit_name(device_class["metadata"]["name"]), None)


class ArbitratedExtendedResources(IndexedExtendedResources):
    """After 1.37: each change of a class decides again among all classes with a name who owns it.

    Implicit names belong to their class alone (pull request 141110; the events that wake pods stay as they
    were).
    """

    def __init__(self) -> None:
        super().__init__()
        self._claimants: dict[str, dict[str, Object]] = {}  # explicit name → class → the class as it is

    def set_class(self, old: Object | None, new: Object) -> None:
        name, resource, was = new["metadata"]["name"], explicit_name(new), explicit_name(old)
        if was and was != resource:
            self._withdraw(was, name)
        if resource:
            self._claimants.setdefault(resource, {})[name] = new
            self._decide(resource)
        self._by_resource[implicit_name(name)] = new

    def remove_class(self, device_class: Object) -> None:
        name, resource = device_class["metadata"]["name"], explicit_name(device_class)
        if resource:
            self._withdraw(resource, name)
        self._by_resource.pop(implicit_name(name), None)

    def _withdraw(self, resource: str, name: str) -> None:
        self._claimants.get(resource, {}).pop(name, None)
        self._decide(resource)

    def _decide(self, resource: str) -> None:
        owner: Object | None = None
        for device_class in self._claimants.get(resource, {}).values():
            if owner is None or _is_newer(device_class, owner):
                owner = device_class
        if owner is None:
            self._claimants.pop(resource, None)
            self._by_resource.pop(resource, None)
        else:
            self._by_resource[resource] = owner


class ListedExtendedResources:
    """1.34: a plain map of all classes; the implicit name exists only without an explicit one.

    Go's map order decides upstream which of several owners wins; here it is the last by name.
    DynamicResources does not know implicit names yet (pull request 133363), while NodeResourcesFit leaves
    everything that a node does not name to it, if the pod asks for no other extended resource: this pod runs
    without devices.
    """

    def __init__(self) -> None:
        self._classes: dict[str, Object] = {}
        self._by_resource: dict[str, Object] | None = None

    def class_for(self, resource: str) -> Object | None:
        if self._by_resource is None:
            ordered = sorted(self._classes.values(), key=lambda each: str(each["metadata"]["name"]))
            self._by_resource = {
                explicit_name(device_class) or implicit_name(device_class["metadata"]["name"]): device_class
                for device_class in ordered
            }
        return self._by_resource.get(resource)

    def may_back(self, resource: str) -> bool:
        return is_extended_resource(resource)

    def is_lacking(self, allocatable: Mapping[str, int], resource: str) -> bool:
        """Lacking means that the node does not name the resource; before pull request 133784, 0 counts as the
        plugin's."""
        return resource not in allocatable

    def delegated(self, resources: Iterable[str], *, in_hints: bool = False) -> Set[str]:
        counted = {resource for resource in resources if resource not in _NATIVE}
        if in_hints or not any(map(self.may_back, counted)):
            return counted
        return {resource for resource in counted if self.class_for(resource) is not None}

    def set_class(self, old: Object | None, new: Object) -> None:
        self._classes[new["metadata"]["name"]] = new
        self._by_resource = None

    def remove_class(self, device_class: Object) -> None:
        self._classes.pop(device_class["metadata"]["name"], None)
        self._by_resource = None
