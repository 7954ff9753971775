"""Checks the values in the body of an operation, as far as the file gives them."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from kubeskew.apimachinery.suggestions import did_you_mean
from kubeskew.conformance.bindings import expression
from kubeskew.conformance.durations import seconds
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.grammar import (
    CONDITION_KEYS,
    ENVIRONMENT_KEYS,
    REFERENCE_KEYS,
    SCALE_UP_KEYS,
    WAIT_KEYS,
    check_keys,
)

_OBJECT_OPERATIONS = frozenset({"apply", "create", "patch", "assert", "error"})
_WRITES = frozenset({"apply", "create", "patch"})
_MATCHING = frozenset({"podLogs", "exec"})
_COUNTING = frozenset({"assert", "error", "undisturbed"})
_ALTERNATIVES = {"simulate": ("scaleUp", "scaleDown"), "audit": ("for", "to")}


def check_values(kind: str, body: Mapping[str, Any], where: str) -> None:
    """Raises ScenarioError with the place of a value that cannot be meant; expressions are for the run."""
    for key in ("timeout", "duration"):
        if key in body and expression(body[key]) is None:
            seconds(body[key], f"{where}.{key}")
    if kind in _OBJECT_OPERATIONS:
        _check_object(kind, body, where)
    elif kind == "delete":
        _check_reference(body["ref"], f"{where}.ref")
    elif kind == "wait":
        _check_wait(body["for"], f"{where}.for")
    elif kind in _MATCHING:
        for key in ("matches", "lacks"):
            _check_pattern(body.get(key), f"{where}.{key}")
    elif kind in _ALTERNATIVES:
        _check_question(body, _ALTERNATIVES[kind], where)
    elif kind == "script":
        for index, entry in enumerate(body.get("env") or []):
            check_keys(entry, ENVIRONMENT_KEYS, f"{where}.env[{index}]")
    count = body.get("count") if kind in _COUNTING else None
    if (
        count is not None
        and expression(count) is None
        and (not isinstance(count, int) or isinstance(count, bool))
    ):
        raise ScenarioError(f"{where}.count: expected a number, found {count!r}")


def _check_question(body: Mapping[str, Any], keys: tuple[str, str], where: str) -> None:
    one, other = keys
    if (one in body) == (other in body):
        raise ScenarioError(f"{where}: expected either `{one}` or `{other}`")
    if "scaleUp" in body:
        check_keys(body["scaleUp"], SCALE_UP_KEYS, f"{where}.scaleUp")


def _check_object(kind: str, body: Mapping[str, Any], where: str) -> None:
    if kind in _WRITES and ("resource" in body) == ("file" in body):
        raise ScenarioError(f"{where}: expected either `resource` or `file`")
    if isinstance(body.get("file"), str) and expression(body["file"]) is None:
        path = Path(where.partition(":")[0]).parent / body["file"]
        if not path.is_file():
            raise ScenarioError(f"{where}.file: there is no file {path}")
    if "resource" in body and expression(body["resource"]) is None:
        resource = body["resource"]
        if not isinstance(resource, Mapping) or not resource.get("apiVersion") or not resource.get("kind"):
            raise ScenarioError(f"{where}.resource: expected an object with `apiVersion` and `kind`")
        if not body.get("expect"):  # else it may be meant to be refused
            _check_kind(resource["apiVersion"], resource["kind"], f"{where}.resource")


@cache
def _kinds() -> Mapping[str, Mapping[str, frozenset[str]]]:
    """Returns the kinds of all releases by group and version; other groups are custom ones."""
    from kubeskew.apimachinery.catalogue import data

    kinds: dict[str, dict[str, frozenset[str]]] = {}
    for row in data.load()["resources"]:
        versions = kinds.setdefault(row["g"], {})
        versions[row["v"]] = versions.get(row["v"], frozenset()) | {row["k"]}
    return kinds


def _check_kind(api_version: Any, kind: Any, where: str) -> None:
    """Raises ScenarioError for a kind that no release has in one of Kubernetes' own groups."""
    if not isinstance(api_version, str) or not isinstance(kind, str):
        raise ScenarioError(f"{where}: expected texts as `apiVersion` and `kind`")
    if expression(api_version) is not None or expression(kind) is not None:
        return
    group, _, version = api_version.rpartition("/")
    versions = _kinds().get(group)
    if versions is None:
        return
    if version not in versions:
        known = ", ".join(f"{group}/{name}".lstrip("/") for name in sorted(versions))
        raise ScenarioError(f"{where}.apiVersion: no release serves {api_version}; known are {known}")
    if kind not in versions[version]:
        hint = did_you_mean(kind, sorted(versions[version]))
        raise ScenarioError(f"{where}.kind: no release has a {kind} in {api_version}{hint}")


def _check_reference(ref: Any, where: str) -> None:
    check_keys(ref, REFERENCE_KEYS, where)
    if not ref.get("apiVersion") or not ref.get("kind"):
        raise ScenarioError(f"{where}: expected `apiVersion` and `kind`")


def _check_wait(condition: Any, where: str) -> None:
    check_keys(condition, WAIT_KEYS, where)
    if len(condition) != 1:
        raise ScenarioError(f"{where}: expected `condition` or `deletion`")
    if "condition" in condition and not check_keys(
        condition["condition"], CONDITION_KEYS, f"{where}.condition"
    ).get("name"):
        raise ScenarioError(f"{where}.condition: expected `name`")


def _check_pattern(pattern: Any, where: str) -> None:
    if pattern is None or expression(pattern):
        return
    try:
        re.compile(str(pattern))
    except re.error as error:
        raise ScenarioError(f"{where}: {pattern!r} is not a regular expression: {error}") from error
