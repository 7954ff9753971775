"""Holds the subject of a row, an object as served at the moment of printing, and makes cells of its parts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kubeskew.apimachinery.clock import parse_timestamp
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity, QuantityError
from kubeskew.apimachinery.selectors.labels import LabelSelector, SelectorError
from kubeskew.apiserver.registry.tables.durations import human_duration

NONE = "<none>"
UNSET = "<unset>"
UNKNOWN = "<unknown>"
MOST = 3  # items of a list that a cell shows

Cell = str | int | bool | None
Cells = dict[str, Cell]  # by the name of the column


@dataclass(frozen=True, slots=True)
class Subject:
    """An object read along paths that may end early: a missing value is the zero value of its type."""

    obj: Object
    now: datetime
    unknown_init_panics: bool = False  # a status of an init container that the pod does not have

    def at(self, *path: str) -> Any:
        """Returns the value at a path, None if there is none."""
        return at(self.obj, *path)

    def text(self, *path: str, default: str = "") -> str:
        """Returns a string, or `default` for none or an empty one."""
        return str(self.at(*path) or default)

    def number(self, *path: str) -> int:
        return int(self.at(*path) or 0)

    def items(self, *path: str) -> list[Any]:
        return self.at(*path) or []

    def count(self, *path: str) -> int:
        """Returns the number of items in a list or map."""
        return len(self.at(*path) or ())

    def since(self, *path: str, default: str = UNKNOWN) -> str:
        """Shows the age of the time at a path."""
        return ago(self.at(*path), self.now, default)

    def condition(self, kind: str) -> Object | None:
        """Returns the first condition of a type."""
        return next(
            (condition for condition in self.items("status", "conditions") if condition.get("type") == kind),
            None,
        )

    def is_true(self, kind: str) -> bool:
        """Decides whether the condition of a type is True."""
        return (self.condition(kind) or {}).get("status") == "True"

    @property
    def deleted(self) -> bool:
        return self.at("metadata", "deletionTimestamp") is not None


CellsOf = Callable[[Subject], Cells]


def at(value: Any, *path: str) -> Any:
    """Returns the value at a path of keys, None if the path ends early."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def ago(time: str | None, now: datetime, default: str = UNKNOWN) -> str:
    """Shows the time from RFC 3339 `time` to `now`."""
    return human_duration(now - parse_timestamp(time)) if time else default


def labels(pairs: Mapping[str, str] | None) -> str:
    """Returns `k=v` pairs sorted by key."""
    return ",".join(f"{key}={value}" for key, value in sorted((pairs or {}).items())) or NONE


def selector(value: Object | None) -> str:
    """Returns a LabelSelector as the text of a selector."""
    try:
        return str(LabelSelector.from_object(value)) or NONE
    except SelectorError:
        return "<error>"


def quantity(value: Any) -> str:
    """Returns a quantity's canonical text; zero for None."""
    try:
        return Quantity.of(value).canonical()
    except QuantityError:
        return str(value)


def shortened(items: Sequence[str], total: int | None = None) -> str:
    """Returns the first three items and how many more there are."""
    total = len(items) if total is None else total
    shown = ",".join(items[:MOST])
    return f"{shown} + {total - MOST} more..." if total > MOST else shown


def joined(items: Sequence[Any] | None, default: str = "", separator: str = ",") -> str:
    """Returns all items, or `default` for none."""
    return separator.join(map(str, items or ())) or default


def boolean(value: bool | None) -> str:
    """Returns a boolean that may be unset, as text."""
    return UNSET if value is None else str(value)


def containers(template: Object | None) -> Cells:
    """Returns the cells Containers and Images of a pod template."""
    found = at(template, "spec", "containers") or []
    return {
        "Containers": ",".join(container.get("name", "") for container in found),
        "Images": ",".join(container.get("image", "") for container in found),
    }


def kind_name(kind: str, group: str) -> str:
    """Returns `Kind.group`; the core group is empty."""
    return f"{kind}.{group}" if group else kind
