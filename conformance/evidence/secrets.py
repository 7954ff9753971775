"""Hides what Secrets contain, as `kubectl diff` does: a history is shown to more people than Secrets are."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from kubeskew.apimachinery.objects import ObjectView

_HIDDEN: Final = "***"
_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"  # which has the data, too


def shown(obj: ObjectView) -> ObjectView:
    """Returns an object without what a Secret contains."""
    return masked(obj, obj)[1] or obj


def masked(
    before: ObjectView | None, after: ObjectView | None
) -> tuple[ObjectView | None, ObjectView | None]:
    """Returns both states of an object; values of a Secret that changed are still seen to differ."""
    if not any(_is_secret(obj) for obj in (before, after)):
        return before, after
    old, new = _contents(before), _contents(after)
    changed = {key for key in old.keys() & new.keys() if old[key] != new[key]}
    return _without(before, changed, "before"), _without(after, changed, "after")


def digested(obj: ObjectView) -> ObjectView:
    """Returns an object whose contents, if it is a Secret, are short digests that tell two runs apart."""
    if not _is_secret(obj):
        return obj
    hidden = {**obj, "data": {key: _digest(value) for key, value in (obj.get("data") or {}).items()}}
    metadata = obj.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    if _APPLIED in annotations:
        applied = {**annotations, _APPLIED: _digest(annotations[_APPLIED])}
        hidden["metadata"] = {**metadata, "annotations": applied}
    return hidden


def _digest(value: Any) -> str:
    return f"{_HIDDEN} {sha256(str(value).encode()).hexdigest()[:6]}"


def _is_secret(obj: ObjectView | None) -> bool:
    return obj is not None and obj.get("kind") == "Secret" and obj.get("apiVersion") == "v1"


def _contents(obj: ObjectView | None) -> Mapping[Any, Any]:
    """Values are named by their place: a key of the data, or the annotation."""
    if obj is None:
        return {}
    found = {("data", key): value for key, value in (obj.get("data") or {}).items()}
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    return {**found, **({"annotation": annotations[_APPLIED]} if _APPLIED in annotations else {})}


def _without(obj: ObjectView | None, changed: set[Any], when: str) -> ObjectView | None:
    if obj is None:
        return None
    hidden = {**obj}
    if obj.get("data"):
        hidden["data"] = {
            key: f"{_HIDDEN} ({when})" if ("data", key) in changed else _HIDDEN for key in obj["data"]
        }
    metadata = obj.get("metadata") or {}
    if _APPLIED in (metadata.get("annotations") or {}):
        text = f"{_HIDDEN} ({when})" if "annotation" in changed else _HIDDEN
        hidden["metadata"] = {**metadata, "annotations": {**metadata["annotations"], _APPLIED: text}}
    return hidden
