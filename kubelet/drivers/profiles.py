"""Device profiles: tables of hardware, and the devices and pools of a driver's nodes that follow from them.

- Whole devices without partitions: the made-up GPU of every example, and the H100.
- GPUs that can be cut into partitions (Multi-Instance GPU). The A100's table is that of KEP-4815, "Dynamic
  allocation of Multi-Instance GPUs", with the placements of its diagram; the profiles of the H100 are those
  of NVIDIA's mock of NVML (go-nvml, pkg/nvml/mock/shared/gpus/h100.go), the engines of each for show. Names
  of attributes and capacities are those of cmd/gpu-kubelet-plugin/deviceinfo.go in NVIDIA's driver.
- SR-IOV network cards: a physical function, which takes all of the card, and the virtual functions that it
  can be divided into, each with one of its slots and a share of its bandwidth.
- TPU v5e in groups of machines with four chips each: a 4x4 or 8x8 slice and its parts, as in KEP-4815.
  Machines lie in a square, numbered row by row, each with 2x2 chips. A device of several machines belongs to
  no node: the pool is the driver's, and its devices select their nodes by name or by host name.
"""

import hashlib
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.drivers.features import ServedSlices
from kubeskew.kubelet.drivers.pools import Pool, Slice, Unit, slices_for

# Counters are named in the form of DNS labels, capacities in that of C identifiers.
_ENGINES = {
    "multiprocessors": "multiprocessors",
    "copy-engines": "copyEngines",
    "decoders": "decoders",
    "encoders": "encoders",
    "jpeg-engines": "jpegEngines",
    "ofa-engines": "ofaEngines",
}
VIRTUAL_FUNCTIONS = 8
_GIGABITS = 100
_COMMON = {"vendor": "15b3", "model": "ConnectX-6 Dx", "linkType": "ethernet", "rdma": True}
CHIPS = 4  # of a machine
# Profile → machines on each side of the square.
SIDES: Mapping[str, int] = {"tpu-v5e-4x4": 2, "tpu-v5e-8x8": 4}
# Topology → machines that lie side by side, and rows of them; smallest first.
_SHAPES = {"2x2": (1, 1), "2x4": (2, 1), "4x4": (2, 2), "4x8": (4, 2), "8x8": (4, 4)}
_LABEL = 63


@dataclass(frozen=True, slots=True)
class Hardware:
    """Pieces of hardware of one driver in a node. `attributes` and `capacity` change each device."""

    driver: str
    node: str
    count: int
    name: str = "gpu"
    attributes: Mapping[str, Any] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=dict)


def made_device(
    hardware: Hardware, name: str, attributes: Mapping[str, Any], capacity: Mapping[str, str]
) -> Object:
    """The hardware's own attributes and capacities override these."""
    values = {key: attribute_value(value) for key, value in {**attributes, **hardware.attributes}.items()}
    amounts = {**capacity, **hardware.capacity}
    return {
        "name": name,
        "attributes": {key: value for key, value in values.items() if value is not None},
        "capacity": {key: {"value": amount} for key, amount in amounts.items()},
    }


def attribute_value(value: Any) -> Object | None:
    """Wraps a plain value as the API writes it; a dict is taken as it is, null removes the attribute."""
    if value is None or isinstance(value, dict):
        return value
    if isinstance(value, bool):
        return {"bool": value}
    return {"int": value} if isinstance(value, int) else {"string": str(value)}


def version_value(text: str) -> Object:
    return {"version": text}


def counter_values(amounts: Mapping[str, str]) -> Object:
    return {name: {"value": amount} for name, amount in amounts.items()}


def identifier(hardware: Hardware, name: str) -> str:
    """The same device has the same UUID every time."""
    parts = "/".join((hardware.node, hardware.driver, name))
    return str(uuid.UUID(bytes=hashlib.sha256(parts.encode()).digest()[:16], version=4))


@dataclass(frozen=True, slots=True)
class Model:
    """A kind of device: the attributes that each has besides its index and UUID."""

    attributes: Mapping[str, Any]
    capacity: Mapping[str, str]
    uuid_prefix: str = "gpu-"


# As the dra-example-driver's GPUs, kubernetes-sigs.
EXAMPLE_GPU = Model(
    {"type": "gpu", "model": "LATEST-GPU-MODEL", "driverVersion": version_value("1.0.0")}, {"memory": "80Gi"}
)
# The attributes in NVIDIA's driver (k8s-dra-driver-gpu).
PLAIN_H100 = Model(
    {
        "type": "gpu",
        "model": "NVIDIA H100 80GB HBM3",
        "productName": "NVIDIA H100 80GB HBM3",
        "brand": "Nvidia",
        "architecture": "Hopper",
        "cudaComputeCapability": version_value("9.0.0"),
        "cudaDriverVersion": version_value("12.8.0"),
        "driverVersion": version_value("570.86.15"),
    },
    {"memory": "81559Mi"},
    uuid_prefix="GPU-",
)


