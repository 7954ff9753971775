"""Rules of a pod's status, above all of what dynamic resource allocation writes there.

Source: pkg/apis/core/validation/validation.go (ValidatePodStatusUpdate and what it calls), 1.36.
"""

from collections.abc import Iterator

from apimachinery.errors import Object
from apimachinery.field import FieldError, child, duplicate, index, invalid, required
from apimachinery.validation import names

_PATH = "status.extendedResourceClaimStatus"
_CONTAINER_TEXT = "must match the name of an entry in spec.initContainers.name or spec.containers.name"
_RESOURCE_TEXT = (
    "must match the extended resource name of an entry in spec.initContainers.resources.requests or "
    "spec.containers.resources.requests"
)


def pod_status_errors(new: Object) -> list[FieldError]:
    status, spec = new.get("status") or {}, new.get("spec") or {}
    errors = list(_claim_statuses(status.get("resourceClaimStatuses") or [], spec))
    extended = status.get("extendedResourceClaimStatus")
    if extended is not None:
        errors += _extended_claim(extended, spec)
    nominated = status.get("nominatedNodeName") or ""
    if nominated:
        at = "status.nominatedNodeName"
        errors += [invalid(at, nominated, text) for text in names.dns1123_subdomain(nominated)]
    return errors


def _claim_statuses(statuses: list[Object], spec: Object) -> Iterator[FieldError]:
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
            yield from (invalid(child(at, "resourceClaimName"), claim, text) for text in texts)


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
    elif not any(resource in ((one.get("resources") or {}).get("requests") or {}) for one in found):
        yield invalid(child(path, "resourceName"), resource, _RESOURCE_TEXT)
    request = mapping.get("requestName") or ""
    # Upstream's path lacks the index here.
    at = child(_PATH, "requestName")
    yield from (invalid(at, request, text) for text in names.dns1123_label(request))
