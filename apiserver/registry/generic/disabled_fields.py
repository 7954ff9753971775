"""Drops the fields whose feature gates are off, as upstream's strategies do: per gate, not per field.

If the old object uses a gate in any of its fields, all fields of that gate stay. Which fields a gate has
comes from the schema; what upstream leaves alone stands in `_NEVER_DROPPED`.

Source: pkg/registry/*/strategy.go.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.schema import Kind, Schema
from kubeskew.apiserver.features import Features

Gates = tuple[str, ...]
Steps = tuple[str, ...]  # field names; "*" stands for every item of a list or map
Branches = dict[str, "Branches"]  # many Steps as a tree; "" marks where one of them ends

# Gates that upstream treats as one feature: all of them must be on
# (pkg/registry/resource/resourceslice/strategy.go).
_BOTH_NEEDED = {
    "DRADeviceBindingConditions": ("DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus"),
}
Field = tuple[str, str]  # type, field
# Gated fields that upstream's strategies nevertheless take: what reads them looks at the gate
# (pkg/registry/resource/resourceclaim/strategy.go), or drops what holds the field
# (pkg/api/persistentvolumeclaim/util.go).
_NEVER_DROPPED: frozenset[Field] = frozenset(
    {("DeviceRequestAllocationResult", "tolerations"), ("TypedObjectReference", "namespace")}
)
_TOLERATIONS: frozenset[Field] = frozenset(
    {
        ("ExactDeviceRequest", "tolerations"),
        ("DeviceRequest", "tolerations"),
        ("DeviceSubRequest", "tolerations"),
    }
)
_DISTINCT: frozenset[Field] = frozenset({("DeviceConstraint", "distinctAttribute")})
# By gate: how many of the objects around a dropped field are dropped as well, if nothing else is in them.
_HOLLOW = {"PodLifecycleSleepAction": 2, "ContainerStopSignals": 1}
# By gate: the value that a field gets instead of being dropped; that value itself does not use the gate.
_FORCED = {"ProcMountType": "Default"}
_RULES = "ContainerRestartRules"
_IMAGES = "ImageVolume"
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
_MAX_DEPTH = 40  # recursive types (JSONSchemaProps) have no gated fields deeper down


def drop_disabled(new: Object, old: Object | None, schema: Schema, gates: FeatureGates) -> bool:
    """`new` loses what the gates do not allow and `old` does not use already; True if a field went."""
    if not _may_have(new, _branches(schema, gates)):
        return False
    dropped = False
    for needed, paths in _off(schema, gates).items():
        if not any(_is_there(new, path, _older(needed, path)) for path in paths):
            continue
        forced = _FORCED.get(needed[0])
        if old is not None and any(_has(old, path, forced or _older(needed, path)) for path in paths):
            continue
        for path in paths:
            if (kept := _older(needed, path)) is not None:
                _remove_others(new, path, kept)
            elif forced is not None:
                _force(new, path, forced)
            elif needed == (_IMAGES,):
                _remove_volumes(new, path)
            else:
                _remove(new, path, _HOLLOW.get(needed[0], 0))
                dropped = True
    return dropped


@lru_cache(maxsize=4096)
def _off(schema: Schema, gates: FeatureGates) -> Mapping[Gates, tuple[Steps, ...]]:
    """Returns the groups of gates of which one is off, with the places of their fields."""
    devices = Features.of(gates).devices
    kept = [_NEVER_DROPPED]
    kept += [_TOLERATIONS] if devices.keeps_tolerations else []
    kept += [_DISTINCT] if devices.keeps_distinct_attribute else []
    found = gated(schema, frozenset[Field]().union(*kept))
    return {needed: paths for needed, paths in found.items() if any(gates.is_off(gate) for gate in needed)}


@lru_cache(maxsize=4096)
def _branches(schema: Schema, gates: FeatureGates) -> Branches:
    root: Branches = {}
    for paths in _off(schema, gates).values():
        for path in paths:
            here: Branches = root
            for step in path:
                here = here.setdefault(step, {})
            here[""] = {}
    return root


def _may_have(value: Any, branches: Branches) -> bool:
    if "" in branches:
        return True
    if isinstance(value, dict):
        for step, below in branches.items():
            if step == "*":
                if any(_may_have(item, below) for item in value.values()):
                    return True
            elif (item := value.get(step)) is not None and _may_have(item, below):
                return True
        return False
    if isinstance(value, list):
        items = branches.get("*")
        return items is not None and any(_may_have(item, items) for item in value)
    return False


@lru_cache(maxsize=1024)
def gated(schema: Schema, but: frozenset[Field]) -> Mapping[Gates, tuple[Steps, ...]]:
    """Paths of fields anywhere below `schema`, without `but`, stand under their set of gates."""
    found: dict[Gates, list[Steps]] = {}
    for gates, path in _find(schema, (), frozenset(), but):
        needed = tuple(dict.fromkeys(one for gate in gates for one in _BOTH_NEEDED.get(gate, (gate,))))
        found.setdefault(needed, []).append(path)
    return {needed: tuple(paths) for needed, paths in found.items()}


def _find(
    schema: Schema | None, path: Steps, above: frozenset[int], but: frozenset[Field]
) -> Iterator[tuple[Gates, Steps]]:
    if schema is None or id(schema) in above or len(path) > _MAX_DEPTH:
        return
    above |= {id(schema)}
    if schema.kind in {Kind.LIST, Kind.MAP}:
        yield from _find(schema.items, (*path, "*"), above, but)
        return
    for name, field in schema.fields.items():
        at = (*path, name)
        if field.gates and (schema.name.rpartition(".")[2], name) not in but:
            yield tuple(field.gates), at
            if field.gates == (_RULES,):
                yield (_RULES,), (*path, "restartPolicy")
        yield from _find(field.schema, at, above, but)


def _ends(value: Any, path: Steps) -> Iterator[Object]:
    if len(path) == 1:
        if isinstance(value, dict):
            yield value
        return
    step, rest = path[0], path[1:]
    if step == "*":
        items = value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
        for item in items:
            yield from _ends(item, rest)
    elif isinstance(value, dict) and value.get(step) is not None:
        yield from _ends(value[step], rest)


def _has(obj: Object, path: Steps, but: str | None = None) -> bool:
    """`but` is a value that does not count."""
    found = (holder.get(path[-1]) for holder in _ends(obj, path))
    return any(_is_set(value) and (but is None or value != but) for value in found)


def _is_there(obj: Object, path: Steps, but: str | None = None) -> bool:
    """An empty field counts too; `but` is a value that does not."""
    found = (holder.get(path[-1]) for holder in _ends(obj, path))
    return any(value is not None and (but is None or value != but) for value in found)


def _older(needed: Gates, path: Steps) -> str | None:
    """Sidecars had this value of a gated field before the gate."""
    is_sidecars = needed == (_RULES,) and path[-3:] == ("initContainers", "*", "restartPolicy")
    return "Always" if is_sidecars else None


def _remove_others(obj: Object, path: Steps, kept: str) -> None:
    for holder in _ends(obj, path):
        if holder.get(path[-1]) != kept:
            holder.pop(path[-1], None)


def _force(obj: Object, path: Steps, value: str) -> None:
    for holder in _ends(obj, path):
        if holder.get(path[-1]) is not None:
            holder[path[-1]] = value


def _is_set(value: Any) -> bool:
    """A pointer to an empty value counts as use, an empty list or map does not."""
    return value is not None and value != [] and value != {}


def _remove(value: Any, path: Steps, hollow: int) -> int:
    """Removes a field, and up to `hollow` of the objects around it that are empty then.

    Returns how many are left to go of those around an empty `value`.
    """
    step, rest = path[0], path[1:]
    if step == "*":
        for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            _remove(item, rest, hollow)
        return 0
    if not isinstance(value, dict) or value.get(step) is None:
        return 0
    if rest:
        left = _remove(value[step], rest, hollow)
        if not left or value[step]:
            return 0
        hollow = left - 1
    del value[step]
    return 0 if value else hollow


def _remove_volumes(obj: Object, path: Steps) -> None:
    """Whole volumes that have the field go, and their mounts. `path` ends in `volumes`, `*`, field."""
    for spec in _ends(obj, path[:-2]):
        volumes = spec.get("volumes") or []
        gone = {one.get("name") for one in volumes if one.get(path[-1]) is not None}
        _keep(spec, "volumes", [one for one in volumes if one.get("name") not in gone])
        for container in (one for field in _CONTAINERS for one in spec.get(field) or ()):
            mounts = container.get("volumeMounts") or ()
            _keep(container, "volumeMounts", [one for one in mounts if one.get("name") not in gone])


def _keep(holder: Object, field: str, items: list[Object]) -> None:
    if items:
        holder[field] = items
    else:
        holder.pop(field, None)
