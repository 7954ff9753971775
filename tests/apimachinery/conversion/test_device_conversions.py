"""Random objects of resource.k8s.io survive the way through any other version of their minor."""

import copy
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from randomness import examples

from kubeskew.apimachinery.catalogue import catalogue_for
from kubeskew.apimachinery.conversion import convert
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.golang.roundtrip import normalise
from kubeskew.apimachinery.resources import GroupVersionKind
from kubeskew.apimachinery.schema import Kind, Schema
from kubeskew.apimachinery.versions import Version

GROUP = "resource.k8s.io"
KINDS = ("ResourceClaim", "ResourceClaimTemplate", "ResourceSlice", "DeviceClass", "DeviceTaintRule")
ALL = {"DynamicResourceAllocation": True}
_SCALARS: dict[Kind, tuple[Any, ...]] = {
    Kind.STRING: ("", "a", "b/c"),
    Kind.INTEGER: (0, 1, 2),
    Kind.BOOLEAN: (False, True),
    Kind.QUANTITY: ("0", "1", "2Gi"),
    Kind.ANY: ({}, {"a": 1}),
}


def value(schema: Schema, chance: Random, depth: int = 0) -> Any:
    """A value that a schema allows, with few items in each list."""
    if schema.format in ("date-time", "micro-time"):
        return "2026-01-01T00:00:00Z"
    if schema.kind in _SCALARS:
        return copy.deepcopy(chance.choice(_SCALARS[schema.kind]))
    if schema.items is not None:
        found = [value(schema.items, chance, depth + 1) for _ in range(chance.randrange(3))]
        return dict(zip("xy", found, strict=False)) if schema.kind is Kind.MAP else found
    return {
        name: value(field.schema, chance, depth + 1)
        for name, field in schema.fields.items()
        if field.required or (depth < 9 and chance.random() < 0.6)
    }


def versions_of(minor: int, kind: str) -> list[tuple[str, Schema]]:
    version = Version(minor)
    table = catalogue_for(version, FeatureGates(version, ALL))
    found = []
    for name in ("v1alpha3", "v1beta1", "v1beta2", "v1"):
        resource = table.by_kind(GROUP, name, kind)
        if resource is not None:
            found.append((name, resource.schema))
    return found


def pairs() -> list[Any]:
    found = []
    for minor in range(31, 38):
        for kind in KINDS:
            listed = [name for name, _ in versions_of(minor, kind)]
            found += [pytest.param(minor, kind, one, other, id=f"{minor}-{kind}-{one}-{other}")
                      for one in listed for other in listed if one < other]  # fmt: skip
    return found


def essence(obj: Any) -> Any:
    """Without what upstream's conversions lose or add: see the docstrings of the converters."""
    seen = copy.deepcopy(obj)
    spec = seen.get("spec") or {}
    if seen["kind"] == "ResourceSlice":
        _drop(spec, "nodeName", "allNodes")
        for device in spec.get("devices") or []:
            _bare_device(device)
    elif "Claim" in seen["kind"]:
        for request in ((spec.get("spec") or spec).get("devices") or {}).get("requests") or []:
            _bare_request(request)
    return seen


def _drop(holder: Any, *names: str) -> None:
    for name in names:
        if not holder.get(name, True):
            del holder[name]


def _bare_request(request: Any) -> None:
    exact = request.get("exactly", request)
    _drop(exact, "deviceClassName", "allocationMode", "count")
    if request.get("exactly") == {}:
        del request["exactly"]


def _bare_device(device: Any) -> None:
    inner = device.get("basic", device)
    _drop(inner, "attributes", "capacity")
    for amount in (inner.get("capacity") or {}).values():
        if isinstance(amount, dict):
            amount.setdefault("value", "0")
    _drop(device, "basic")


@pytest.mark.parametrize(("minor", "kind", "one", "other"), pairs())
@settings(max_examples=examples(8))
@given(seed=st.integers(0, 1 << 30))
def test_round_trips(minor: int, kind: str, one: str, other: str, seed: int) -> None:
    """From either version to the other and back nothing is lost but what upstream loses."""
    version, chance = Version(minor), Random(seed)
    catalogue = catalogue_for(version, FeatureGates(version, ALL))
    schemas = dict(versions_of(minor, kind))
    for source, target in ((one, other), (other, one)):
        if "alpha" in target and kind == "ResourceSlice":
            continue  # it lacks what came later
        schema = schemas[source]
        fields = {name: schema.fields[name].schema for name in ("spec", "status") if name in schema.fields}
        body = {name: value(field, chance) for name, field in fields.items()}
        whole = {"apiVersion": f"{GROUP}/{source}", "kind": kind, "metadata": {"name": "n"}, **body}
        obj = normalise(whole, schema)
        there = convert(obj, GroupVersionKind(GROUP, target, kind), catalogue)
        back = convert(there, GroupVersionKind(GROUP, source, kind), catalogue)
        assert essence(normalise(back, schema)) == essence(obj)
