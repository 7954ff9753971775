"""Pod: the rules of the status, and of what it says of the containers.

Source: pkg/apis/core/validation/validation.go (ValidatePodStatusUpdate and what it calls,
ValidateContainerStateTransition, validateContainerStatusUsers,
validateContainerStatusAllocatedResourcesStatus), 1.36.
"""

from collections.abc import Iterator, Sequence

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import (
    OMITTED,
    ErrorType,
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
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.shared.addresses import ip_errors, is_dual_stack, parse
from kubeskew.apiserver.registry.shared.pod_options import PodOptions
from kubeskew.apiserver.registry.shared.podtemplate.security import (
    MAX_ID,
    annotation_change_errors,
    id_errors,
)
from kubeskew.apiserver.registry.shared.repeats import repeats

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
_PATH = "status.extendedResourceClaimStatus"
_SYSTEM_CONDITIONS = frozenset({"PodScheduled", "Ready", "Initialized"})
_CONTAINER_TEXT = "must match the name of an entry in spec.initContainers.name or spec.containers.name"
_RESOURCE_TEXT = (
    "must match the extended resource name of an entry in spec.initContainers.resources.requests or "
    "spec.containers.resources.requests"
)


def transition_errors(new: Object, old: Object, spec: Object, options: PodOptions) -> Iterator[FieldError]:
    """An ended container stays ended unless something restarts it."""
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


def pod_status_errors(
    new: Object, old: Object, options: PodOptions, *, clears: bool = False
) -> list[FieldError]:
    status, before, spec = new.get("status") or {}, old.get("status") or {}, new.get("spec") or {}
    errors = list(annotation_change_errors(new, old))
    errors += _conditions(status.get("conditions") or (), options)
    errors += _nomination(status, before, old, clears=clears)
    if (status.get("observedGeneration") or 0) < 0:
        text = "must be a non-negative integer"
        errors.append(invalid("status.observedGeneration", status["observedGeneration"], text))
    if status.get("qosClass") != before.get("qosClass"):
        errors.append(invalid("status.qosClass", status.get("qosClass") or "", IMMUTABLE))
    errors += transition_errors(status, before, old.get("spec") or {}, options)
    field = "name" if options.features.claim_status_path else "resourceClaimName"
    errors += _claim_statuses(status.get("resourceClaimStatuses") or [], spec, field)
    extended = status.get("extendedResourceClaimStatus")
    if extended is not None:
        errors += _extended_claim(extended, spec)
    errors += _addresses(status, before, options)
    errors += container_status_errors(status, spec, options)
    return errors


def _conditions(conditions: Sequence[Object], options: PodOptions) -> Iterator[FieldError]:
    path = "status.conditions" if options.features.status_condition_path else "metadata.conditions"
    for position, condition in enumerate(conditions):
        at, kind = index(path, position), condition.get("type") or ""
        if (condition.get("observedGeneration") or 0) < 0:
            number = condition["observedGeneration"]
            yield invalid(child(at, "observedGeneration"), number, "must be a non-negative integer")
        if kind not in _SYSTEM_CONDITIONS:
            yield from (invalid(child(at, "Type"), kind, text) for text in names.qualified_name(kind))


def _nomination(status: Object, before: Object, old: Object, *, clears: bool) -> Iterator[FieldError]:
    nominated, at = status.get("nominatedNodeName") or "", "status.nominatedNodeName"
    if not nominated or nominated == before.get("nominatedNodeName"):
        return
    yield from (invalid(at, nominated, text) for text in names.dns1123_subdomain(nominated))
    if clears and (old.get("spec") or {}).get("nodeName"):
        yield forbidden(at, "may not be set on pods that are already bound to a node")


def _addresses(status: Object, before: Object, options: PodOptions) -> Iterator[FieldError]:
    """The pod and its node have one address of each family at most."""
    for field in ("podIPs", "hostIPs"):
        found = [address.get("ip") or "" for address in status.get(field) or ()]
        at = f"status.{field}"
        if field == "hostIPs" and found and (status.get("hostIP") or "") != found[0]:
            yield invalid(child(index(at, 0), "ip"), found[0], "must be equal to `hostIP`")
        known = [address.get("ip") or "" for address in before.get(field) or ()]
        for position, text in enumerate(found):
            yield from ip_errors(index(at, position), text, strict=options.strict_addresses, known=known)
        unreadable = next((position for position, text in enumerate(found) if parse(text) is None), None)
        if len(found) > 1 and unreadable is not None:
            why = f"invalid IP[{unreadable}]: {found[unreadable]}"
            text = f"failed to check for dual stack with error:{why}"
            yield FieldError(ErrorType.INTERNAL, at, OMITTED, text)
        if len(found) > 1 and (unreadable is not None or not is_dual_stack(found) or len(found) > 2):
            shown = [{"IP": text} for text in found]
            yield invalid(at, shown, "may specify no more than one IP for each IP family")
        for position in sorted(repeats(found)):
            yield duplicate(index(at, position), {"IP": found[position]})


def _claim_statuses(statuses: list[Object], spec: Object, field: str) -> Iterator[FieldError]:
    """Errors of a claim's name are reported at `field`."""
    known = {claim.get("name") for claim in spec.get("resourceClaims") or []}
    seen: set[str] = set()
    for position, status in enumerate(statuses):
        at = index("status.resourceClaimStatuses", position)
        name = status.get("name") or ""
        if name not in known:
            yield invalid(child(at, "name"), name, "must match the name of an entry in `spec.resourceClaims`")
        if name in seen:
            yield duplicate(child(at, "name"), name)
        seen.add(name)
        claim = status.get("resourceClaimName")
        if claim is not None:
            texts = names.dns1123_subdomain(claim)
            yield from (invalid(child(at, field), claim, text) for text in texts)


def _extended_claim(status: Object, spec: Object) -> Iterator[FieldError]:
    mappings = status.get("requestMappings") or []
    if not mappings:
        yield required(child(_PATH, "requestMappings"), "at least one request mapping is required")
    seen: set[tuple[str, ...]] = set()
    for position, mapping in enumerate(mappings):
        at = index(child(_PATH, "requestMappings"), position)
        yield from _mapping(mapping, spec, at)
        triple = tuple(mapping.get(name) or "" for name in ("containerName", "resourceName", "requestName"))
        if triple in seen:
            for name, value in zip(("containerName", "resourceName", "requestName"), triple, strict=True):
                yield duplicate(child(at, name), value)
        seen.add(triple)
    claim = status.get("resourceClaimName") or ""
    if not claim:
        yield required(child(_PATH, "resourceClaimName"))
    else:
        texts = names.dns1123_subdomain(claim)
        yield from (invalid(child(_PATH, "resourceClaimName"), claim, text) for text in texts)


def _mapping(mapping: Object, spec: Object, path: str) -> Iterator[FieldError]:
    name, resource = mapping.get("containerName") or "", mapping.get("resourceName") or ""
    containers = [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
    found = [container for container in containers if container.get("name") == name]
    if not found:
        yield invalid(child(path, "containerName"), name, _CONTAINER_TEXT)
    elif not any(
        resource in ((container.get("resources") or {}).get("requests") or {}) for container in found
    ):
        yield invalid(child(path, "resourceName"), resource, _RESOURCE_TEXT)
    request = mapping.get("requestName") or ""
    # Upstream's path lacks the index here.
    at = child(_PATH, "requestName")
    yield from (invalid(at, request, text) for text in names.dns1123_label(request))
