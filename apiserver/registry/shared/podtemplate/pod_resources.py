"""Holds the rules of the resources of a whole pod.

Source: pkg/apis/core/validation/validation.go (validatePodResources), 1.36.
"""

from collections.abc import Iterator
from functools import partial

from kubeskew.apimachinery.field import FieldError, child, forbidden, index, invalid, key
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_sidecar, needed_at_once
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apiserver.registry.shared import amounts
from kubeskew.apiserver.registry.shared.amounts import HUGEPAGES
from kubeskew.apiserver.registry.shared.pod_options import PodOptions


def pod_resource_errors(spec: Object, path: str, options: PodOptions) -> Iterator[FieldError]:
    """Checks the resources of a pod; `path`: that of the spec."""
    resources, at = spec["resources"], child(path, "resources")
    if (spec.get("os") or {}).get("name") == "windows" and options.features.pod_resources_wording:
        yield forbidden(at, "may not be set for a windows pod")
        return
    if resources.get("claims") is not None:
        verb = "may not" if options.features.pod_resources_wording else "cannot"
        yield forbidden(child(at, "claims"), f"claims {verb} be set for Resources at pod-level")
    names = {claim.get("name") or "" for claim in spec.get("resourceClaims") or ()}
    check = partial(amounts.pod_name_errors, lists_pages=options.features.huge_page_names)
    yield from amounts.requirement_errors(resources, names, at, check)
    yield from _consistency(spec, resources, at)


def _consistency(spec: Object, resources: Object, path: str) -> Iterator[FieldError]:
    """Checks that all containers together request no more than the pod, and that none may use more than
    it."""
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for name, amount in sorted(_together(spec, "requests").items()):
        if name in requests and amount > Quantity.parse(requests[name]):
            text = f"must be greater than or equal to aggregate container requests of {amount}"
            yield invalid(key(child(path, "requests"), name), requests[name], text)
    for name, amount in sorted(_together(spec, "limits").items()):
        if name.startswith(HUGEPAGES) and name in limits and amount > Quantity.parse(limits[name]):
            text = f"must be greater than or equal to aggregate container limits of {amount}"
            yield invalid(key(child(path, "limits"), name), limits[name], text)
    for position, container in enumerate(spec.get("containers") or []):
        own = (container.get("resources") or {}).get("limits") or {}
        for name in sorted(own):
            if name in limits and Quantity.parse(own[name]) > Quantity.parse(limits[name]):
                at = child(key(index(child(path, "containers"), position), name), "limits")
                yield invalid(at, own[name], f"must be less than or equal to pod limits of {limits[name]}")


def _together(spec: Object, field: str) -> dict[str, Quantity]:
    return needed_at_once(
        (_amounts(container, field) for container in spec.get("containers") or ()),
        (
            (is_sidecar(container), _amounts(container, field))
            for container in spec.get("initContainers") or ()
        ),
    )


def _amounts(container: Object, field: str) -> dict[str, Quantity]:
    given = (container.get("resources") or {}).get(field) or {}
    return {name: Quantity.parse(text) for name, text in given.items()}
