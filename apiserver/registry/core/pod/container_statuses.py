"""Holds the rules of what a pod's status tells of its containers.

Source: pkg/apis/core/validation/validation.go (ValidateContainerStateTransition,
validateContainerStatusUsers, validateContainerStatusAllocatedResourcesStatus), 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.field import (
    FieldError,
    child,
    duplicate,
    forbidden,
    index,
    invalid,
    not_supported,
    required,
    too_long,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.shared.pod_options import PodOptions
from kubeskew.apiserver.registry.shared.podtemplate.security import MAX_ID, id_errors

_MAX_LINUX_ID = 2**32 - 1

FIELDS = {
    "containerStatuses": "containers",
    "initContainerStatuses": "initContainers",
    "ephemeralContainerStatuses": "ephemeralContainers",
}
_HEALTH = ("Healthy", "Unhealthy", "Unknown")
_MAX_MESSAGE = 256
_MAX_IMAGE = 256
_NOT_BACK = "may not be transitioned to non-terminated state"
_CLAIM_TEXT = (
    "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or "
    "'claim:<claimName>' if request is empty"
)


def transition_errors(new: Object, old: Object, spec: Object, options: PodOptions) -> Iterator[FieldError]:
    """Checks that an ended container stays ended unless something restarts it."""
    everything = options.restart_all and any(
        rule.get("action") == "RestartAllContainers"
        for field in ("containers", "initContainers")
        for container in spec.get(field) or ()
        for rule in container.get("restartPolicyRules") or ()
    )
    for field, containers in FIELDS.items():
        if everything and field != "ephemeralContainerStatuses":
            continue
        now = {
            container_status.get("name"): container_status
            for container_status in reversed(new.get(field) or [])
        }
        for position, before in enumerate(old.get(field) or []):
            ended = (before.get("state") or {}).get("terminated")
            after = now.get(before.get("name"))
            if ended is None or after is None or (after.get("state") or {}).get("terminated") is not None:
                continue
            code = ended.get("exitCode") or 0
            if not _may_restart(before.get("name"), containers, code, spec, options):
                yield forbidden(child(index(f"status.{field}", position), "state"), _NOT_BACK)


def _may_restart(name: str | None, field: str, code: int, spec: Object, options: PodOptions) -> bool:
    if field == "ephemeralContainers":
        return False
    own = next((container for container in spec.get(field) or () if container.get("name") == name), None)
    policy = spec.get("restartPolicy")
    if own is None and options.restart_rules:
        return False
    if own is not None and own.get("restartPolicy") is not None:
        rules = own.get("restartPolicyRules") or ()
        if options.restart_rules and any(_matches(rule, code) for rule in rules):
            return True
        if options.restart_rules or own["restartPolicy"] == "Always":
            policy = own["restartPolicy"]
    return policy == "Always" or (policy == "OnFailure" and code != 0)


def _matches(rule: Object, code: int) -> bool:
    codes = rule.get("exitCodes") or {}
    return (code in (codes.get("values") or ())) == (codes.get("operator") == "In")


def container_status_errors(new: Object, spec: Object, options: PodOptions) -> Iterator[FieldError]:
    """Checks the users, resources and images in container statuses."""
    system = (spec.get("os") or {}).get("name") or "linux"
    for field in FIELDS:
        for position, status in enumerate(new.get(field) or ()):
            if status.get("user"):
                at = index(f"status.{field}", position)
                where = child(at, "user") if options.features.status_user_path else at
                largest = _MAX_LINUX_ID if options.features.large_users else MAX_ID
                yield from _user_errors(status["user"].get("linux"), system, child(where, "linux"), largest)
    for field, containers in FIELDS.items():
        for position, status in enumerate(new.get(field) or ()):
            if status.get("allocatedResourcesStatus"):
                at = child(index(f"status.{field}", position), "allocatedResourcesStatus")
                yield from _allocated(status, field, spec.get(containers) or [], at)
    for field in FIELDS:
        for position, status in enumerate(new.get(field) or ()):
            at = child(index(f"status.{field}", position), "volumeMounts")
            yield from _image_errors(status.get("volumeMounts") or [], at)


def _user_errors(user: Object | None, system: str, path: str, largest: int) -> Iterator[FieldError]:
    if user is None:
        return
    if system == "windows":
        yield forbidden(path, "cannot be set for a windows pod")
        return
    yield from id_errors(user.get("uid"), child(path, "uid"), largest)
    yield from id_errors(user.get("gid"), child(path, "gid"))
    for position, number in enumerate(user.get("supplementalGroups") or ()):
        yield from id_errors(number, index(child(path, "supplementalGroups"), position))


def _allocated(status: Object, field: str, containers: list[Object], path: str) -> Iterator[FieldError]:
    if field == "ephemeralContainerStatuses":
        yield forbidden(path, "must not be specified in container status")
        return
    container = next(
        (container for container in containers if container.get("name") == status.get("name")), None
    )
    for position, resource in enumerate(status["allocatedResourcesStatus"]):
        at = index(path, position)
        if container is not None:
            yield from _known(resource.get("name") or "", container, child(at, "name"))
        yield from _healths(resource.get("resources") or [], child(at, "resources"))


def _known(name: str, container: Object, path: str) -> Iterator[FieldError]:
    resources = container.get("resources") or {}
    if not name.startswith("claim:"):
        if name not in (resources.get("requests") or {}):
            yield invalid(path, name, "must match one of the container's resource requests")
        return
    claims = {
        f"claim:{claim.get('name')}" + (f"/{claim['request']}" if claim.get("request") else "")
        for claim in resources.get("claims") or ()
    }
    if name not in claims:
        yield invalid(path, name, _CLAIM_TEXT)


def _healths(devices: list[Object], path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for position, device in enumerate(devices):
        at = index(path, position)
        health, message = device.get("health") or "", device.get("message")
        if health not in _HEALTH:
            yield not_supported(child(at, "health"), health, _HEALTH)
        if message == "":
            yield required(child(at, "message"), "must be non-empty if specified")
        elif message is not None and len(message.encode()) > _MAX_MESSAGE:
            yield too_long(child(at, "message"), _MAX_MESSAGE)
        name = device.get("resourceID") or ""
        if name in seen:
            yield duplicate(child(at, "resourceID"), name)
        seen.add(name)


def _image_errors(mounts: list[Object], path: str) -> Iterator[FieldError]:
    for position, mount in enumerate(mounts):
        image = (mount.get("volumeStatus") or {}).get("image")
        if image is None:
            continue
        at, name = child(index(path, position), "volumeStatus.image.imageRef"), image.get("imageRef") or ""
        if not name:
            yield required(at, "imageRef must not be empty")
        if len(name.encode()) > _MAX_IMAGE:
            yield too_long(at, _MAX_IMAGE)
