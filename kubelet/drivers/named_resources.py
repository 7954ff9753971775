"""A driver's devices as its kubelet publishes them: as named resources of 1.30, or of semantic models.

A slice becomes one entry, a device one instance, and capacity attributes with quantities. Names of
attributes are DNS subdomains in resource.k8s.io/v1alpha2, so `driverVersion` becomes `driver-version`, as
NVIDIA's driver of that time had it, and `example.com/zone` becomes `example.com.zone`. Devices of several
nodes are left out: a slice of 1.30 has one node.
"""

import re
from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.drivers.offering import pools_of
from kubeskew.kubelet.drivers.semantic.resources import read_resources, resources_of_devices, with_counts
from kubeskew.kubelet.drivers.settings import DriverNode

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def named_resources_of(driver: str, node: DriverNode, library: Version) -> list[Object]:
    """Returns the entries of one node, without those that are empty. Raises ProfileError."""
    pools = pools_of(driver, [node], library, {})
    return [
        {"namedResources": {"instances": [_instance(device) for device in piece.devices]}}
        for pool in pools.values()
        if pool.node_name == node.name
        for piece in pool.slices
        if piece.devices
    ]


def semantic_resources_of(driver: str, node: DriverNode, library: Version) -> list[Object]:
    """Returns the resources of semantic models on one node, as they are written out or of its devices.

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
        resources = resources_of_devices(devices)
    return with_counts(resources, switches.counters)


def _instance(device: Object) -> Object:
    body = device.get("basic") or device
    attributes: dict[str, Object] = {}
    for name, value in (body.get("attributes") or {}).items():
        attributes.setdefault(_name(name), dict(value))
    for name, capacity in (body.get("capacity") or {}).items():
        attributes.setdefault(_name(name), {"quantity": _amount(capacity)})
    ordered = [{"name": name, **attributes[name]} for name in sorted(attributes)]
    return {"name": device["name"], "attributes": ordered}


def _amount(capacity: Any) -> str:
    return str(capacity["value"] if isinstance(capacity, dict) else capacity)


def _name(name: str) -> str:
    return _HUMP.sub("-", name).lower().replace("/", ".").replace("_", "-")
