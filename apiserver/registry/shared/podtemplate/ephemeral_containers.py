"""Holds the rules of ephemeral containers, and of their subresource.

Source: pkg/apis/core/validation/validation.go (validateEphemeralContainers,
ValidatePodEphemeralContainersUpdate), 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.field import ROOT, FieldError, child, duplicate, forbidden, index, not_found
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.internal_types import InternalTypes
from kubeskew.apiserver.registry.shared.podtemplate.containers import (
    PodFacts,
    container_errors,
    image_errors,
)

_MIRROR = "kubernetes.io/config.mirror"
_NOT_ALLOWED = "cannot be set for an Ephemeral Container"
# In the order of the fields of the Go type; targetContainerName is not part of what is checked.
_FORBIDDEN = (
    "ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules", "livenessProbe",
    "readinessProbe", "startupProbe", "lifecycle",
)  # fmt: skip


def ephemeral_errors(spec: Object, facts: PodFacts, path: str) -> Iterator[FieldError]:
    """Yields the errors of the ephemeral containers of a spec."""
    others = {
        container.get("name") or ""
        for field in ("containers", "initContainers")
        for container in spec.get(field) or []
    }
    seen = set(others)
    at = child(path, "ephemeralContainers")
    for position, container in enumerate(spec.get("ephemeralContainers") or []):
        where = index(at, position)
        yield from container_errors(container, facts, where)
        yield from image_errors([container], at, position)
        name = container.get("name") or ""
        if name in seen:
            yield duplicate(child(where, "name"), name)
        seen.add(name)
        target = container.get("targetContainerName") or ""
        if target and target not in others:
            yield not_found(child(where, "targetContainerName"), target)
        for field in _FORBIDDEN:
            value = container.get(field)
            if value if field == "resources" and value == {} else value is not None:
                yield forbidden(child(where, field), _NOT_ALLOWED)
        mounts = child(where, "volumeMounts")
        for number, mount in enumerate(container.get("volumeMounts") or []):
            for field in ("subPath", "subPathExpr"):
                if mount.get(field):
                    yield forbidden(child(index(mounts, number), field), _NOT_ALLOWED)


def creation_errors(spec: Object, path: str) -> Iterator[FieldError]:
    """Checks that a new pod has none: they come through their subresource."""
    if spec.get("ephemeralContainers"):
        yield forbidden(child(path, "ephemeralContainers"), "cannot be set on create")


def update_errors(new: Object, old: Object, types: InternalTypes) -> list[FieldError]:
    """Returns the errors for changes of existing ephemeral containers."""
    if _MIRROR in (old["metadata"].get("annotations") or {}):
        return [forbidden(ROOT, "static pods do not support ephemeral containers")]
    path = "spec.ephemeralContainers"
    now = {container.get("name"): container for container in new["spec"].get("ephemeralContainers") or []}
    errors = []
    for before in old["spec"].get("ephemeralContainers") or []:
        name = before["name"]
        if name not in now:
            text = f'existing ephemeral containers "{name}" may not be removed\n'
            errors.append(forbidden(path, text))
        elif now[name] != before:
            text = f'existing ephemeral containers "{name}" may not be changed\n'
            text += types.difference("core.EphemeralContainer", before, now[name])
            errors.append(forbidden(path, text))
    return errors
