"""Validates changes through a pod's resize subresource.

Source: pkg/apis/core/validation/validation.go (ValidatePodResize), 1.36.
"""

import copy
from collections.abc import Iterator

from kubeskew.apimachinery.field import ROOT, FieldError, child, forbidden, index, invalid, key
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_sidecar
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apiserver.features import PodFeatures
from kubeskew.apiserver.registry.shared.podtemplate.annotations import MIRROR

_FIELDS = ("containers", "initContainers")
_MUTABLE = ("cpu", "memory")
_QOS = "Pod QOS Class may not change as a result of resizing"
_ONLY = "only cpu and memory resources are mutable"


def resize_errors(
    new: Object, old: Object, qos: tuple[str, str], features: PodFeatures, spec_errors: list[FieldError]
) -> list[FieldError]:
    """Checks a resize; `qos` are the classes of the new spec and the old, `spec_errors` those of the new."""
    if MIRROR in (old["metadata"].get("annotations") or {}):
        return [forbidden(ROOT, "static pods cannot be resized")]
    if (old["spec"].get("os") or {}).get("name") == "windows":
        return [forbidden(ROOT, "windows pods cannot be resized")]
    pod_level = bool(_amounts(new["spec"]) or _amounts(old["spec"]))
    if pod_level and not features.pod_resize and not features.pod_resize_wording:
        return [forbidden(ROOT, "pods with pod-level resources cannot be resized")]
    errors = list(spec_errors)
    if qos[0] != qos[1]:
        errors.append(invalid("spec", (new.get("status") or {}).get("qosClass", ""), _QOS))
    if not _is_supported(old):
        errors.append(forbidden("spec", "Pod running on node without support for resize"))
    munged = copy.deepcopy(new["spec"])
    if pod_level:
        if not features.pod_resize:
            gate = "InPlacePodLevelResourcesVerticalScalingEnabled"
            what = "resize of pods with pod-level resources"
            text = f"{what} is forbidden when {gate} feature gate is disabled"
            return [*errors, forbidden(ROOT, text)]
        errors += _pod_level_errors(munged, old["spec"])
    if (old.get("status") or {}).get("nodeAllocatableResourceClaimStatuses"):
        errors.append(forbidden("spec", "pods with node allocatable resource claims cannot be resized"))
    order = list(_order_errors(new["spec"], old["spec"]))
    if order:
        return [*errors, *order]
    errors += _container_errors(munged, new["spec"], old["spec"], features)
    if not errors and munged != old["spec"]:
        errors.append(forbidden("spec", _ONLY))
    return errors


def _amounts(spec: Object) -> Object:
    resources = spec.get("resources") or {}
    return {**(resources.get("requests") or {}), **(resources.get("limits") or {})}


def _is_supported(pod: Object) -> bool:
    """Returns whether the kubelet can resize: running containers then report resources."""
    for status in (pod.get("status") or {}).get("containerStatuses") or []:
        if "running" in (status.get("state") or {}):
            return "resources" in status
    return True


def _order_errors(new: Object, old: Object) -> Iterator[FieldError]:
    for field in _FIELDS:
        after, before = new.get(field) or [], old.get(field) or []
        at = f"spec.{field}"
        if len(after) != len(before):
            yield forbidden(at, f"{field} may not be added or removed on resize")
            continue
        for position, (container, other) in enumerate(zip(after, before, strict=True)):
            if container.get("name") != other.get("name"):
                text = f"{field} may not be renamed or reordered on resize"
                yield forbidden(child(index(at, position), "name"), text)


def _pod_level_errors(munged: Object, old: Object) -> Iterator[FieldError]:
    before, after = old.get("resources"), munged.get("resources")
    if before is not None and after is None:
        yield forbidden("spec.resources", "pod-level resources cannot be removed")
        return
    for kind in ("requests", "limits"):
        if set((before or {}).get(kind) or {}) - set((after or {}).get(kind) or {}):
            yield forbidden(f"spec.resources.{kind}", f"pod-level resource {kind} cannot be removed")
    _put_back(munged, old)
    if munged.get("resources") != before:
        yield forbidden("spec", "only cpu and memory resources are mutable at pod-level")


def _container_errors(
    munged: Object, new: Object, old: Object, features: PodFeatures
) -> Iterator[FieldError]:
    """Checks the changes of each container; sets in `munged` what must not change."""
    for field in reversed(_FIELDS):
        for position, (after, before) in enumerate(_pairs(new, old, field)):
            if field == "containers" or features.init_resize or is_sidecar(before):
                at = child(index(f"spec.{field}", position), "resources")
                yield from _resource_errors(after, before, at, features)
    for after, before in _pairs(munged, old, "containers"):
        _put_back(after, before)
        if after != before:
            yield forbidden("spec", _ONLY)
    for position, (after, before) in enumerate(_pairs(munged, old, "initContainers")):
        yield from _init_errors(after, before, index("spec.initContainers", position), features)


def _pairs(new: Object, old: Object, field: str) -> list[tuple[Object, Object]]:
    return list(zip(new.get(field) or [], old.get(field) or [], strict=False))


def _init_errors(after: Object, before: Object, path: str, features: PodFeatures) -> Iterator[FieldError]:
    changed, sidecar = after != before, is_sidecar(before)
    if not (sidecar or features.init_resize):
        if changed:
            yield forbidden("spec", "resources for non-sidecar init containers are immutable")
        return
    _put_back(after, before)
    if after != before and features.init_resize:
        yield forbidden(path, "only cpu and memory resources for init or sidecar containers are mutable")
    elif after != before:
        yield forbidden("spec", "only cpu and memory resources for sidecar containers are mutable")
    if changed and not sidecar:
        for policy in before.get("resizePolicy") or []:
            if policy.get("restartPolicy") == "RestartContainer":
                what = "non-sidecar init containers with a resize policy of RestartContainer"
                yield forbidden(path, f"{what} cannot be resized")


def _resource_errors(new: Object, old: Object, path: str, features: PodFeatures) -> Iterator[FieldError]:
    after, before = new.get("resources") or {}, old.get("resources") or {}
    for kind in ("requests", "limits"):
        if set(before.get(kind) or {}) - set(after.get(kind) or {}):
            yield forbidden(child(path, kind), f"resource {kind} cannot be removed")
    if features.memory_shrinks or _memory_policy(new) == "RestartContainer":
        return
    now, was = ((resources.get("limits") or {}).get("memory") for resources in (after, before))
    at = key(child(path, "limits"), "memory")
    if now is not None and was is None:
        yield forbidden(at, "memory limits cannot be added unless resizePolicy is RestartContainer")
    elif now is not None and was is not None and Quantity.parse(now) < Quantity.parse(was):
        yield forbidden(at, "memory limits cannot be decreased unless resizePolicy is RestartContainer")


def _memory_policy(container: Object) -> str:
    for policy in container.get("resizePolicy") or []:
        if policy.get("resourceName") == "memory":
            return str(policy.get("restartPolicy") or "")
    return "NotRequired"


def _put_back(after: Object, before: Object) -> None:
    """Restores cpu and memory."""
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
