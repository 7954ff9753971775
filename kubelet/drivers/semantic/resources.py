"""The resources of semantic models that a driver has on a node: written out, or made of its devices.

A device becomes one resource: its attributes are metadata of the attribute `meta` (versions, texts and flags
that are set as labels, whole numbers as values), its capacity counters, and the counter `Number` is 1, for
claims that want a device of their own.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity, QuantityError

METADATA = "meta"  # the attribute that has all metadata, as in the draft's examples
_NUMBER = "Number"
_MODELS = ("counter", "metadata")
_LISTS = {"versions": {"name", "version"}, "labels": {"name", "value"}, "values": {"name", "quantity"}}
_LARGEST = 2**63 - 1


def read_resources(value: Any) -> tuple[Object, ...]:
    """Raises ValueError."""
    if not isinstance(value, list):
        raise ValueError(f"nodeResources: expected a list of resources, found {value!r}")
    resources = tuple(_resource(entry, f"nodeResources[{index}]") for index, entry in enumerate(value))
    ids = [id_of(resource) for resource in resources]
    if len(set(ids)) != len(ids):
        raise ValueError(f"nodeResources: two resources have one id: {', '.join(ids)}")
    return resources


def read_counters(value: Any) -> dict[str, dict[str, int]]:
    """Counts stand under resource and attribute. Raises ValueError."""
    if not isinstance(value, Mapping) or not all(isinstance(counts, Mapping) for counts in value.values()):
        raise ValueError(f"expected counts by resource and attribute, found {value!r}")
    return {
        str(resource): {str(name): amount(count, f"{resource}: {name}") for name, count in counts.items()}
        for resource, counts in value.items()
    }


def amount(value: Any, where: str) -> int:
    """Quantities such as 10Gi become whole numbers, rounded up. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"{where}: expected a quantity, found {value!r}")
    try:
        number = value if isinstance(value, int) else Quantity.parse(value).value()
    except QuantityError as error:
        raise ValueError(f"{where}: {error}") from error
    if not 0 <= number <= _LARGEST:
        raise ValueError(f"{where}: {value} is not between 0 and {_LARGEST}")
    return number


def id_of(resource: Mapping[str, Any]) -> str:
    """An ID may be written as the resource's name."""
    return str(resource.get("id") or resource.get("name") or "")


def _resource(entry: Any, where: str) -> Object:
    if not isinstance(entry, Mapping) or not set(entry) <= {"id", "name", "attributes"} or not id_of(entry):
        raise ValueError(f"{where}: expected a resource of id and attributes, found {entry!r}")
    attributes = [
        _attribute(attribute, f"{where}.attributes[{index}]")
        for index, attribute in enumerate(entry.get("attributes") or ())
    ]
    return {**entry, "attributes": attributes}


def _attribute(entry: Any, where: str) -> Object:
    named = isinstance(entry, Mapping) and isinstance(entry.get("name"), str)
    models = [model for model in _MODELS if named and isinstance(entry.get(model), Mapping)]
    if len(models) != 1 or set(entry) != {"name", models[0]}:
        raise ValueError(f"{where}: expected a name and one of {', '.join(_MODELS)}, found {entry!r}")
    if models == ["counter"]:
        count = amount(entry["counter"].get("count", 0), f"{where}.counter.count")
        return {"name": entry["name"], "counter": {"count": count}}
    metadata = entry["metadata"]
    lists = {key: [_fact(key, part, where) for part in metadata[key]] for key in _LISTS if metadata.get(key)}
    if unknown := set(metadata) - set(_LISTS):
        raise ValueError(f"{where}.metadata: unknown key {sorted(unknown)[0]}")
    return {"name": entry["name"], "metadata": lists}


def _fact(kind: str, entry: Any, where: str) -> Object:
    if not isinstance(entry, Mapping) or not entry.get("name") or not set(entry) <= _LISTS[kind]:
        raise ValueError(
            f"{where}.metadata.{kind}: expected {', '.join(sorted(_LISTS[kind]))}, found {entry!r}"
        )
    if kind == "values":
        return {"name": entry["name"], "quantity": int(entry.get("quantity", 0))}
    return {key: str(value) for key, value in entry.items()}


def resources_of_devices(devices: Iterable[Object]) -> list[Object]:
    return [_of_device(device) for device in devices]


def _of_device(device: Object) -> Object:
    body = device.get("basic") or device
    facts: dict[str, list[Object]] = {kind: [] for kind in _LISTS}
    for name, value in sorted((body.get("attributes") or {}).items()):
        if "version" in value:
            facts["versions"].append({"name": name, "version": value["version"]})
        elif "int" in value:
            facts["values"].append({"name": name, "quantity": value["int"]})
        elif "string" in value:
            facts["labels"].append({"name": name, "value": value["string"]})
        elif value.get("bool"):
            facts["labels"].append({"name": name})
    counters = {_NUMBER: 1}
    for name, capacity in sorted((body.get("capacity") or {}).items()):
        counters[name] = amount(capacity["value"] if isinstance(capacity, dict) else capacity, name)
    metadata = {kind: found for kind, found in facts.items() if found}
    attributes: list[Object] = [{"name": METADATA, "metadata": metadata}] if metadata else []
    attributes += [{"name": name, "counter": {"count": count}} for name, count in counters.items()]
    return {"id": device["name"], "attributes": attributes}


def with_counts(resources: Sequence[Object], counts: Mapping[str, Mapping[str, int]]) -> list[Object]:
    return [
        {
            **resource,
            "attributes": [
                {"name": attribute["name"], "counter": {"count": counts[id_of(resource)][attribute["name"]]}}
                if "counter" in attribute and attribute["name"] in counts.get(id_of(resource), {})
                else attribute
                for attribute in resource.get("attributes") or ()
            ],
        }
        for resource in resources
    ]
