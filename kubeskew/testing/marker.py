"""The marker `kubeskew` of a test, which describes the clusters that the test is run on."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from kubeskew.apimachinery.gates import all_gates, known_gate, parse_overrides
from kubeskew.apimachinery.known_names import did_you_mean
from kubeskew.apimachinery.versions import MINORS, Version
from kubeskew.cluster import config
from kubeskew.cluster.failures import UserError

NAME = "kubeskew"
_KEYS = ("versions", "gates", "nodes", "config")
_RANGE = re.compile(r"(?P<first>[^.]+\.[^.]+)\.\.(?P<last>[^.]+\.[^.]+)")


class Mark(Protocol):
    @property
    def args(self) -> tuple[Any, ...]: ...

    @property
    def kwargs(self) -> Mapping[str, Any]: ...


def arguments(marks: Iterable[Mark]) -> dict[str, Any]:
    """Closer markers take precedence. Raises UserError for a wrong argument."""
    merged: dict[str, Any] = {}
    for mark in marks:
        if mark.args:
            raise UserError(f"the marker {NAME} takes arguments by name alone: {', '.join(_KEYS)}")
        for key, value in mark.kwargs.items():
            if key not in _KEYS:
                hint = did_you_mean(key, _KEYS)
                raise UserError(
                    f"the marker {NAME} takes no argument {key!r}; known are {', '.join(_KEYS)}{hint}"
                )
            merged.setdefault(key, value)
    _check(merged)
    return merged


def _check(given: Mapping[str, Any]) -> None:
    """Raises UserError for impossible values, independent of the project's other settings."""
    unknown = [name for name in _gates(given.get("gates", {})) if not known_gate(name)]
    if unknown:
        hint = did_you_mean(unknown[0], all_gates())
        raise UserError(f"the marker {NAME}: gates: no release has a feature gate {unknown[0]}{hint}")
    for version in versions(given) or [""]:
        known = given if version else {key: value for key, value in given.items() if key != "gates"}
        described(known, {}, version)


def versions(given: Mapping[str, Any]) -> Sequence[str]:
    """The value is a range as in `1.34..1.37`, a version, or a list. Raises UserError."""
    if "versions" not in given:
        return []
    value = given["versions"]
    if isinstance(value, str):
        found = _RANGE.fullmatch(value)
        if found is None:
            return [str(_parsed(value))]
        first, last = _parsed(found["first"]), _parsed(found["last"])
        between = [str(version) for version in MINORS if first <= version <= last]
        if not between:
            raise UserError(f"the marker {NAME}: versions={value!r}: {first} is newer than {last}")
        return between
    if isinstance(value, list | tuple) and value and all(isinstance(each, str) for each in value):
        return [str(_parsed(each)) for each in value]
    raise UserError(f'the marker {NAME}: versions: expected "1.34..1.37" or a list of texts, found {value!r}')


def _parsed(text: str) -> Version:
    try:
        return Version.parse(text)
    except ValueError as error:
        raise UserError(f"the marker {NAME}: versions: {error}") from error


def described(given: Mapping[str, Any], settings: Mapping[str, Any], version: str = "") -> dict[str, Any]:
    """The arguments of a marker become a cluster file's value; `settings` are those of all tests. Raises
    UserError if the cluster is impossible.
    """
    own = given.get("config", {})
    if not isinstance(own, Mapping):
        raise UserError(f"the marker {NAME}: config: expected the keys of a cluster file, found {own!r}")
    cluster = {**settings, **own}
    if "nodes" in given:
        cluster["nodes"] = _nodes(given["nodes"])
    if "gates" in given:
        cluster["featureGates"] = {**(cluster.get("featureGates") or {}), **_gates(given["gates"])}
    if version:
        cluster["version"] = version
    config.parse(cluster, f"the marker {NAME}" + (f": {version}" if version else ""))
    return cluster


def _nodes(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return [node.as_json() for node in config.numbered_nodes(value)]
    if isinstance(value, list | tuple):
        return [*value]
    raise UserError(
        f"the marker {NAME}: nodes: expected a number, or a list as in a cluster file, found {value!r}"
    )


def _gates(value: Any) -> Mapping[str, bool]:
    if isinstance(value, str):
        try:
            return parse_overrides(value)
        except ValueError as error:
            raise UserError(f"the marker {NAME}: gates: {error}") from error
    if isinstance(value, Mapping) and all(isinstance(each, bool) for each in value.values()):
        return {**value}
    raise UserError(f'the marker {NAME}: gates: expected {{"NAME": True}} or "NAME=true", found {value!r}')
