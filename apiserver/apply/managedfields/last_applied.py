"""Reads the annotation of client-side apply, so that `kubectl apply --server-side` can take over from it.

Source: k8s.io/apimachinery/pkg/util/managedfields/internal (lastapplied*.go), 1.36.
"""

from typing import Any

import orjson

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.apply.managedfields import comparing, typed
from kubeskew.apiserver.apply.managedfields.atoms import TypedError
from kubeskew.apiserver.apply.managedfields.field_sets import FieldSet
from kubeskew.apiserver.apply.managedfields.updating import Versioned

ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
MAX_ANNOTATIONS = 256 * 1024  # bytes of all keys and values


def owned_fields(live: Versioned) -> FieldSet | None:
    """Returns the last applied fields that the object still has; None without a readable annotation."""
    annotations = (live.value.get("metadata") or {}).get("annotations") or {}
    try:
        applied = orjson.loads(annotations.get(ANNOTATION) or "")
    except orjson.JSONDecodeError:
        return None
    if not isinstance(applied, dict) or applied.get("apiVersion") != live.api_version:
        return None
    try:
        typed.validate(applied, live.schema)
    except TypedError:
        return None
    fields = typed.to_field_set(applied, live.schema)
    changed = comparing.compare(applied, live.value, live.schema)
    return fields.difference(changed.modified).difference(changed.added).difference(changed.removed)


def synced(obj: Object, config: Object) -> Object:
    """Returns `obj` with the annotation, if it has one, saying what has just been applied."""
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    if not annotations.get(ANNOTATION):
        return obj
    value = orjson.dumps(_without_annotation(config), option=orjson.OPT_SORT_KEYS).decode() + "\n"
    changed: dict[str, Any] = {**annotations, ANNOTATION: value}
    size = sum(len(key.encode()) + len(text.encode()) for key, text in changed.items())
    if size > MAX_ANNOTATIONS:
        del changed[ANNOTATION]
    return {**obj, "metadata": {**obj["metadata"], "annotations": changed}}


def _without_annotation(config: Object) -> Object:
    metadata = config.get("metadata") or {}
    annotations = metadata.get("annotations")
    if not annotations or ANNOTATION not in annotations:
        return config
    left = {key: value for key, value in annotations.items() if key != ANNOTATION}
    return {**config, "metadata": {**metadata, "annotations": left}}
