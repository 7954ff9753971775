"""The resources that a driver publishes for its nodes: pools and health of devices.

A driver that stops making partitions (switch `prePartitioned`) offers those that there are then. They are as
they are until it makes partitions again: which pods use them later, and whether the driver starts again,
changes nothing, as a GPU keeps its MIG instances.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import orjson

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.drivers.generation import DeviceHealth
from kubeskew.kubelet.drivers.pools import Pool, Slice, pre_partitioned
from kubeskew.kubelet.drivers.profiles import resources_of
from kubeskew.kubelet.drivers.settings import DriverNode
from kubeskew.kubelet.drivers.switches import Health, Switches
from kubeskew.kubelet.files import StateFiles


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
            self._files.write(self._record, orjson.dumps(made, option=orjson.OPT_INDENT_2), synced=True)
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
