"""TPU v5e in groups of machines with four chips each: a 4x4 or 8x8 slice and its parts, as in KEP-4815.

Machines lie in a square, numbered row by row, each with 2x2 chips. A device of several machines belongs to no
node: the pool is the driver's, and its devices select their nodes by name or by host name.
"""

from collections.abc import Iterator, Mapping, Sequence

from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.drivers.pools import Unit
from kubeskew.kubelet.drivers.profiles.devices import Hardware, counters, device, version

CHIPS = 4  # of a machine
# Profile → machines on each side of the square.
SIDES: Mapping[str, int] = {"tpu-v5e-4x4": 2, "tpu-v5e-8x8": 4}
# Topology → machines that lie side by side, and rows of them; smallest first.
_SHAPES = {"2x2": (1, 1), "2x4": (2, 1), "4x4": (2, 2), "4x8": (4, 2), "8x8": (4, 4)}
_LABEL = 63


def groups(profile: str, nodes: Sequence[str]) -> list[Sequence[str]]:
    """Returns the nodes in groups of machines that are wired together."""
    size = SIDES[profile] ** 2
    return [nodes[at : at + size] for at in range(0, len(nodes), size)]


def unit(profile: str, hardware: Hardware, nodes: Sequence[str]) -> Unit:
    """Returns the devices of a group: one per machine and one per rectangle of machines; fewer where
    machines are missing."""
    names = [_counter(node, position) for position, node in enumerate(nodes)]
    all_chips = dict.fromkeys(names, str(CHIPS))
    devices = []
    for topology in _SHAPES:
        for number, places in enumerate(_rectangles(topology, SIDES[profile]), 1):
            if places[-1] >= len(nodes):
                continue
            made = _slice(hardware, f"tpu-{topology}-{number}", topology, len(places))
            consumed = counters({names[place]: str(CHIPS) for place in places})
            made["consumesCounters"] = [{"counterSet": "tpu-counter-set", "counters": consumed}]
            devices.append({**made, **_nodes([nodes[place] for place in places])})
    return Unit(tuple(devices), ({"name": "tpu-counter-set", "counters": counters(all_chips)},))


def _rectangles(topology: str, side: int) -> Iterator[list[int]]:
    """Yields the places of machines of each rectangle of this topology in a square, which do not overlap."""
    width, height = _SHAPES[topology]
    for top in range(0, side - height + 1, height):
        for left in range(0, side - width + 1, width):
            yield [
                row * side + column
                for row in range(top, top + height)
                for column in range(left, left + width)
            ]


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
