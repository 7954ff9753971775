"""Holds the rules of a pod's status.

Source: pkg/apis/core/validation/validation.go (ValidatePodStatusUpdate and what it calls), 1.36.
"""

from collections.abc import Iterator, Sequence

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, child, duplicate, forbidden, index, invalid, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.core.pod.container_statuses import (
    container_status_errors,
    transition_errors,
)
from kubeskew.apiserver.registry.shared.addresses import ip_errors, is_dual_stack
from kubeskew.apiserver.registry.shared.pod_options import PodOptions
from kubeskew.apiserver.registry.shared.podtemplate.annotations import annotation_change_errors
from kubeskew.apiserver.registry.shared.repeats import repeats

_PATH = "status.extendedResourceClaimStatus"
_SYSTEM_CONDITIONS = frozenset({"PodScheduled", "Ready", "Initialized"})
_CONTAINER_TEXT = "must match the name of an entry in spec.initContainers.name or spec.containers.name"
_RESOURCE_TEXT = (
    "must match the extended resource name of an entry in spec.initContainers.resources.requests or "
    "spec.containers.resources.requests"
)


def pod_status_errors(
    new: Object, old: Object, options: PodOptions, *, clears: bool = False
) -> list[FieldError]:
    """Returns what is wrong with the new status of a pod."""
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
    """Checks the addresses of the pod and of its node: one of each family at most."""
    for field in ("podIPs", "hostIPs"):
        found = [address.get("ip") or "" for address in status.get(field) or ()]
        at = f"status.{field}"
        if field == "hostIPs" and found and (status.get("hostIP") or "") != found[0]:
            yield invalid(child(index(at, 0), "ip"), found[0], "must be equal to `hostIP`")
        known = [address.get("ip") or "" for address in before.get(field) or ()]
        for position, text in enumerate(found):
            yield from ip_errors(index(at, position), text, strict=options.strict_addresses, known=known)
        if len(found) > 1 and (not is_dual_stack(found) or len(found) > 2):
            shown = [{"IP": text} for text in found]
            yield invalid(at, shown, "may specify no more than one IP for each IP family")
        for position in sorted(repeats(found)):
            yield duplicate(index(at, position), {"IP": found[position]})


def _claim_statuses(statuses: list[Object], spec: Object, field: str) -> Iterator[FieldError]:
    """Yields what is wrong with the names of claims; that of a claim is reported at `field`."""
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
