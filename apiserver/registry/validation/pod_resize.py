"""What may change through a pod's resize subresource.

Source: pkg/apis/core/validation/validation.go (ValidatePodResize), 1.36.
"""

import copy
from collections.abc import Iterator

from apimachinery.errors import Object
from apimachinery.field import FieldError, child, forbidden, index, invalid, key
from apimachinery.quantity import Quantity
from apiserver.registry.validation.pod_update import spec_difference

_MIRROR = "kubernetes.io/config.mirror"
_FIELDS = ("containers", "initContainers")
_MUTABLE = ("cpu", "memory")
_QOS = "Pod QOS Class may not change as a result of resizing"


def resize_errors(
    new: Object, old: Object, qos: tuple[str, str], *, shrinks_memory: bool
) -> list[FieldError]:
    """`qos`: classes of the new spec and the old. `shrinks_memory`: a running container's limit may fall."""
    if new["spec"].get("resources") or old["spec"].get("resources"):
        return [forbidden("", "pods with pod-level resources cannot be resized")]
    if _MIRROR in (old["metadata"].get("annotations") or {}):
        return [forbidden("", "static pods cannot be resized")]
    if (old["spec"].get("os") or {}).get("name") == "windows":
        return [forbidden("", "windows pods cannot be resized")]
    errors: list[FieldError] = []
    if qos[0] != qos[1]:
        errors.append(invalid("spec", (new.get("status") or {}).get("qosClass", ""), _QOS))
    if not _is_supported(old):
        errors.append(forbidden("spec", "Pod running on node without support for resize"))
    for field in _FIELDS:
        pairs = zip(new["spec"].get(field) or [], old["spec"].get(field) or [], strict=False)
        for position, (after, before) in enumerate(pairs):
            at = index(f"spec.{field}", position)
            errors += _container_errors(after, before, field, at, shrinks_memory=shrinks_memory)
    difference = _other_changes(new["spec"], old["spec"])
    if difference:
        errors.append(forbidden("spec", f"only cpu and memory resources are mutable\n{difference}"))
    return errors


def _is_supported(pod: Object) -> bool:
    """Kubelets that resize report resources; an older one's running containers have none."""
    for status in (pod.get("status") or {}).get("containerStatuses") or []:
        if "running" in (status.get("state") or {}):
            return "resources" in status
    return True


def _container_errors(
    new: Object, old: Object, field: str, path: str, *, shrinks_memory: bool
) -> Iterator[FieldError]:
    after, before = new.get("resources") or {}, old.get("resources") or {}
    if after == before:
        return
    at = child(path, "resources")
    if field == "initContainers" and old.get("restartPolicy") != "Always":
        yield forbidden(at, "resources for non-sidecar init containers are immutable")
        return
    for kind, text in (
        ("requests", "resource requests cannot be removed"),
        ("limits", "resource limits cannot be removed"),
    ):
        if set(before.get(kind) or {}) - set(after.get(kind) or {}):
            yield forbidden(child(at, kind), text)
    if not shrinks_memory and _shrinks(after, before) and _memory_policy(new) != "RestartContainer":
        text = "memory limits cannot be decreased unless resizePolicy is RestartContainer"
        yield forbidden(key(child(at, "limits"), "memory"), text)


def _shrinks(after: Object, before: Object) -> bool:
    amounts = [(resources.get("limits") or {}).get("memory") for resources in (after, before)]
    if None in amounts:
        return False
    return Quantity.parse(str(amounts[0])) < Quantity.parse(str(amounts[1]))


def _memory_policy(container: Object) -> str:
    for policy in container.get("resizePolicy") or []:
        if policy.get("resourceName") == "memory":
            return str(policy.get("restartPolicy") or "")
    return "NotRequired"


def _other_changes(new: Object, old: Object) -> str:
    """The difference but for cpu, memory and the policies; empty if there is none."""
    munged = copy.deepcopy(new)
    for field in _FIELDS:
        for after, before in zip(munged.get(field) or [], old.get(field) or [], strict=False):
            _put_back(after, before)
    return spec_difference(old, munged) if munged != old else ""


def _put_back(after: Object, before: Object) -> None:
    for name in ("resizePolicy",):
        after.pop(name, None)
        if name in before:
            after[name] = before[name]
    resources = copy.deepcopy(after.get("resources") or {})
    for kind in ("requests", "limits"):
        amounts = {n: v for n, v in (resources.get(kind) or {}).items() if n not in _MUTABLE}
        was = (before.get("resources") or {}).get(kind) or {}
        amounts |= {name: was[name] for name in _MUTABLE if name in was}
        resources.pop(kind, None)
        if amounts:
            resources[kind] = amounts
    after.pop("resources", None)
    if resources or "resources" in before:
        after["resources"] = resources
