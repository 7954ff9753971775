"""Checks that a line of `kubeskew allocate --jsonl` has the shape of a case: types, and required fields."""

from collections.abc import Callable, Iterator
from typing import Any

from kubeskew.apimachinery.gates import all_gates, known_gate
from kubeskew.apimachinery.known_bugs import check_bugs
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.suggestions import did_you_mean
from kubeskew.cluster.failures import UserError
from kubeskew.cluster.manifest_files import field_of, typed

_KINDS = {"slices": "ResourceSlice", "classes": "DeviceClass", "claims": "ResourceClaim"}
_DEVICES = ("allocatedDevices", "allocatedShares", "consumedCapacity")


def check_case(case: Any) -> None:
    """Raises UserError that says where a case is none."""
    if not isinstance(case, dict):
        raise UserError("expected an object")
    _check_choice(case)
    field_of(case, "node")
    _at("node", _check_object, case["node"], "v1", "Node")
    for name, kind in _KINDS.items():
        for place, item in _items(case, name):
            _at(place, _check_object, item, "resource.k8s.io/v1", kind)
    for name in _DEVICES:
        for place, item in _items(case, name):
            _at(place, _check_device, item)


def _check_choice(case: Object) -> None:
    if not isinstance(case.get("version") or "", str):
        raise UserError('version: expected a text such as "1.36"')
    gates = case.get("featureGates") or {}
    if not isinstance(gates, dict) or not all(isinstance(value, bool) for value in gates.values()):
        raise UserError("featureGates: expected an object of true and false")
    for name in gates:
        if not known_gate(name):
            hint = did_you_mean(name, all_gates())
            raise UserError(f"featureGates: unrecognized feature gate: {name}{hint}")
    bugs = case.get("bugs") or {}
    if not isinstance(bugs, dict) or not all(isinstance(value, bool) for value in bugs.values()):
        raise UserError("bugs: expected an object of true and false")
    try:
        check_bugs(bugs, "scheduler")
    except ValueError as error:
        raise UserError(f"bugs: {error}") from error


def _items(case: Object, name: str) -> Iterator[tuple[str, Any]]:
    items = case.get(name) or []
    if not isinstance(items, list):
        raise UserError(f"{name}: expected a list")
    return ((f"{name}[{index}]", item) for index, item in enumerate(items))


def _at(place: str, check: Callable[..., None], *arguments: Any) -> None:
    try:
        check(*arguments)
    except UserError as error:
        raise UserError(f"{place}: {error}") from error


def _check_object(obj: Any, api_version: str, kind: str) -> None:
    if not isinstance(obj, dict):
        raise UserError("expected an object")
    typed({**obj, "apiVersion": api_version, "kind": kind})
    field_of(obj, "metadata", "name")
    spec = obj.get("spec") or {}
    if kind == "ResourceSlice":
        field_of(obj, "spec", "driver")
        field_of(obj, "spec", "pool", "name")
        for device in spec.get("devices") or ():
            field_of(device, "name")
    elif kind == "ResourceClaim":
        for request in (field_of(obj, "spec").get("devices") or {}).get("requests") or ():
            field_of(request, "name")


def _check_device(device: Any) -> None:
    if not isinstance(device, dict):
        raise UserError("expected an object")
    for name in ("driver", "pool", "device"):
        if not isinstance(field_of(device, name), str):
            raise UserError(f"{name}: expected a text")
    if not isinstance(device.get("consumedCapacity") or {}, dict):
        raise UserError("consumedCapacity: expected an object")
