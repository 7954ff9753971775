"""The resources that a driver publishes for its nodes: pools, health of devices, named resources.

A driver that stops making partitions (switch `prePartitioned`) offers those that there are then. They are as
they are until it makes partitions again: which pods use them later, and whether the driver starts again,
changes nothing, as a GPU keeps its MIG instances.

To the kubelet of 1.30 devices are named resources, or those of semantic models: a slice becomes one entry, a
device one instance, and capacity attributes with quantities. Names of attributes are DNS subdomains in
resource.k8s.io/v1alpha2, so `driverVersion` becomes `driver-version`, as NVIDIA's driver of that time had it,
and `example.com/zone` becomes `example.com.zone`. Devices of several nodes are left out: a slice of 1.30 has
one node.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.drivers.kubelet_plugin import DeviceHealth
from kubeskew.kubelet.drivers.pools import Pool, Slice, pre_partitioned
from kubeskew.kubelet.drivers.profiles import resources_of
from kubeskew.kubelet.drivers.semantic.resources import read_resources, resources_of_devices, with_counts
from kubeskew.kubelet.drivers.settings import DriverNode
from kubeskew.kubelet.drivers.switches import Health, Switches
from kubeskew.kubelet.files import StateFiles

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class MadePartitions:
    """The devices that there are on one node, by pool; none while the driver makes partitions.

    The record, `{pool: [device, …]}`, outlives the driver's process.
    """

    def __init__(self, record: Path, files: StateFiles) -> None:
        self._record = record
        self._files = files
        self._made: dict[str, list[str]] = orjson.loads(files.read(record) or b"{}")

    def all(self) -> Iterator[tuple[str, str]]:
        for pool, devices in self._made.items():
            for device in devices:
                yield pool, device

    def keep(self, devices: Mapping[str, Sequence[str]]) -> None:
        """Keeps these names of devices, by pool, instead of those that were kept; without any, none."""
        made = {pool: [*names] for pool, names in devices.items()}
        if made == self._made:
            return
        self._made = made
        if made:
            self._files.write(self._record, orjson.dumps(made, option=orjson.OPT_INDENT_2))
        else:
            self._files.remove(self._record)


def pools_of(
    driver: str,
    nodes: Sequence[DriverNode],
    server: Version,
    generations: Mapping[str, int],
    existing: Collection[tuple[str, str]] = (),
) -> dict[str, Pool]:
    """Pools stand under their names; raises ProfileError. `generations` are the least generations of pools,
    `existing` the pool and name of each device that is in use, or kept while no partitions are made.

    A pool of several nodes has the switches of all of them.
    """
    offers = [
        node.offer if node.switches.devices is None else replace(node.offer, devices=node.switches.devices)
        for node in nodes
    ]
    found = {}
    for name, pool in resources_of(driver, offers, server).items():
        its_nodes = [node for node in nodes if pool.node_name in {"", node.name}]
        if any(node.switches.pre_partitioned for node in its_nodes):
            pool = pre_partitioned(server, pool, [device for of, device in existing if of == name])
        for node in its_nodes:
            pool = _switched(pool, node.switches)
        found[name] = replace(pool, generation=max(pool.generation, generations.get(name, 0)))
    return found


def _switched(pool: Pool, switches: Switches) -> Pool:
    return replace(
        pool,
        slices=tuple(_tainted(piece, switches) for piece in pool.slices),
        generation=max(pool.generation, switches.generation),
        surplus=int(pool.surplus or switches.incomplete_pool),
        keeps_stale=pool.keeps_stale or switches.stale_generation,
    )


def _tainted(piece: Slice, switches: Switches) -> Slice:
    if not switches.taints:
        return piece
    devices = [
        {**device, "taints": [*device.get("taints", ()), *map(dict, switches.taints[device["name"]])]}
        if device["name"] in switches.taints
        else device
        for device in piece.devices
    ]
    return replace(piece, devices=tuple(devices))


def health_of(node: DriverNode, pools: Mapping[str, Pool]) -> Iterator[DeviceHealth]:
    for name, pool in pools.items():
        for device in [device for piece in pool.slices for device in piece.devices]:
            if pool.node_name == node.name or (not pool.node_name and _reaches(device, node.name)):
                yield name, device["name"], node.switches.health.get(device["name"], Health())


def _reaches(device: Object, node: str) -> bool:
    """True for a device that selects the node by name or host name."""
    if "nodeName" in device:
        return bool(device["nodeName"] == node)
    terms = (device.get("nodeSelector") or {}).get("nodeSelectorTerms") or []
    return any(
        node in expression["values"] for term in terms for expression in term.get("matchExpressions") or []
    )


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
