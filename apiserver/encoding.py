"""Objects as bytes: how they are written once, and how a revision gets into them without parsing.

Stored bytes have no resourceVersion and begin with `{"kind":"K","apiVersion":"V","metadata":{`; metadata is
never empty (it has a name). That is what makes splicing possible.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from apimachinery.errors import Object
from apimachinery.resources import GroupVersionKind, Resource

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
    try:
        return orjson.dumps(value)
    except TypeError:  # such keys; allowing for them takes twice as long
        return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)


def indented(value: Any) -> bytes:
    """JSON as upstream writes what is no API object, for people (responsewriters.WriteRawJSON)."""
    return orjson.dumps(value, option=orjson.OPT_INDENT_2)


def loads(data: bytes) -> Any:
    return orjson.loads(data)


def copied(value: Any) -> Any:
    """A copy of what can be stored: writing and reading it takes a tenth of `copy.deepcopy`."""
    return loads(dumps(value))


def prefix(gvk: GroupVersionKind) -> bytes:
    """What the stored bytes of an object of this kind begin with."""
    return encode({"kind": gvk.kind, "apiVersion": gvk.api_version, "metadata": {}})[:-2]


def with_revision(value: bytes, revision: int) -> bytes:
    """`value` with its resourceVersion."""
    at = value.index(_METADATA) + _METADATA_LENGTH
    return b'%b"resourceVersion":"%d",%b' % (value[:at], revision, value[at:])


def object_of(value: bytes, revision: int) -> Object:
    """The object that stored bytes hold, with its resourceVersion."""
    obj: Object = orjson.loads(value)
    obj["metadata"]["resourceVersion"] = str(revision)
    return obj


def list_pieces(
    resource: Resource, metadata: Object, items: Sequence[tuple[bytes, int]], piece_bytes: int
) -> Iterator[bytes]:
    """A list as upstream writes it; `items` are served bytes and revisions.

    A piece ends with the item that makes it so many bytes long. Items of built-in kinds come without kind and
    apiVersion. Slices are not copied before the join.
    """
    whole = prefix(resource.gvk)
    head = dumps({"kind": resource.list_kind, "apiVersion": resource.api_version, "metadata": metadata})
    before = b"," + (whole if resource.custom else b'{"metadata":{').replace(b"%", b"%%")
    following, skipped = before + b'"resourceVersion":"%d",', len(whole)
    template = following[1:]
    parts: list[bytes | memoryview] = [head[:-1], b',"items":[']
    begun = 0  # bytes of the piece
    for value, revision in items:
        parts += (template % revision, memoryview(value)[skipped:])
        template = following
        begun += len(value)
        if begun >= piece_bytes:
            yield b"".join(parts)
            parts.clear()
            begun = 0
    parts.append(b"]}\n")
    yield b"".join(parts)


def event_bytes(kind: str, obj: bytes) -> bytes:
    """A line of a watch."""
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), obj)
