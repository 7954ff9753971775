"""Decides which claim gets which device: the books of the example driver, without any I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity, QuantityError


class ExhaustedError(Exception):
    """There is no room for a claim; the text is for people."""


class ParameterError(ValueError):
    """Says that parameters of a claim or class, or facts of a device, cannot be read; for people."""


def read_memory(value: object) -> Quantity:
    """Returns an amount of memory above zero. Raises ParameterError."""
    try:
        memory = Quantity.parse(str(value))
    except QuantityError as error:
        raise ParameterError(f'memory "{value}": {error}') from error
    if memory.sign() <= 0:
        raise ParameterError(f'memory "{value}": must be greater than zero')
    return memory


@dataclass(frozen=True, slots=True)
class Share:
    """The part of a device that a claim has. `memory` is None for all of it; an optional claim that found no
    room has no `device`.
    """

    node: str
    device: str
    memory: Quantity | None


@dataclass(slots=True)
class DevicePool:
    """All devices by node, and the claims that have them; each device is whole or shared by its memory."""

    devices: Mapping[str, Sequence[Object]] = field(default_factory=dict)
    _shares: dict[str, Share] = field(default_factory=dict)  # by claim UID

    def share_of(self, uid: str) -> Share | None:
        return self._shares.get(uid)

    def learn(self, uid: str, share: Share) -> None:
        """Takes over what was allocated before."""
        self._shares[uid] = share

    def free(self, uid: str) -> None:
        self._shares.pop(uid, None)

    def take(self, uid: str, node: str, memory: Quantity | None, *, optional: bool = False) -> Share:
        """Returns the claim's part of a device of the node; the same one if it has one there.

        Raises ExhaustedError, unless the claim does without a device.
        """
        known = self._shares.get(uid)
        if known is not None and known.node == node:
            return known
        device = self._first_fit(node, memory, but=uid)
        if device is None and not optional:
            raise ExhaustedError(f'resources exhausted on node "{node}"')
        self._shares[uid] = Share(node, "", None) if device is None else Share(node, device, memory)
        return self._shares[uid]

    def users_of(self, node: str, device: str) -> list[str]:
        """Returns the UIDs of the claims that have a part of the device."""
        return sorted(
            uid for uid, share in self._shares.items() if (share.node, share.device) == (node, device)
        )

    def nodes_with_room(self, memory: Quantity | None) -> list[str]:
        """Returns the nodes that could take the claim, those with most free devices first."""
        fitting = [node for node in sorted(self.devices) if self._first_fit(node, memory) is not None]
        return sorted(fitting, key=lambda node: sum(share.node == node for share in self._shares.values()))

    def has_room(self, node: str, memory: Quantity | None, *, but: str = "") -> bool:
        """Returns whether the node could take the claim `but`, whose own share does not count."""
        return self._first_fit(node, memory, but=but) is not None

    def _first_fit(self, node: str, memory: Quantity | None, *, but: str = "") -> str | None:
        for device in self.devices.get(node) or ():
            taken = [
                share
                for uid, share in self._shares.items()
                if uid != but and (share.node, share.device) == (node, device["name"])
            ]
            if not taken and (memory is None or not device.get("memory")):
                return str(device["name"])
            if memory is None or not device.get("memory") or any(share.memory is None for share in taken):
                continue
            used = sum((share.memory.value() for share in taken if share.memory is not None), 0)
            if used + memory.value() <= _memory_of(node, device).value():
                return str(device["name"])
        return None


def _memory_of(node: str, device: Object) -> Quantity:
    try:
        return read_memory(device["memory"])
    except ParameterError as error:
        raise ParameterError(f'device "{device["name"]}" of node "{node}": {error}') from error
