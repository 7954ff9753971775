"""Makes the fields of groups of features: values that follow from a server's version and gates."""

from collections.abc import Callable, Mapping
from dataclasses import field, fields
from typing import Any, TypeVar

from kubeskew.apimachinery.gates import FeatureGates

T = TypeVar("T")

_DECISION = "decision"


def decided(decision: Callable[[FeatureGates], Any]) -> Any:
    """Makes a field whose value `decision` gives."""
    return field(metadata={_DECISION: decision})


def since(minor: int, *, gate: str = "") -> Any:
    """Makes a field that is true from a minor on, and before it where `gate` is on."""
    return decided(lambda gates: gates.version.minor >= minor or (bool(gate) and gates.enabled(gate)))


def until(minor: int, *, gate: str = "") -> Any:
    """Makes a field that is true up to and with a minor, and after it where `gate` is on."""
    return decided(lambda gates: gates.version.minor <= minor or (bool(gate) and gates.enabled(gate)))


def unless_off(name: str, *, minor: int = 0) -> Any:
    """Makes a field that is true from a minor on unless the gate is off.

    Once a release no longer has the gate's name, the feature stays.
    """
    return decided(
        lambda gates: gates.version.minor >= minor and (not gates.knows(name) or gates.enabled(name))
    )


def gate(*names: str, last: int = 99) -> Any:
    """Makes a field that is true where all of the gates are on, up to and with the minor `last`."""
    return decided(lambda gates: gates.version.minor <= last and all(gates.enabled(name) for name in names))


def known_bug(id_: str) -> Any:
    """Makes a field that is true where the server has that known bug."""
    return decided(lambda gates: gates.bugs.present(id_))


def repaired(id_: str) -> Any:
    """Makes a field that is true where the server is without that known bug; previews have the bug."""
    return decided(lambda gates: gates.bugs.mended(id_))


def preview(name: str) -> Any:
    """Makes a field that is true in the preview release of that design, which is of a minor of its own."""
    return decided(lambda gates: gates.version.preview == name)


def of_minor(values: Mapping[int, T]) -> Any:
    """Makes a field with the value of the newest minor in the table that is not newer than the server's."""
    return decided(lambda gates: values[max(first for first in values if first <= gates.version.minor)])


def build(cls: type[T], gates: FeatureGates) -> T:
    group: Any = cls  # a dataclass, which no type variable can be bound to
    made: T = group(**{decision.name: decision.metadata[_DECISION](gates) for decision in fields(group)})
    return made
