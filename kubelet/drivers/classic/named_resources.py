"""Devices as the named resources that a driver reports to the kubelet of 1.30.

A slice becomes one entry, a device one instance, and capacity attributes with quantities. Names of attributes
are DNS subdomains in resource.k8s.io/v1alpha2, so `driverVersion` becomes `driver-version`, as NVIDIA's
driver of that time had it, and `example.com/zone` becomes `example.com.zone`. Devices of several nodes are
left out: a slice of 1.30 has one node.
"""

import re
from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.drivers.resources import pools_of
from kubeskew.kubelet.drivers.settings import DriverNode

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def named_resources_of(driver: str, node: DriverNode, library: Version) -> list[Object]:
    """Slices without devices have no entry. Raises ProfileError."""
    pools = pools_of(driver, [node], library, {})
    return [
        {"namedResources": {"instances": [_instance(device) for device in piece.devices]}}
        for pool in pools.values()
        if pool.node_name == node.name
        for piece in pool.slices
        if piece.devices
    ]


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
