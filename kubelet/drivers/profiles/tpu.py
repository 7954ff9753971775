"""TPU v5e in groups of four machines with four chips each: a 4x4 slice and its parts, as in KEP-4815.

A device of several machines belongs to no node: the pool is the driver's, and its devices select their nodes
by name or by host name.
"""

from collections.abc import Sequence

from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.drivers.pools import Unit
from kubeskew.kubelet.drivers.profiles.devices import Hardware, counters, device, version

CHIPS = 4  # of a machine
MACHINES = 4  # of a 4x4 slice
_SHAPES = {1: "2x2", 2: "2x4", 4: "4x4"}  # machines → topology, smallest first
_LABEL = 63


def groups(nodes: Sequence[str]) -> list[Sequence[str]]:
    """Returns the nodes in groups of four machines that are wired together."""
    return [nodes[at : at + MACHINES] for at in range(0, len(nodes), MACHINES)]


def unit(hardware: Hardware, nodes: Sequence[str]) -> Unit:
    """Returns a group's devices: one per machine, one per pair, one of all four; fewer where machines are
    missing."""
    names = [_counter(node, position) for position, node in enumerate(nodes)]
    all_chips = dict.fromkeys(names, str(CHIPS))
    devices = []
    for size, topology in _SHAPES.items():
        for number, at in enumerate(range(0, len(nodes) - size + 1, size), 1):
            made = _slice(hardware, f"tpu-{topology}-{number}", topology, size)
            consumed = counters(dict.fromkeys(names[at : at + size], str(CHIPS)))
            made["consumesCounters"] = [{"counterSet": "tpu-counter-set", "counters": consumed}]
            devices.append({**made, **_nodes(nodes[at : at + size])})
    return Unit(tuple(devices), ({"name": "tpu-counter-set", "counters": counters(all_chips)},))


def single(hardware: Hardware) -> Unit:
    """Returns the devices of one machine, for releases without devices of several machines."""
    return Unit((_slice(hardware, "tpu-2x2-1", "2x2", 1),))


def _slice(hardware: Hardware, name: str, topology: str, machines: int) -> Object:
    attributes = {
        "type": "tpu",
        "model": "tpu-v5e",
        "topology": topology,
        "hosts": machines,
        "driverVersion": version("1.0.0"),
    }
    return device(hardware, name, attributes, {"tpus": str(machines * CHIPS)})


def _nodes(nodes: Sequence[str]) -> Object:
    if len(nodes) == 1:
        return {"nodeName": nodes[0]}
    chosen = {"key": "kubernetes.io/hostname", "operator": "In", "values": [*nodes]}
    return {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [chosen]}]}}


def _counter(node: str, position: int) -> str:
    """Returns a counter's name, a DNS label; a node's name may be longer and have dots."""
    name = f"tpus-{node.replace('.', '-')}"
    return name if len(name) <= _LABEL else f"tpus-{position}"
