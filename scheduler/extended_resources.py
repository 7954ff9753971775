"""Which DeviceClass backs which extended resource (KEP-5004).

Two lookups, as two releases have them. Both know the implicit name of a class too.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from scheduler.framework.events import Object

IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"


def implicit_name(class_name: str) -> str:
    return IMPLICIT_PREFIX + class_name


def explicit_name(device_class: Mapping[str, Any] | None) -> str:
    """The name in the class's spec, or ""."""
    spec = (device_class or {}).get("spec") or {}
    return str(spec.get("extendedResourceName") or "")


def is_extended_resource(name: str) -> bool:
    """Whether DRA may back a resource of that name: qualified, and not Kubernetes' own."""
    if name.startswith(IMPLICIT_PREFIX):
        return True
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


class ExtendedResources(Protocol):
    """The lookup as plugins use it; classes are told to it as they change."""

    def class_for(self, resource: str) -> Object | None: ...

    def class_may_help(self, pod: Object, old: Object | None, new: Object | None) -> bool: ...

    def set_class(self, old: Object | None, new: Object) -> None: ...

    def remove_class(self, device_class: Object) -> None: ...


def class_may_help(pod: Object, old: Object | None, new: Object | None) -> bool:
    """A new or changed class matters to pods that ask for one of its names."""
    if new is None:
        return False
    name = new["metadata"]["name"]
    if old is not None and explicit_name(old) == explicit_name(new):
        return False
    wanted = {implicit_name(name), explicit_name(new)}
    spec = pod["spec"]
    return any(
        resource in wanted
        for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
        for resource in (container.get("resources") or {}).get("requests") or ()
    )


def _is_newer(device_class: Object, other: Object) -> bool:
    """Whether the class wins a name from the other: created later, or as late with a smaller name."""
    mine, theirs = device_class["metadata"], other["metadata"]
    created, other_created = mine.get("creationTimestamp") or "", theirs.get("creationTimestamp") or ""
    if created != other_created:
        return bool(created > other_created)
    return bool(mine["name"] < theirs["name"])


class IndexedExtendedResources:
    """1.35 and later: an index kept by events (k8s.io/dynamic-resource-allocation, ExtendedResourceCache).

    Its quirks are upstream's: a class that loses its explicit name is not registered under its implicit name
    either and keeps its old entries; deleting a class removes the explicit name even if another owns it now.
    """

    def __init__(self) -> None:
        self._by_resource: dict[str, Object] = {}

    def class_for(self, resource: str) -> Object | None:
        return self._by_resource.get(resource)

    def class_may_help(self, pod: Object, old: Object | None, new: Object | None) -> bool:
        return class_may_help(pod, old, new)

    def set_class(self, old: Object | None, new: Object) -> None:
        name, resource = new["metadata"]["name"], explicit_name(new)
        if resource:
            owner = self._by_resource.get(resource)
            if owner is not None and owner["metadata"]["name"] != name and not _is_newer(new, owner):
                return
            self._by_resource[resource] = new
        was = explicit_name(old)
        if was and was != resource:
            self._by_resource.pop(was, None)
        self._by_resource[implicit_name(name)] = new

    def remove_class(self, device_class: Object) -> None:
        self._by_resource.pop(explicit_name(device_class), None)
        self._by_resource.pop(implicit_name(device_class["metadata"]["name"]), None)


class ListedExtendedResources:
    """1.34: a plain map of all classes; the implicit name exists only without an explicit one.

    Which of several owners wins was up to Go's map order; here it is the last by name.
    """

    def __init__(self) -> None:
        self._classes: dict[str, Object] = {}
        self._by_resource: dict[str, Object] | None = None

    def class_for(self, resource: str) -> Object | None:
        if self._by_resource is None:
            ordered = sorted(self._classes.values(), key=lambda each: str(each["metadata"]["name"]))
            self._by_resource = {
                explicit_name(each) or implicit_name(each["metadata"]["name"]): each for each in ordered
            }
        return self._by_resource.get(resource)

    def class_may_help(self, pod: Object, old: Object | None, new: Object | None) -> bool:
        return class_may_help(pod, old, new)

    def set_class(self, old: Object | None, new: Object) -> None:
        self._classes[new["metadata"]["name"]] = new
        self._by_resource = None

    def remove_class(self, device_class: Object) -> None:
        self._classes.pop(device_class["metadata"]["name"], None)
        self._by_resource = None
