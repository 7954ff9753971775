"""Encodes objects as bytes, once, and puts a revision into them without parsing.

Stored bytes have no resourceVersion and begin with `{"kind":"K","apiVersion":"V","metadata":{`; metadata is
never empty (it has a name). That is what makes splicing possible.
"""

import copy
from collections.abc import Sequence
from typing import Any

import orjson

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import GroupVersionKind, Resource

_METADATA = b'"metadata":{'
_METADATA_LENGTH = len(_METADATA)


def encode(obj: Object) -> bytes:
    """Returns the object as stored: kind, apiVersion and metadata first, without resourceVersion."""
    return dumps(arranged(obj))


def arranged(obj: Object) -> Object:
    """Returns what is stored of an object, in the order in which it is written."""
    head: Object = {"kind": obj["kind"], "apiVersion": obj["apiVersion"]}
    metadata = obj["metadata"]
    if "resourceVersion" in metadata:
        metadata = {name: value for name, value in metadata.items() if name != "resourceVersion"}
    head["metadata"] = metadata
    return {**head, **{name: value for name, value in obj.items() if name not in head}}


def dumps(value: Any) -> bytes:
    """Returns any value as JSON; keys that are not text become text."""
    try:
        return orjson.dumps(value)
    except TypeError:  # such keys; allowing for them takes twice as long
        return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)


def sorted_bytes(data: bytes) -> bytes:
    """Returns JSON with the keys of its objects in order, as Go writes maps."""
    return orjson.dumps(orjson.loads(data), option=orjson.OPT_SORT_KEYS)


def indented(value: Any) -> bytes:
    """Returns JSON as upstream writes what is no API object, for people (responsewriters.WriteRawJSON)."""
    return orjson.dumps(value, option=orjson.OPT_INDENT_2)


def loads(data: bytes) -> Any:
    return orjson.loads(data)


def copied(value: Any) -> Any:
    """Returns a copy of what can be stored: writing and reading it takes a tenth of `copy.deepcopy`.

    Raw fields keep their bytes.
    """
    try:
        return loads(orjson.dumps(value, option=orjson.OPT_PASSTHROUGH_SUBCLASS))
    except TypeError:  # there are raw fields, or keys that are no texts
        return copy.deepcopy(value)


def prefix(gvk: GroupVersionKind) -> bytes:
    """Returns the bytes with which stored objects of this kind begin."""
    return encode({"kind": gvk.kind, "apiVersion": gvk.api_version, "metadata": {}})[:-2]


def with_revision(value: bytes, revision: int) -> bytes:
    """Returns `value` with its resourceVersion."""
    at = value.index(_METADATA) + _METADATA_LENGTH
    return b'%b"resourceVersion":"%d",%b' % (value[:at], revision, value[at:])


def list_head(resource: Resource, metadata: Object) -> bytes:
    """Returns the bytes with which a list begins, up to its items; `]}` and a new line end it."""
    head = dumps({"kind": resource.list_kind, "apiVersion": resource.api_version, "metadata": metadata})
    return head[:-1] + b',"items":['


def list_items(resource: Resource, items: Sequence[tuple[bytes, int]]) -> bytes:
    """Returns the items of a list as upstream writes them, each behind a comma; `items` are served bytes and
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
    """Returns a line of a watch."""
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), obj)
