"""SR-IOV network cards: a physical function, and the virtual functions that it can be divided into.

The physical function takes all of the card; each virtual function takes one of its slots and a share of its
bandwidth.
"""

from kubeskew.kubelet.drivers.pools import Unit
from kubeskew.kubelet.drivers.profiles.devices import Hardware, counters, device, version

VIRTUAL_FUNCTIONS = 8
_GIGABITS = 100
_COMMON = {"vendor": "15b3", "model": "ConnectX-6 Dx", "linkType": "ethernet", "rdma": True}


def units(hardware: Hardware) -> list[Unit]:
    """Returns per card its virtual functions, then the physical one."""
    return [_unit(hardware, index) for index in range(hardware.count)]


def _unit(hardware: Hardware, index: int) -> Unit:
    card = f"{hardware.name}-{index}"
    common = {
        **_COMMON,
        "pfName": card,
        "index": index,
        "numaNode": index % 2,
        "driverVersion": version("1.0.0"),
        "resource.kubernetes.io/pcieRoot": f"pci0000:{16 * (index + 1):02x}",
    }
    share = f"{_GIGABITS * 1000 // VIRTUAL_FUNCTIONS}M"
    parts = []
    for number in range(VIRTUAL_FUNCTIONS):
        attributes = {"type": "vf", "vfIndex": number, "pciAddress": _address(index, number + 1), **common}
        made = device(hardware, f"{card}-vf-{number}", attributes, {"bandwidth": share})
        parts.append({**made, "consumesCounters": [_consumption(card, 1, share)]})
    total = f"{_GIGABITS}G"
    whole = device(
        hardware, card, {"type": "pf", "pciAddress": _address(index, 0), **common}, {"bandwidth": total}
    )
    consumption = _consumption(card, VIRTUAL_FUNCTIONS, total)
    counter_set = {"name": consumption["counterSet"], "counters": consumption["counters"]}
    return Unit((*parts, {**whole, "consumesCounters": [consumption]}), (counter_set,), (whole,))


def _consumption(card: str, functions: int, bandwidth: str) -> dict[str, object]:
    amounts = {"virtual-functions": str(functions), "bandwidth": bandwidth}
    return {"counterSet": f"{card}-counter-set", "counters": counters(amounts)}


def _address(index: int, function: int) -> str:
    return f"0000:{16 * (index + 1):02x}:{function // 8:02x}.{function % 8}"
