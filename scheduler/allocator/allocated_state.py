"""The devices that are in use: whole devices, shares of devices, and the capacity that the shares take."""

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from kubeskew.apimachinery.quantity import Quantity


class DeviceID(NamedTuple):
    """The identity of a device in the cluster."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return "/".join(self)


Amounts = Mapping[str, Quantity]  # by capacity name


@dataclass(frozen=True, slots=True)
class AllocatedState:
    """Live views of the devices in use; they may change between searches, never during one."""

    devices: Set[DeviceID] = frozenset()  # devices in use as a whole
    shared: Set[DeviceID] = frozenset()  # devices of which shares are in use
    consumed: Mapping[DeviceID, Amounts] = field(default_factory=dict)
    releases: Callable[[], int] | None = None  # counts devices that became free
    changes: Callable[[str], int] | None = None  # counts changes in pools of this name

    def uses(self, device: DeviceID) -> bool:
        """Returns whether a claim has the device or a share of it."""
        return device in self.devices or device in self.shared or device in self.consumed

    def is_free(self, device: DeviceID, *, shares: bool) -> bool:
        """Returns whether no claim has the device, nor a share of it; with `shares` it may have been shared,
        as a shareable one may, and by known bug 140798 one that no longer is."""
        return device not in self.devices and (shares or not self.uses(device))


class AllocatedDevices:
    """Counts the users of each device as claims come and go; `state` is a live view of it."""

    def __init__(self) -> None:
        self._uses: dict[DeviceID, int] = {}
        self._shares: dict[DeviceID, int] = {}
        self._consumed: dict[DeviceID, dict[str, Quantity]] = {}
        self._releases = 0
        self._changes: dict[str, int] = {}
        self.state = AllocatedState(
            self._uses.keys(),
            self._shares.keys(),
            self._consumed,
            lambda: self._releases,
            lambda pool: self._changes.get(pool, 0),
        )

    def add(self, device: DeviceID, taken: Amounts | None) -> None:
        """Counts a use; `taken` is the capacity of a share, None for the whole device."""
        self._count(self._uses if taken is None else self._shares, device, 1)
        if taken:
            used = self._consumed.setdefault(device, {})
            for name, amount in taken.items():
                used[name] = used[name] + amount if name in used else amount

    def remove(self, device: DeviceID, taken: Amounts | None) -> None:
        self._count(self._uses if taken is None else self._shares, device, -1)
        if taken:
            used = self._consumed[device]
            for name, amount in taken.items():
                used[name] = used[name] - amount
            if device not in self._shares:
                del self._consumed[device]

    def _count(self, uses: dict[DeviceID, int], device: DeviceID, change: int) -> None:
        self._changes[device.pool] = self._changes.get(device.pool, 0) + 1
        count = uses.get(device, 0) + change
        # A claim that is written again, or whose allocation arrives, frees nothing: others count its devices.
        self._releases += change < 0 and (not count or uses is self._shares)
        if count:
            uses[device] = count
        else:
            del uses[device]
