"""Whole devices without partitions: the made-up GPU of every example, and the H100."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kubeskew.kubelet.drivers.pools import Unit
from kubeskew.kubelet.drivers.profiles.devices import Hardware, device, identifier, version


@dataclass(frozen=True, slots=True)
class Model:
    """A kind of device: the attributes of each beside its index and UUID."""

    attributes: Mapping[str, Any]
    capacity: Mapping[str, str]
    uuid_prefix: str = "gpu-"


# As the dra-example-driver's GPUs, kubernetes-sigs.
EXAMPLE = Model(
    {"type": "gpu", "model": "LATEST-GPU-MODEL", "driverVersion": version("1.0.0")}, {"memory": "80Gi"}
)
# The attributes in NVIDIA's driver (k8s-dra-driver-gpu).
H100 = Model(
    {
        "type": "gpu",
        "model": "NVIDIA H100 80GB HBM3",
        "productName": "NVIDIA H100 80GB HBM3",
        "brand": "Nvidia",
        "architecture": "Hopper",
        "cudaComputeCapability": version("9.0.0"),
        "cudaDriverVersion": version("12.8.0"),
        "driverVersion": version("570.86.15"),
    },
    {"memory": "81559Mi"},
    uuid_prefix="GPU-",
)


def units(hardware: Hardware, model: Model) -> list[Unit]:
    """Returns `NAME-0 …`, each a unit of its own."""
    made = []
    for index in range(hardware.count):
        name = f"{hardware.name}-{index}"
        own = {"index": index, "uuid": f"{model.uuid_prefix}{identifier(hardware, name)}"}
        made.append(Unit((device(hardware, name, {**model.attributes, **own}, model.capacity),)))
    return made
