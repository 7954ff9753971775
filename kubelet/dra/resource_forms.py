"""The forms in which drivers tell their resources, and slices hold them: one per release that asks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity, QuantityError

_LARGEST_BYTES = 512 * 1024  # of the resources in one slice; a store takes objects of 1.5 MiB


class RefusedResourcesError(ValueError):
    """Says why what a driver tells cannot be published."""


@dataclass(frozen=True, slots=True)
class ResourceForm:
    """One form. `read` returns what the slices of a driver are to hold, one entry per slice, and raises
    RefusedResourcesError; `meaning` returns what an entry says, however it is written. `keeps_copies` of
    slices that say the same: upstream does, though they count a resource twice."""

    read: Callable[[Any], list[Object]]
    meaning: Callable[[Object], Object]
    keeps_copies: bool = False


def _read_named(response: Any) -> list[Object]:
    """Returns the entries of 1.30's drivers, which decide themselves what is a slice."""
    from kubeskew.kubelet.protocols.named_resources import models_of

    return models_of(response)


def _named_meaning(model: Object) -> Object:
    """Returns the entry with amounts in place of their texts, and without what is empty.

    Quantities count by amount, as upstream's semantic equality has it.
    """
    resources = model.get("namedResources")
    if resources is None:
        return {}
    return {
        "instances": [
            (instance["name"], [_attribute(each) for each in instance.get("attributes") or ()])
            for instance in resources.get("instances") or ()
        ]
    }


def _attribute(attribute: Object) -> Object:
    if "quantity" not in attribute:
        return attribute
    try:
        return {**attribute, "quantity": Quantity.parse(str(attribute["quantity"]))}
    except QuantityError:  # the server will refuse it
        return attribute


def _read_semantic(response: Any) -> list[Object]:
    """Returns one entry, or several where one object would be too large."""
    from kubeskew.kubelet.protocols.semantic_resources import UnknownModelError, resources_of

    try:
        resources = resources_of(response)
    except UnknownModelError as error:
        raise RefusedResourcesError(str(error)) from error
    entries: list[list[Object]] = []
    room = 0
    for resource in resources:
        size = len(orjson.dumps(resource))
        if not entries or size > room:
            entries.append([])
            room = _LARGEST_BYTES
        entries[-1].append(resource)
        room -= size
    return [{"resources": entry} for entry in entries]


def _semantic_meaning(model: Object) -> Object:
    return {"resources": [_without_empty(resource) for resource in model.get("resources") or ()]}


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        parts = {key: _without_empty(part) for key, part in value.items()}
        return {key: part for key, part in parts.items() if part not in (None, "", [])}
    return [_without_empty(part) for part in value] if isinstance(value, list) else value


NAMED_RESOURCES = ResourceForm(_read_named, _named_meaning, keeps_copies=True)  # 1.30
SEMANTIC_RESOURCES = ResourceForm(_read_semantic, _semantic_meaning)  # KEP-4381 as drafted
