"""Envelope of protobuf bodies: `k8s\\0` and a runtime.Unknown.

The result is Go's JSON but for zero values: protobuf has them for every field that is no pointer, and
normalising drops them.

Field numbers: k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto and runtime/generated.proto, 1.36.

Source: k8s.io/apimachinery/pkg/runtime/serializer/protobuf/protobuf.go, 1.36.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from kubeskew.apimachinery.protobuf_wire import MAGIC
from kubeskew.apimachinery.schema import Schema
from kubeskew.apiserver.decoding.protobuf import messages
from kubeskew.apiserver.decoding.protobuf.messages import BYTES, Token, WireError, text, tokens

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_NOT_PROTOBUF = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
_TYPE_META, _RAW = 1, 2  # of runtime.Unknown
_API_VERSION, _KIND = 1, 2  # of runtime.TypeMeta


class Envelope(NamedTuple):
    """Parts that are missing are empty; `raw` is the object's message."""

    api_version: str
    kind: str
    raw: bytes


def read_envelope(body: bytes) -> Envelope:
    """Raises WireError."""
    if not body:
        raise WireError("empty data")
    if not body.startswith(MAGIC):
        raise WireError(_NOT_PROTOBUF)
    if body == MAGIC:
        raise WireError("empty body")
    head, raw = b"", b""
    for token in tokens(body[len(MAGIC) :], "Unknown"):
        if token.number == _TYPE_META:
            head += _bytes(token, "TypeMeta")  # a message that comes in parts is merged
        elif token.number == _RAW:
            raw = _bytes(token, "Raw")
    api_version = kind = ""
    for token in tokens(head, "TypeMeta"):
        if token.number == _API_VERSION:
            api_version = text(_bytes(token, "APIVersion"))
        elif token.number == _KIND:
            kind = text(_bytes(token, "Kind"))
    return Envelope(api_version, kind, raw)


def _bytes(token: Token, field: str) -> bytes:
    if token.wire_type != BYTES or isinstance(token.value, int):
        raise WireError(f"proto: wrong wireType = {token.wire_type} for field {field}")
    return token.value


def read_object(raw: bytes, schema: Schema) -> dict[str, Any]:
    """The object comes without apiVersion and kind. Raises WireError."""
    try:
        return messages.read(raw, schema)
    except RecursionError:
        raise WireError("exceeded max depth") from None


def decode_unknown(body: bytes, definition_for: Callable[[str, str], Schema | None]) -> dict[str, Any]:
    """Reads the object of a body, with apiVersion and kind as sent; raises WireError.

    `definition_for` gives the schema of an apiVersion and kind, None where it knows none.

    """
    envelope = read_envelope(body)
    schema = definition_for(envelope.api_version, envelope.kind)
    if schema is None:
        raise WireError(f'no kind "{envelope.kind}" is registered for version "{envelope.api_version}"')
    return {
        "apiVersion": envelope.api_version,
        "kind": envelope.kind,
        **read_object(envelope.raw, schema),
    }
