"""Resources of semantic models (1.29+kep4381), as the driver's file and its switches write them out."""

from collections.abc import Mapping
from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity, QuantityError

_MODELS = ("counter", "metadata")
# The lists of an attribute with metadata, and the keys of their entries.
LISTS = {"versions": {"name", "version"}, "labels": {"name", "value"}, "values": {"name", "quantity"}}
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
    lists = {key: [_fact(key, part, where) for part in metadata[key]] for key in LISTS if metadata.get(key)}
    if unknown := set(metadata) - set(LISTS):
        raise ValueError(f"{where}.metadata: unknown key {sorted(unknown)[0]}")
    return {"name": entry["name"], "metadata": lists}


def _fact(kind: str, entry: Any, where: str) -> Object:
    if not isinstance(entry, Mapping) or not entry.get("name") or not set(entry) <= LISTS[kind]:
        raise ValueError(
            f"{where}.metadata.{kind}: expected {', '.join(sorted(LISTS[kind]))}, found {entry!r}"
        )
    if kind == "values":
        return {"name": entry["name"], "quantity": int(entry.get("quantity", 0))}
    return {key: str(value) for key, value in entry.items()}
