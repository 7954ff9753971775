"""Validates changes of the spec of a pod.

Source: pkg/apis/core/validation/validation.go (ValidatePodUpdate, ValidateContainerUpdates), 1.36; for
updates that resize, 1.27 to 1.31.
"""

import copy
from collections.abc import Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, child, forbidden, index, invalid, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.core.pod.gated_validation import narrowing_errors, put_back_placement
from kubeskew.apiserver.registry.shared.pod_options import PodOptions
from kubeskew.apiserver.registry.shared.podtemplate import tolerations

UPDATABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_RESIZABLE = ",`spec.containers[*].resources` (for CPU/memory only)"
_AMOUNTS = ("cpu", "memory")
_MAX_INT32 = 2**31 - 1


def pod_update_errors(
    new: Object, old: Object, options: PodOptions, *, resizes: bool = False
) -> list[FieldError]:
    """Returns errors of the change from spec `old` to spec `new`; the new spec itself is checked
    elsewhere. `resizes`: containers' amounts of CPU and memory may change.
    """
    if new == old:
        return list(_toleration_errors(new, old, options)) if new.get("tolerations") else []
    errors: list[FieldError] = []
    for field in ("containers", "initContainers"):
        found, stop = _container_errors(new.get(field) or [], old.get(field) or [], f"spec.{field}")
        errors += found
        if stop:
            return errors
    found = list(_deadline_errors(new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")))
    errors += found
    if found and new.get("activeDeadlineSeconds") is not None:
        return errors
    errors += _toleration_errors(new, old, options)
    errors += _gate_errors(new, old)
    munged = munge(new, old)
    if resizes:
        put_back_amounts(munged, old)
    if old.get("schedulingGates"):  # a gated pod's placement may still be narrowed
        errors += narrowing_errors(new, old)
        put_back_placement(munged, old)
    if munged != old:
        difference = options.features.internal.difference("core.PodSpec", old, munged)
        updatable = UPDATABLE + (_RESIZABLE if resizes else "")
        text = f"pod updates may not change fields other than {updatable}\n{difference}"
        errors.append(forbidden("spec", text))
    return errors


def _container_errors(new: list[Object], old: list[Object], path: str) -> tuple[list[FieldError], bool]:
    if len(new) != len(old):
        return [forbidden(path, "pod updates may not add or remove containers")], True
    errors = []
    for position, container in enumerate(new):
        at = child(index(path, position), "image")
        image = container.get("image") or ""
        if not image:
            errors.append(required(at))
        if image.strip() != image:
            errors.append(invalid(at, image, "must not have leading or trailing whitespace"))
    return errors, False


def _deadline_errors(new: int | None, old: int | None) -> Iterator[FieldError]:
    at = "spec.activeDeadlineSeconds"
    if new is None:
        if old is not None:
            yield invalid(at, None, "must not update from a positive integer to nil value")
    elif not 0 <= new <= _MAX_INT32:
        yield invalid(at, new, names.range_text(0, _MAX_INT32))
    elif old is not None and old < new:
        yield invalid(at, new, "must be less than or equal to previous value")


def _toleration_errors(new: Object, old: Object, options: PodOptions) -> Iterator[FieldError]:
    def plain(toleration: Object) -> Object:
        return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}

    found = new.get("tolerations") or []
    kept = [plain(toleration) for toleration in found]
    if any(plain(toleration) not in kept for toleration in old.get("tolerations") or []):
        text = "existing toleration can not be modified except its tolerationSeconds"
        yield forbidden("spec.tolerations", text)
    else:
        compare = options.comparisons
        yield from tolerations.toleration_errors(found, "spec.tolerations", comparisons=compare)


def _gate_errors(new: Object, old: Object) -> Iterator[FieldError]:
    """Checks that scheduling gates are only removed."""
    known = {gate.get("name") for gate in old.get("schedulingGates") or []}
    for position, gate in enumerate(new.get("schedulingGates") or []):
        if gate.get("name") not in known:
            at = child(index("spec.schedulingGates", position), "name")
            text = f"only deletion is allowed, but found new scheduling gate '{gate.get('name') or ''}'"
            yield forbidden(at, text)


def munge(new: Object, old: Object) -> Object:
    """Returns the new spec with what may change put back to what it was."""
    munged = copy.deepcopy(new)
    for field in ("containers", "initContainers"):
        for container, before in zip(munged.get(field) or [], old.get(field) or [], strict=False):
            put_back(container, before, "image")
            if container.get("resizePolicy") is None and before.get("resizePolicy") is not None:
                container["resizePolicy"] = before["resizePolicy"]
    for field in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        put_back(munged, old, field)
    grace = "terminationGracePeriodSeconds"
    if (old.get(grace) or 0) < 0 and munged.get(grace) == 1:
        munged[grace] = old[grace]
    return munged


def put_back_amounts(munged: Object, old: Object) -> None:
    """Puts the containers' amounts of CPU and memory back to what they were.

    A list that was not there goes, whatever is in it now; claims and resources that are no CPU and no memory
    are those of the new container.
    """
    for container, before in zip(munged.get("containers") or [], old.get("containers") or [], strict=False):
        had = before.get("resources") or {}
        resources = dict(container.get("resources") or {})
        for kind in ("limits", "requests"):
            amounts = _munged_amounts(resources.get(kind), had.get(kind))
            if amounts is None:
                resources.pop(kind, None)
            else:
                resources[kind] = amounts
        if resources or had or "resources" in container:
            container["resources"] = resources


def _munged_amounts(amounts: Object | None, before: Object | None) -> Object | None:
    if before is None:
        return None
    rest = {name: amount for name, amount in (amounts or {}).items() if name not in _AMOUNTS}
    return rest | {name: before[name] for name in _AMOUNTS if name in before}


def put_back(new: Object, old: Object, field: str) -> None:
    if field in old:
        new[field] = old[field]
    else:
        new.pop(field, None)