def plain_units(hardware: Hardware, model: Model) -> list[Unit]:
    made = []
    for index in range(hardware.count):
        name = f"{hardware.name}-{index}"
        own = {"index": index, "uuid": f"{model.uuid_prefix}{identifier(hardware, name)}"}
        made.append(Unit((made_device(hardware, name, {**model.attributes, **own}, model.capacity),)))
    return made


@dataclass(frozen=True, slots=True)
class Partition:
    """A MIG profile: `engines` as `_ENGINES` orders them, `starts` the memory slices it can begin at."""

    name: str
    memory: str
    slices: int
    engines: tuple[int, int, int, int, int, int]
    starts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Card:
    """A GPU: the resources of the whole, and its partitions, smallest first (KEP-4815: first fit, not
    best)."""

    memory: str
    slices: int
    engines: tuple[int, int, int, int, int, int]
    attributes: Mapping[str, Any]
    partitions: tuple[Partition, ...]


MIG_A100 = Card(
    memory="40Gi",
    slices=8,
    engines=(98, 7, 5, 0, 1, 1),
    attributes={
        "model": "NVIDIA A100-SXM4-40GB",
        "productName": "NVIDIA A100-SXM4-40GB",
        "brand": "Nvidia",
        "architecture": "Ampere",
        "cudaComputeCapability": version_value("8.0.0"),
        "cudaDriverVersion": version_value("12.8.0"),
        "driverVersion": version_value("570.86.15"),
    },
    partitions=(
        Partition("1g.5gb", "4864Mi", 1, (14, 1, 0, 0, 0, 0), (0, 1, 2, 3, 4, 5, 6)),
        Partition("1g.5gb+me", "4864Mi", 1, (14, 1, 1, 0, 1, 1), (0, 1, 2, 3, 4, 5, 6)),
        Partition("1g.10gb", "9856Mi", 2, (14, 1, 1, 0, 0, 0), (0, 2, 4, 6)),
        Partition("2g.10gb", "9856Mi", 2, (28, 2, 1, 0, 0, 0), (0, 2, 4)),
        Partition("3g.20gb", "19968Mi", 4, (42, 3, 2, 0, 0, 0), (0, 4)),
        Partition("4g.20gb", "19968Mi", 4, (56, 4, 2, 0, 0, 0), (0,)),
        Partition("7g.40gb", "40192Mi", 8, (98, 7, 5, 0, 1, 1), (0,)),
    ),
)

MIG_H100 = Card(
    memory="80Gi",
    slices=8,
    engines=(132, 8, 7, 0, 7, 1),
    attributes={
        "model": "NVIDIA H100 80GB HBM3",
        "productName": "NVIDIA H100 80GB HBM3",
        "brand": "Nvidia",
        "architecture": "Hopper",
        "cudaComputeCapability": version_value("9.0.0"),
        "cudaDriverVersion": version_value("12.8.0"),
        "driverVersion": version_value("570.86.15"),
    },
    partitions=(
        Partition("1g.10gb", "9984Mi", 1, (16, 1, 1, 0, 1, 0), (0, 1, 2, 3, 4, 5, 6)),
        Partition("1g.10gb+me", "9984Mi", 1, (16, 1, 1, 0, 1, 1), (0, 1, 2, 3, 4, 5, 6)),
        Partition("1g.20gb", "20096Mi", 2, (26, 1, 1, 0, 1, 0), (0, 2, 4, 6)),
        Partition("2g.20gb", "20096Mi", 2, (32, 2, 2, 0, 2, 0), (0, 2, 4)),
        Partition("3g.40gb", "40448Mi", 4, (60, 3, 3, 0, 3, 0), (0, 4)),
        Partition("4g.40gb", "40448Mi", 4, (64, 4, 4, 0, 4, 0), (0,)),
        Partition("7g.80gb", "81152Mi", 8, (132, 8, 7, 0, 7, 1), (0,)),
    ),
)


def mig_units(hardware: Hardware, card: Card) -> list[Unit]:
    """Each GPU has a counter set, its partitions at every possible place, and the whole."""
    return [_mig_unit(hardware, card, index) for index in range(hardware.count)]


def _mig_unit(hardware: Hardware, card: Card, index: int) -> Unit:
    gpu = f"{hardware.name}-{index}"
    parts = [part for partition in card.partitions for part in _partitions(hardware, card, index, partition)]
    attributes = {
        "type": "gpu",
        "index": index,
        "uuid": f"GPU-{identifier(hardware, gpu)}",
        **card.attributes,
    }
    amounts = _capacity(card.memory, card.engines, range(card.slices))
    whole = made_device(hardware, gpu, attributes, amounts)
    total = counter_values(_mig_counters(card.memory, card.engines, range(card.slices)))
    return Unit(
        devices=(*parts, {**whole, "consumesCounters": [{"counterSet": _set_name(gpu), "counters": total}]}),
        counter_sets=({"name": _set_name(gpu), "counters": total},),
        whole=(whole,),
    )


