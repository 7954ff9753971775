"""Checks the values in the body of an operation, as far as the file gives them."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from kubeskew.apimachinery.suggestions import did_you_mean
from kubeskew.conformance.chainsaw.expressions import expression, parse_key
from kubeskew.conformance.chainsaw.files import named_files
from kubeskew.conformance.chainsaw.json_paths import json_path
from kubeskew.conformance.durations import seconds
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.grammar import (
    CONDITION_KEYS,
    ENVIRONMENT_KEYS,
    FORMATS,
    JSON_PATH_KEYS,
    PROPAGATION,
    REFERENCE_KEYS,
    SCALE_UP_KEYS,
    WAIT_KEYS,
    check_keys,
)

_WRITES = frozenset({"apply", "create", "update", "patch"})
_ASSERTIONS = frozenset({"assert", "error"})
_PROGRAMS = frozenset({"script", "command"})
_MATCHING = frozenset({"podLogs", "exec"})
_COUNTING = frozenset({"assert", "error", "undisturbed"})
_ALTERNATIVES = {"simulate": ("scaleUp", "scaleDown"), "audit": ("for", "to")}


def check_values(kind: str, body: Mapping[str, Any], where: str) -> None:
    """Raises ScenarioError with the place of a value that cannot be meant; expressions are for the run."""
    for key in ("timeout", "duration"):
        if key in body and expression(body[key]) is None:
            seconds(body[key], f"{where}.{key}")
    _check_choices(body, where)
    if kind in _WRITES | _ASSERTIONS:
        _check_object(kind, body, where)
    elif kind == "delete":
        _check_deletion(body, where)
    elif kind == "wait":
        _check_wait(body["for"], f"{where}.for")
    elif kind in _MATCHING:
        for key in ("matches", "lacks"):
            _check_pattern(body.get(key), f"{where}.{key}")
    elif kind in _ALTERNATIVES:
        _check_question(body, _ALTERNATIVES[kind], where)
    elif kind in _PROGRAMS:
        for index, entry in enumerate(body.get("env") or []):
            check_keys(entry, ENVIRONMENT_KEYS, f"{where}.env[{index}]")
    if kind in _COUNTING:
        _check_count(body.get("count"), f"{where}.count")


def _check_count(count: Any, where: str) -> None:
    if count is None or expression(count) is not None:
        return
    if not isinstance(count, int) or isinstance(count, bool):
        raise ScenarioError(f"{where}: expected a number, found {count!r}")


def _check_question(body: Mapping[str, Any], keys: tuple[str, str], where: str) -> None:
    one, other = keys
    if (one in body) == (other in body):
        raise ScenarioError(f"{where}: expected either `{one}` or `{other}`")
    if "scaleUp" in body:
        check_keys(body["scaleUp"], SCALE_UP_KEYS, f"{where}.scaleUp")


def _check_choices(body: Mapping[str, Any], where: str) -> None:
    for key, known in (("format", FORMATS), ("deletionPropagationPolicy", PROPAGATION)):
        value = body.get(key)
        if value is not None and expression(value) is None and value not in known:
            raise ScenarioError(f"{where}.{key}: expected {' or '.join(known)}, found {value!r}")


def _check_either(body: Mapping[str, Any], key: str, where: str) -> None:
    """Raises ScenarioError unless the body has the key or `file`, and for a file that is not there."""
    if (key in body) == ("file" in body):
        raise ScenarioError(f"{where}: expected either `{key}` or `file`")
    if isinstance(body.get("file"), str) and expression(body["file"]) is None:
        named_files(where, body["file"])


def _check_object(kind: str, body: Mapping[str, Any], where: str) -> None:
    _check_either(body, "resource", where)
    if "resource" not in body or expression(body["resource"]) is not None:
        return
    resource = body["resource"]
    if kind in _ASSERTIONS and is_of_bindings(resource):
        return
    if not isinstance(resource, Mapping) or not resource.get("apiVersion") or not resource.get("kind"):
        raise ScenarioError(f"{where}.resource: expected an object with `apiVersion` and `kind`")
    if not body.get("expect"):  # else it may be meant to be refused
        _check_kind(resource["apiVersion"], resource["kind"], f"{where}.resource")


def is_of_bindings(resource: Any) -> bool:
    """Returns whether an assertion is of no object, but of what expressions give: `($found.size): 2`."""
    return (
        isinstance(resource, Mapping)
        and bool(resource)
        and not resource.keys() & {"apiVersion", "kind"}
        and all(isinstance(key, str) and parse_key(key).is_expression for key in resource)
    )


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


def _check_deletion(body: Mapping[str, Any], where: str) -> None:
    _check_either(body, "ref", where)
    if "ref" in body:
        _check_reference(body["ref"], f"{where}.ref")


def _check_reference(ref: Any, where: str) -> None:
    check_keys(ref, REFERENCE_KEYS, where)
    if not ref.get("apiVersion") or not ref.get("kind"):
        raise ScenarioError(f"{where}: expected `apiVersion` and `kind`")


def _check_wait(condition: Any, where: str) -> None:
    check_keys(condition, WAIT_KEYS, where)
    if len(condition) != 1:
        raise ScenarioError(f"{where}: expected {' or '.join(f'`{key}`' for key in WAIT_KEYS)}")
    if "jsonPath" in condition:
        path = check_keys(condition["jsonPath"], JSON_PATH_KEYS, f"{where}.jsonPath").get("path")
        if not isinstance(path, str) or (expression(path) is None and json_path(path) is None):
            raise ScenarioError(
                f"{where}.jsonPath.path: expected a path of names, such as {{.status.phase}}, "
                f"found {path!r}: write an `assert` for what is more"
            )
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
