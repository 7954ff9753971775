"""GPUs that can be cut into partitions (Multi-Instance GPU): a table per model, and its devices.

The A100's table is that of KEP-4815, "Dynamic allocation of Multi-Instance GPUs", with the placements of its
diagram; the H100's is what `nvidia-smi mig -lgip` and `-lgipp` print for the 80 GB card, from memory.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.drivers.pools import Unit
from kubeskew.kubelet.drivers.profiles.devices import Hardware, counters, device, identifier, version

# Counters are named in the form of DNS labels, capacities in that of C identifiers.
_ENGINES = {
    "multiprocessors": "multiprocessors",
    "copy-engines": "copyEngines",
    "decoders": "decoders",
    "encoders": "encoders",
    "jpeg-engines": "jpegEngines",
    "ofa-engines": "ofaEngines",
}


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


A100 = Card(
    memory="40Gi",
    slices=8,
    engines=(98, 7, 5, 0, 1, 1),
    attributes={
        "model": "NVIDIA A100-SXM4-40GB",
        "productName": "NVIDIA A100-SXM4-40GB",
        "brand": "Nvidia",
        "architecture": "Ampere",
        "cudaComputeCapability": version("8.0.0"),
        "cudaDriverVersion": version("12.8.0"),
        "driverVersion": version("570.86.15"),
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

H100 = Card(
    memory="80Gi",
    slices=8,
    engines=(132, 8, 7, 0, 7, 1),
    attributes={
        "model": "NVIDIA H100 80GB HBM3",
        "productName": "NVIDIA H100 80GB HBM3",
        "brand": "Nvidia",
        "architecture": "Hopper",
        "cudaComputeCapability": version("9.0.0"),
        "cudaDriverVersion": version("12.8.0"),
        "driverVersion": version("570.86.15"),
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


def units(hardware: Hardware, card: Card) -> list[Unit]:
    """Returns per GPU a counter set, its partitions at every possible place, and the whole."""
    return [_unit(hardware, card, index) for index in range(hardware.count)]


def _unit(hardware: Hardware, card: Card, index: int) -> Unit:
    gpu = f"{hardware.name}-{index}"
    parts = [part for partition in card.partitions for part in _partitions(hardware, card, index, partition)]
    attributes = {
        "type": "gpu",
        "index": index,
        "uuid": f"GPU-{identifier(hardware, gpu)}",
        **card.attributes,
    }
    amounts = _capacity(card.memory, card.engines, range(card.slices))
    whole = device(hardware, gpu, attributes, amounts)
    total = counters(_counters(card.memory, card.engines, range(card.slices)))
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
        consumed = counters(_counters(partition.memory, partition.engines, taken))
        made = device(hardware, name, attributes, _capacity(partition.memory, partition.engines, taken))
        yield {**made, "consumesCounters": [{"counterSet": _set_name(gpu), "counters": consumed}]}


def _set_name(gpu: str) -> str:
    return f"{gpu}-counter-set"


def _counters(memory: str, engines: tuple[int, ...], slices: range) -> dict[str, str]:
    amounts = {name: str(amount) for name, amount in zip(_ENGINES, engines, strict=True)}
    return {**amounts, "memory": memory, **{f"memory-slice-{number}": "1" for number in slices}}


def _capacity(memory: str, engines: tuple[int, ...], slices: range) -> dict[str, str]:
    amounts = {name: str(amount) for name, amount in zip(_ENGINES.values(), engines, strict=True)}
    return {**amounts, "memory": memory, **{f"memorySlice{number}": "1" for number in slices}}
