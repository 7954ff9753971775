"""Makes cells of the parts of a row's subject, an object as served at the moment of printing.

Several kinds share them: ages, labels, selectors, volumes, load balancers, and how many pods are ready.

Source: k8s.io/apimachinery/pkg/util/duration/duration.go (HumanDuration), 1.36.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from kubeskew.apimachinery.clock import parse_timestamp
from kubeskew.apimachinery.conditions import find_condition, is_condition_true
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity, QuantityError
from kubeskew.apimachinery.selectors.labels import LabelSelector, SelectorError

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_YEAR = 365 * _DAY
NONE = "<none>"
UNSET = "<unset>"
UNKNOWN = "<unknown>"
MOST = 3  # items of a list that a cell shows

Cell = str | int | bool | None
Cells = dict[str, Cell]  # by the name of the column
_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}

_CLASS = "volume.beta.kubernetes.io/storage-class"


def human_duration(duration: timedelta) -> str:
    """Shows `duration` in whole seconds, the coarser the longer: 119s, 9m59s, 7h59m, 7d23h, 729d, 7y364d.

    Clocks differ a little: a second in the future is now, more is `<invalid>`.
    """
    seconds = int(duration.total_seconds())  # towards zero, as upstream
    if seconds < -1:
        return "<invalid>"
    if seconds < 2 * _MINUTE:
        return f"{max(seconds, 0)}s"
    if seconds < 3 * _HOUR:
        return _parts(seconds, _MINUTE, "m", "s", 1, until=10 * _MINUTE)
    if seconds < 2 * _DAY:
        return _parts(seconds, _HOUR, "h", "m", _MINUTE, until=8 * _HOUR)
    if seconds < 2 * _YEAR:
        return _parts(seconds, _DAY, "d", "h", _HOUR, until=8 * _DAY)
    return _parts(seconds, _YEAR, "y", "d", _DAY, until=8 * _YEAR)


def _parts(seconds: int, unit: int, name: str, finer: str, fine: int, *, until: int) -> str:
    """Whole units have `unit` seconds; below `until` the rest follows in units of `fine` seconds, if not
    zero."""
    whole, rest = divmod(seconds, unit)
    rest //= fine
    return f"{whole}{name}{rest}{finer}" if rest and seconds < until else f"{whole}{name}"


@dataclass(frozen=True, slots=True)
class Subject:
    """An object is read along paths that may end early: a missing value is the zero value of its type."""

    obj: Object
    now: datetime
    shows_architecture: bool = False  # of a node, behind its kernel's version
    unknown_init_panics: bool = False  # a status of an init container that the pod does not have

    def at(self, *path: str) -> Any:
        """None means that there is no value."""
        return at(self.obj, *path)

    def text(self, *path: str, default: str = "") -> str:
        return str(self.at(*path) or default)

    def number(self, *path: str) -> int:
        return int(self.at(*path) or 0)

    def items(self, *path: str) -> list[Any]:
        return self.at(*path) or []

    def count(self, *path: str) -> int:
        return len(self.at(*path) or ())

    def since(self, *path: str, default: str = UNKNOWN) -> str:
        return ago(self.at(*path), self.now, default)

    def condition(self, kind: str) -> Object | None:
        return find_condition(self.obj, kind)

    def is_true(self, kind: str) -> bool:
        return is_condition_true(self.obj, kind)

    @property
    def deleted(self) -> bool:
        return self.at("metadata", "deletionTimestamp") is not None


CellsOf = Callable[[Subject], Cells]


def at(value: Any, *path: str) -> Any:
    """None means that the path of keys ends early."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def ago(time: str | None, now: datetime, default: str = UNKNOWN) -> str:
    """`time` is RFC 3339."""
    return human_duration(now - parse_timestamp(time)) if time else default


def labels(pairs: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((pairs or {}).items())) or NONE


def selector(value: Object | None) -> str:
    """A LabelSelector is shown as the text of a selector, a wrong one as `<error>`."""
    try:
        return str(LabelSelector.from_object(value)) or NONE
    except SelectorError:
        return "<error>"


def quantity(value: Any) -> str:
    """None is zero; the text is canonical."""
    try:
        return Quantity.of(value).canonical()
    except QuantityError:
        return str(value)


def shortened(items: Sequence[str], total: int | None = None) -> str:
    total = len(items) if total is None else total
    shown = ",".join(items[:MOST])
    return f"{shown} + {total - MOST} more..." if total > MOST else shown


def joined(items: Sequence[Any] | None, default: str = "", separator: str = ",") -> str:
    return separator.join(map(str, items or ())) or default


def boolean(value: bool | None) -> str:
    return UNSET if value is None else str(value)


def containers(template: Object | None) -> Cells:
    found = at(template, "spec", "containers") or []
    return {
        "Containers": ",".join(container.get("name", "") for container in found),
        "Images": ",".join(container.get("image", "") for container in found),
    }


def kind_name(kind: str, group: str) -> str:
    return f"{kind}.{group}" if group else kind


def load_balancers(subject: Subject) -> list[str]:
    found = subject.items("status", "loadBalancer", "ingress")
    return sorted({entry.get("ip") or entry.get("hostname") or "" for entry in found} - {""})


def volume_cells(subject: Subject) -> Cells:
    annotations = subject.at("metadata", "annotations")
    return {
        "Status": "Terminating" if subject.deleted else subject.text("status", "phase"),
        "StorageClass": str(_first(at(annotations, _CLASS), subject.at("spec", "storageClassName"), "")),
        "VolumeAttributesClass": subject.text("spec", "volumeAttributesClassName", default=UNSET),
        "VolumeMode": subject.text("spec", "volumeMode", default=UNSET),
    }


def _first(*values: Any) -> Any:
    return next(value for value in values if value is not None)


def access_modes(modes: list[str]) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in modes)


def template_cells(subject: Subject) -> Cells:
    return {
        **containers(subject.at("spec", "template")),
        "Selector": selector(subject.at("spec", "selector")),
    }


def ready_replicas(subject: Subject) -> str:
    return f"{subject.number('status', 'readyReplicas')}/{subject.number('spec', 'replicas')}"