def _partitions(hardware: Hardware, card: Card, index: int, partition: Partition) -> Iterator[Object]:
    gpu = f"{hardware.name}-{index}"
    label = partition.name.replace(".", "-").replace("+", "-")
    for start in partition.starts:
        taken = range(start, start + partition.slices)
        places = [start] if partition.slices == 1 else [start, taken[-1]]
        name = f"{gpu}-mig-{label}-{'-'.join(map(str, places))}"
        attributes = {
            "type": "mig",
            "profile": partition.name,
            "parentUUID": f"GPU-{identifier(hardware, gpu)}",
            "parentIndex": index,
            "uuid": f"MIG-{identifier(hardware, name)}",
            **card.attributes,
        }
        consumed = counter_values(_mig_counters(partition.memory, partition.engines, taken))
        made = made_device(hardware, name, attributes, _capacity(partition.memory, partition.engines, taken))
        yield {**made, "consumesCounters": [{"counterSet": _set_name(gpu), "counters": consumed}]}


def _set_name(gpu: str) -> str:
    return f"{gpu}-counter-set"


def _mig_counters(memory: str, engines: tuple[int, ...], slices: range) -> dict[str, str]:
    amounts = {name: str(amount) for name, amount in zip(_ENGINES, engines, strict=True)}
    return {**amounts, "memory": memory, **{f"memory-slice-{number}": "1" for number in slices}}


def _capacity(memory: str, engines: tuple[int, ...], slices: range) -> dict[str, str]:
    amounts = {name: str(amount) for name, amount in zip(_ENGINES.values(), engines, strict=True)}
    return {**amounts, "memory": memory, **{f"memorySlice{number}": "1" for number in slices}}


def sriov_units(hardware: Hardware) -> list[Unit]:
    """Each card has its virtual functions, then the physical one."""
    return [_sriov_unit(hardware, index) for index in range(hardware.count)]


def _sriov_unit(hardware: Hardware, index: int) -> Unit:
    card = f"{hardware.name}-{index}"
    common = {
        **_COMMON,
        "pfName": card,
        "index": index,
        "numaNode": index % 2,
        "driverVersion": version_value("1.0.0"),
        "resource.kubernetes.io/pcieRoot": f"pci0000:{16 * (index + 1):02x}",
    }
    share = f"{_GIGABITS * 1000 // VIRTUAL_FUNCTIONS}M"
    parts = []
    for number in range(VIRTUAL_FUNCTIONS):
        attributes = {"type": "vf", "vfIndex": number, "pciAddress": _address(index, number + 1), **common}
        made = made_device(hardware, f"{card}-vf-{number}", attributes, {"bandwidth": share})
        parts.append({**made, "consumesCounters": [_consumption(card, 1, share)]})
    total = f"{_GIGABITS}G"
    whole = made_device(
        hardware, card, {"type": "pf", "pciAddress": _address(index, 0), **common}, {"bandwidth": total}
    )
    consumption = _consumption(card, VIRTUAL_FUNCTIONS, total)
    counter_set = {"name": consumption["counterSet"], "counters": consumption["counters"]}
    return Unit((*parts, {**whole, "consumesCounters": [consumption]}), (counter_set,), (whole,))


def _consumption(card: str, functions: int, bandwidth: str) -> dict[str, object]:
    amounts = {"virtual-functions": str(functions), "bandwidth": bandwidth}
    return {"counterSet": f"{card}-counter-set", "counters": counter_values(amounts)}


def _address(index: int, function: int) -> str:
    return f"0000:{16 * (index + 1):02x}:{function // 8:02x}.{function % 8}"


def tpu_groups(profile: str, nodes: Sequence[str]) -> list[Sequence[str]]:
    """Splits the nodes into groups of machines that are wired together."""
    size = SIDES[profile] ** 2
    return [nodes[at : at + size] for at in range(0, len(nodes), size)]


def tpu_unit(profile: str, hardware: Hardware, nodes: Sequence[str]) -> Unit:
    """One device is made per machine and per rectangle of machines; fewer where machines are missing."""
    names = [_tpu_counter(node, position) for position, node in enumerate(nodes)]
    all_chips = dict.fromkeys(names, str(CHIPS))
    devices = []
    for topology in _SHAPES:
        for number, places in enumerate(_rectangles(topology, SIDES[profile]), 1):
            if places[-1] >= len(nodes):
                continue
            made = _tpu_slice(hardware, f"tpu-{topology}-{number}", topology, len(places))
            consumed = counter_values({names[place]: str(CHIPS) for place in places})
            made["consumesCounters"] = [{"counterSet": "tpu-counter-set", "counters": consumed}]
            devices.append({**made, **_nodes([nodes[place] for place in places])})
    return Unit(tuple(devices), ({"name": "tpu-counter-set", "counters": counter_values(all_chips)},))


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


