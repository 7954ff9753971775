"""The resources of semantic models that a driver has on a node: written out, or made of its devices.

A device becomes one resource: its attributes are metadata of the attribute `meta` (versions, texts and flags
that are set as labels, whole numbers as values), its capacity counters, and the counter `Number` is 1, for
claims that want a device of their own.
"""

from collections.abc import Iterable, Mapping, Sequence

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.drivers.node_resources import LISTS, amount, id_of, read_resources
from kubeskew.kubelet.drivers.resources import pools_of
from kubeskew.kubelet.drivers.settings import DriverNode

METADATA = "meta"  # the attribute that has all metadata, as in the draft's examples
_NUMBER = "Number"


def semantic_resources_of(driver: str, node: DriverNode, library: Version) -> list[Object]:
    """Resources are those that a switch or the file writes out, else one per device.

    Raises ProfileError.
    """
    switches, written = node.switches, (node.offer.resources or {}).get("nodeResources")
    if switches.node_resources is not None:
        resources = [*switches.node_resources]
    elif written is not None:
        resources = [*read_resources(written)]
    else:
        pools = pools_of(driver, [node], library, {})
        own = [pool for pool in pools.values() if pool.node_name == node.name]
        devices = [device for pool in own for piece in pool.slices for device in piece.devices]
        resources = _of_devices(devices)
    return _with_counts(resources, switches.counters)


def _of_devices(devices: Iterable[Object]) -> list[Object]:
    return [_of_device(device) for device in devices]


def _of_device(device: Object) -> Object:
    body = device.get("basic") or device
    facts: dict[str, list[Object]] = {kind: [] for kind in LISTS}
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


def _with_counts(resources: Sequence[Object], counts: Mapping[str, Mapping[str, int]]) -> list[Object]:
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
