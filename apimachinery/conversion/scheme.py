"""Converts objects between the versions of a kind.

Versions of the same shape differ in `apiVersion` only. The others go through the newest version's shape, as
upstream's go through the internal type.
"""

import copy
from collections.abc import Callable, Mapping
from types import MappingProxyType

from kubeskew.apimachinery.conversion import autoscaling, dynamic_resources, renamed_fields
from kubeskew.apimachinery.golang.roundtrip import normalise
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import GroupVersionKind, ResourceTable

Change = Callable[[Object], None]  # rewrites an object in place
Shape = tuple[str, str, str]  # group, version, kind

# How to bring an object of a group, version and kind to the common shape of its kind, and back.
Converters = Mapping[Shape, tuple[Change, Change]]
CONVERTERS: Converters = MappingProxyType(
    {
        **autoscaling.CONVERTERS,
        **dynamic_resources.CONVERTERS,
        **renamed_fields.EVENT_CONVERTERS,
        **renamed_fields.FLOW_CONTROL_CONVERTERS,
    }
)


def converters(*, zero_metric_values: bool) -> Converters:
    """With `zero_metric_values` autoscalers have a value 0 where autoscaling/v1 has one because it must."""
    return {**CONVERTERS, **autoscaling.CONVERTERS_WITH_ZEROS} if zero_metric_values else CONVERTERS


def gvk_of(obj: Object) -> GroupVersionKind:
    """Parts of apiVersion and kind that are missing are empty."""
    group, _, version = (obj.get("apiVersion") or "").rpartition("/")
    return GroupVersionKind(group, version, obj.get("kind") or "")


def convert(
    obj: Object,
    to: GroupVersionKind,
    catalogue: ResourceTable | None = None,
    by: Converters = CONVERTERS,
) -> Object:
    """A new object, or `obj` itself if it is in version `to` already.

    With a catalogue the result is normalised along the schema of `to`: fields that version does not have are
    lost, as upstream. The group may change too (events).
    """
    source = gvk_of(obj)
    if source == to:
        return obj
    widen, narrow = by.get(source, _SAME)[0], by.get(to, _SAME)[1]
    changed = widen is not _nothing or narrow is not _nothing
    result = copy.deepcopy(obj) if changed else dict(obj)
    widen(result)
    narrow(result)
    result["apiVersion"], result["kind"] = to.api_version, to.kind
    resource = catalogue.by_kind(*to) if catalogue is not None else None
    if resource is None or resource.custom:
        return result
    written: Object = normalise(result, resource.schema)
    return written


def _nothing(_: Object) -> None:
    """Does nothing: both versions have the common shape."""


_SAME: tuple[Change, Change] = (_nothing, _nothing)
