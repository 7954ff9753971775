"""Remembers which switches of drivers faults hold, and how they are without them.

Faults overlap, and end in any order: what one held is then as the newest one says that still holds it, and as
the scenario has it if none does.
"""

from collections.abc import Iterable, Mapping
from typing import Any

Place = tuple[str, str]  # driver, node
_Key = tuple[str, str, str]  # driver, node, switch


class HeldSwitches:
    """The switches that faults hold, by fault, the newest last."""

    def __init__(self) -> None:
        self._held: dict[str, dict[_Key, Any]] = {}
        self._without: dict[_Key, Any] = {}  # values if no fault held them; null leaves one off

    def hold(self, fault: str, places: Mapping[Place, Mapping[str, Any]], wanted: Mapping[str, Any]) -> None:
        """Notes that a fault sets these switches on each of these places, whose switches are given."""
        values = {(*place, key): value for place in places for key, value in wanted.items()}
        for driver, node, key in values:
            self._without.setdefault((driver, node, key), places[driver, node].get(key))
        self._held[fault] = values

    def set_by_scenario(self, driver: str, nodes: Iterable[str], switches: Mapping[str, Any]) -> None:
        """Notes what the scenario sets: so it is when faults have ended."""
        for key in [(driver, node, name) for node in nodes for name in switches]:
            if key in self._without:
                self._without[key] = switches[key[2]]

    def release(self, fault: str) -> dict[Place, dict[str, Any]]:
        """Returns what is to be set, by place, when a fault ends; nothing if it has ended before."""
        changes: dict[Place, dict[str, Any]] = {}
        for key in self._held.pop(fault, {}):
            others = [values[key] for values in self._held.values() if key in values]
            driver, node, switch = key
            changes.setdefault((driver, node), {})[switch] = others[-1] if others else self._without.pop(key)
        return changes
