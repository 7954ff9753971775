"""Encoding of objects as bytes, once, and splicing of a revision into them without parsing.

Stored bytes have no resourceVersion and begin with `{"kind":"K","apiVersion":"V","metadata":{`; metadata is
never empty (it has a name). This makes splicing possible.
"""

import copy
from collections.abc import Sequence
from typing import Any

import orjson

from kubeskew.apimachinery.golang.roundtrip import WithEmpties
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import GroupVersionKind, Resource

_METADATA = b'"metadata":{'
_METADATA_LENGTH = len(_METADATA)


def encode(obj: Object) -> bytes:
    """Kind, apiVersion and metadata come first; resourceVersion is left out."""
    return dumps(arranged(obj))


def arranged(obj: Object) -> Object:
    head: Object = {"kind": obj["kind"], "apiVersion": obj["apiVersion"]}
    metadata = obj["metadata"]
    if "resourceVersion" in metadata:
        metadata = {name: value for name, value in metadata.items() if name != "resourceVersion"}
    head["metadata"] = metadata
    return {**head, **{name: value for name, value in obj.items() if name not in head}}


def dumps(value: Any) -> bytes:
    """Keys that are not text become text."""
    try:
        return orjson.dumps(value)
    except TypeError:  # such keys; allowing for them takes twice as long
        return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)


def sorted_bytes(data: bytes) -> bytes:
    """Sorts the keys of JSON objects, as Go writes maps."""
    return orjson.dumps(orjson.loads(data), option=orjson.OPT_SORT_KEYS)


def indented(value: Any) -> bytes:
    """Upstream writes documents that are no API objects like this, for people
    (responsewriters.WriteRawJSON).
    """
    return orjson.dumps(value, option=orjson.OPT_INDENT_2)


def loads(data: bytes) -> Any:
    return orjson.loads(data)


def copied(value: Any) -> Any:
    """Copies by writing JSON and reading it, which takes a tenth of `copy.deepcopy`.

    Raw fields keep their bytes. What was in two places is two copies.
    """
    try:
        return loads(orjson.dumps(value, option=orjson.OPT_PASSTHROUGH_SUBCLASS))
    except TypeError:  # there are raw fields, empty lists that Go knows of, or keys that are no texts
        return _copied(value)


def _copied(value: Any) -> Any:
    if value.__class__ is dict or value.__class__ is WithEmpties:
        made = value.copy()
        for name, item in value.items():
            made[name] = _copied(item)
        return made
    return [_copied(item) for item in value] if value.__class__ is list else copy.deepcopy(value)


def prefix(gvk: GroupVersionKind) -> bytes:
    return encode({"kind": gvk.kind, "apiVersion": gvk.api_version, "metadata": {}})[:-2]


def with_revision(value: bytes, revision: int) -> bytes:
    at = value.index(_METADATA) + _METADATA_LENGTH
    return b'%b"resourceVersion":"%d",%b' % (value[:at], revision, value[at:])


def list_head(resource: Resource, metadata: Object) -> bytes:
    """Ends where the items begin; after them come `]}` and a new line."""
    head = dumps({"kind": resource.list_kind, "apiVersion": resource.api_version, "metadata": metadata})
    return head[:-1] + b',"items":['


def list_items(resource: Resource, items: Sequence[tuple[bytes, int]]) -> bytes:
    """Writes the items of a list as upstream does, each after a comma; `items` are served bytes and
    revisions.

        Items of built-in kinds come without kind and apiVersion. Slices are not copied before the join.


    """
    whole = prefix(resource.gvk)
    before = b"," + (whole if resource.custom else b'{"metadata":{').replace(b"%", b"%%")
    template, skipped = before + b'"resourceVersion":"%d",', len(whole)
    parts: list[bytes | memoryview] = []
    for value, revision in items:
        parts += (template % revision, memoryview(value)[skipped:])
    return b"".join(parts)


def event_bytes(kind: str, obj: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), obj)
