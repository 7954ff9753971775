"""Works out how large an object is in protobuf, as upstream keeps objects of its own kinds in etcd.

Fields that Go writes although they are empty are not counted: a size is at most some bytes too small for each
struct. Source of the encoding: k8s.io/api/*/generated.pb.go, 1.36.
"""

from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.schema import Kind, Schema
from kubeskew.apiserver.storage.encoding import dumps

_NUMBER = 4  # of most numbers, times and booleans with what is around them
_MAGIC = 4
_ENVELOPE = 16  # apiVersion and kind are counted with their texts


def stored_size(obj: Object, schema: Schema) -> int:
    """Returns the bytes of an object with the envelope that says its kind."""
    named = len(obj.get("apiVersion", "")) + len(obj.get("kind", ""))
    rest = {key: value for key, value in obj.items() if key not in {"apiVersion", "kind"}}
    return _MAGIC + _ENVELOPE + named + _payload(rest, schema)


def _field(value: Any, schema: Schema | None) -> int:
    """Returns the bytes of a field: tag, length and payload."""
    if isinstance(value, list):
        items = schema.items if schema is not None else None
        return sum(_field(item, items) for item in value)
    if isinstance(value, dict) and schema is not None and schema.kind is Kind.MAP:
        return sum(
            _delimited(_delimited(len(key.encode())) + _field(item, schema.items))
            for key, item in value.items()
        )
    if isinstance(value, bool | int | float) or value is None:
        return _NUMBER
    return _delimited(_payload(value, schema))


def _payload(value: Any, schema: Schema | None) -> int:
    if isinstance(value, str):
        length = len(value.encode())
        return length * 3 // 4 if schema is not None and schema.format == "byte" else length
    if isinstance(value, dict) and schema is not None and schema.kind is Kind.OBJECT:
        known = {key: field.schema for key, field in schema.fields.items()}
        return sum(_field(item, known.get(key)) for key, item in value.items())
    return len(dumps(value))  # raw JSON


def _delimited(length: int) -> int:
    return 1 + max(1, (length.bit_length() + 6) // 7) + length
