"""Objects as bytes: how they are written once, and how a revision gets into them without parsing.

Stored bytes have no resourceVersion and begin with `{"kind":"K","apiVersion":"V","metadata":{`; metadata is
never empty (it has a name). That is what makes splicing possible.
"""

from collections.abc import Iterable
from typing import Any

import orjson

from apimachinery.errors import Object
from apimachinery.resources import GroupVersionKind

_METADATA = b'"metadata":{'
_METADATA_LENGTH = len(_METADATA)


def encode(obj: Object) -> bytes:
    """The object as stored: kind, apiVersion and metadata first, without resourceVersion."""
    head: Object = {"kind": obj["kind"], "apiVersion": obj["apiVersion"]}
    metadata = obj["metadata"]
    if "resourceVersion" in metadata:
        metadata = {name: value for name, value in metadata.items() if name != "resourceVersion"}
    head["metadata"] = metadata
    return dumps({**head, **{name: value for name, value in obj.items() if name not in head}})


def dumps(value: Any) -> bytes:
    """JSON of any value; keys that are not text become text."""
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)


def loads(data: bytes) -> Any:
    return orjson.loads(data)


def prefix(gvk: GroupVersionKind) -> bytes:
    """What the stored bytes of an object of this kind begin with."""
    return encode({"kind": gvk.kind, "apiVersion": gvk.api_version, "metadata": {}})[:-2]


def with_revision(value: bytes, revision: int) -> bytes:
    """`value` with its resourceVersion."""
    at = value.index(_METADATA) + _METADATA_LENGTH
    return b'%b"resourceVersion":"%d",%b' % (value[:at], revision, value[at:])


def as_item(value: bytes, revision: int) -> bytes:
    """`value` as in a list of a built-in kind: with its resourceVersion, without kind and apiVersion."""
    at = value.index(_METADATA) + _METADATA_LENGTH
    return b'{"metadata":{"resourceVersion":"%d",%b' % (revision, value[at:])


def object_of(value: bytes, revision: int) -> Object:
    """The object that stored bytes hold, with its resourceVersion."""
    obj: Object = orjson.loads(value)
    obj["metadata"]["resourceVersion"] = str(revision)
    return obj


def list_bytes(kind: str, api_version: str, metadata: Object, items: Iterable[bytes]) -> bytes:
    """A list as upstream writes it."""
    head = dumps({"kind": kind, "apiVersion": api_version, "metadata": metadata})
    return b'%b,"items":[%b]}\n' % (head[:-1], b",".join(items))


def event_bytes(kind: str, obj: bytes) -> bytes:
    """A line of a watch."""
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), obj)