def single_tpu(hardware: Hardware) -> Unit:
    """Releases without devices of several machines have these alone."""
    return Unit((_tpu_slice(hardware, "tpu-2x2-1", "2x2", 1),))


def _tpu_slice(hardware: Hardware, name: str, topology: str, machines: int) -> Object:
    attributes = {
        "type": "tpu",
        "model": "tpu-v5e",
        "topology": topology,
        "hosts": machines,
        "driverVersion": version_value("1.0.0"),
    }
    return made_device(hardware, name, attributes, {"tpus": str(machines * CHIPS)})


def _nodes(nodes: Sequence[str]) -> Object:
    if len(nodes) == 1:
        return {"nodeName": nodes[0]}
    chosen = {"key": "kubernetes.io/hostname", "operator": "In", "values": [*nodes]}
    return {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [chosen]}]}}


def _tpu_counter(node: str, position: int) -> str:
    """Counters' names are DNS labels; a node's name may be longer and have dots."""
    name = f"tpus-{node.replace('.', '-')}"
    return name if len(name) <= _LABEL else f"tpus-{position}"


class ProfileError(ValueError):
    """The requested devices cannot be made."""


@dataclass(frozen=True, slots=True)
class Profile:
    """A kind of hardware: the default number per node, the names of its devices, and their contents."""

    count: int
    name: str
    units: Callable[[Hardware], list[Unit]]


PLAIN = ""
PROFILES: Mapping[str, Profile] = {
    PLAIN: Profile(1, "gpu", lambda hardware: plain_units(hardware, EXAMPLE_GPU)),
    "a100-mig": Profile(2, "gpu", lambda hardware: mig_units(hardware, MIG_A100)),
    "h100": Profile(8, "gpu", lambda hardware: plain_units(hardware, PLAIN_H100)),
    "h100-mig": Profile(8, "gpu", lambda hardware: mig_units(hardware, MIG_H100)),
    **dict.fromkeys(SIDES, Profile(1, "tpu", lambda hardware: [single_tpu(hardware)])),
    "nic-sriov": Profile(2, "nic", sriov_units),
}


@dataclass(frozen=True, slots=True)
class Offer:
    """The devices of a driver on one node: of a profile, or the `resources` that are written out.

    `resources` is `{slices: [{devices, sharedCounters}]}` in the shape of v1.
    """

    node: str
    profile: str = PLAIN
    devices: int | None = None
    device_name: str = ""
    attributes: Mapping[str, Any] | None = None
    capacity: Mapping[str, str] | None = None
    resources: Mapping[str, Any] | None = None

    def hardware(self, driver: str) -> Hardware:
        """Raises ProfileError."""
        profile = _profile(self.profile)
        count = profile.count if self.devices is None else self.devices
        name = self.device_name or profile.name
        return Hardware(driver, self.node, count, name, self.attributes or {}, self.capacity or {})


def resources_of(driver: str, offers: Sequence[Offer], server: Version) -> dict[str, Pool]:
    """Pools stand under their names, as a server of this version takes them. Raises ProfileError."""
    pools: dict[str, Pool] = {}
    hosts = [offer for offer in offers if offer.profile in SIDES and offer.resources is None]
    if not ServedSlices.of(FeatureGates(server)).nodes_of_devices:
        hosts = []
    for offer in offers:
        if offer not in hosts:
            pools[offer.node] = Pool(_node_slices(driver, offer, server), node_name=offer.node)
    for profile in SIDES:
        by_name = {offer.node: offer for offer in hosts if offer.profile == profile}
        for number, group in enumerate(tpu_groups(profile, [*by_name]), 1):
            made = tpu_unit(profile, by_name[group[0]].hardware(driver), group)
            pools[f"{profile}-{number}"] = Pool(slices_for(server, [made], per_device=True))
    return pools


def _node_slices(driver: str, offer: Offer, server: Version) -> tuple[Slice, ...]:
    if offer.resources is not None:
        return tuple(_written(slice_) for slice_ in offer.resources.get("slices") or [])
    return slices_for(server, _profile(offer.profile).units(offer.hardware(driver)))


def _written(entry: Object) -> Slice:
    return Slice(tuple(entry.get("devices") or ()), tuple(entry.get("sharedCounters") or ()))


def _profile(name: str) -> Profile:
    if name not in PROFILES:
        known = ", ".join(profile for profile in PROFILES if profile)
        raise ProfileError(f"unknown device profile {name}; known are {known}")
    return PROFILES[name]
