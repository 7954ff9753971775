"""Translates owners between an object and its scale subresource.

A Scale has one field that can be owned, `spec.replicas`; `paths` says for each apiVersion of the object where
that lives there (None: nowhere).

Source: k8s.io/apimachinery/pkg/util/managedfields/scalehandler.go, 1.36.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubeskew.apiserver.apply.managedfields import entries, fieldpath
from kubeskew.apiserver.apply.managedfields.entries import Managed, VersionedFieldSet
from kubeskew.apiserver.apply.managedfields.fieldpath import FieldSet, Path

SCALE_VERSION = "autoscaling/v1"

Entries = Sequence[Mapping[str, Any]] | None
ReplicasPaths = Mapping[str, Path | None]

_REPLICAS: Path = (fieldpath.field("spec"), fieldpath.field("replicas"))


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """`selector` leads to a LabelSelector, or to text."""

    spec_replicas: str = "spec.replicas"
    status_replicas: str = "status.replicas"
    selector: str = "spec.selector"


def replicas_path(dotted: str) -> Path:
    return tuple(fieldpath.field(name) for name in dotted.removeprefix(".").split("."))


def to_scale(parent: Entries, paths: ReplicasPaths) -> list[dict[str, Any]]:
    """Managers that own the replicas have an entry; raises EntryError."""
    managed, found = entries.decode(parent), Managed()
    for manager, owned in managed.managers.items():
        path = paths.get(owned.api_version)
        if path is not None and owned.fields.has(path):
            found.managers[manager] = VersionedFieldSet(FieldSet.of(_REPLICAS), SCALE_VERSION, owned.applied)
            if manager in managed.times:
                found.times[manager] = managed.times[manager]
    return entries.encode(found)


def to_parent(
    parent: Entries, scale: Entries, api_version: str, paths: ReplicasPaths
) -> list[dict[str, Any]]:
    """A Scale with the entries `scale` was written through `api_version` of the object; raises EntryError.

    Who scales has the time of an entry that was there before, and else none, as upstream.
    """
    managed, scaled = entries.decode(parent), entries.decode(scale)
    found = Managed(times=dict(managed.times))
    kept = set()
    for manager, owned in managed.managers.items():
        if owned.api_version not in paths:
            continue
        path = paths[owned.api_version]
        if path is None or not owned.fields.has(path):
            found.managers[manager] = owned
        elif manager in scaled.managers:
            found.managers[manager] = owned
            kept.add(manager)
        else:
            fields = owned.fields.difference(FieldSet.of(path))
            if not fields.is_empty():
                found.managers[manager] = owned._replace(fields=fields)
    there = paths.get(api_version)
    for manager, owned in scaled.managers.items():
        if manager not in kept and owned.fields.has(_REPLICAS) and there is not None:
            found.managers[manager] = VersionedFieldSet(FieldSet.of(there), api_version, owned.applied)
    return entries.encode(found)
