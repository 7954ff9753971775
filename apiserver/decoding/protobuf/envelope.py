"""Envelope of protobuf bodies, `k8s\\0` and a runtime.Unknown, and `Status` as such a body.

The result is Go's JSON but for zero values: protobuf has them for every field that is no pointer, and
normalising drops them.

Field numbers: k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto and runtime/generated.proto, 1.36.

Source: k8s.io/apimachinery/pkg/runtime/serializer/protobuf/protobuf.go, 1.36.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.schema import Schema
from kubeskew.apiserver.decoding.protobuf import messages
from kubeskew.apiserver.decoding.protobuf.messages import BYTES, Token, WireError, text, tokens

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"
_NOT_PROTOBUF = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
_TYPE_META, _RAW = 1, 2  # of runtime.Unknown
_API_VERSION, _KIND = 1, 2  # of runtime.TypeMeta
_MAGIC = b"k8s\x00"
_LENGTH, _VARINT = 2, 0
_SEVEN_BITS = 0x7F


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


def encode_status(status: Object) -> bytes:
    kind = _status_text(1, status["apiVersion"]) + _status_text(2, status["kind"])
    metadata = _status_text(1, "") + _status_text(2, "") + _status_text(3, "")
    raw = (
        _status_bytes(1, metadata)
        + _status_text(2, status.get("status") or "")
        + _status_text(3, status.get("message") or "")
    )
    raw += _status_text(4, status.get("reason") or "")
    if status.get("details") is not None:
        raw += _status_bytes(5, _status_details(status["details"]))
    raw += _status_number(6, status.get("code") or 0)
    return _MAGIC + _status_bytes(1, kind) + _status_bytes(2, raw) + _status_text(3, "") + _status_text(4, "")


def _status_details(details: Object) -> bytes:
    encoded = b"".join(
        _status_text(n, details.get(name) or "") for n, name in ((1, "name"), (2, "group"), (3, "kind"))
    )
    for cause in details.get("causes") or ():
        parts = ((1, "reason"), (2, "message"), (3, "field"))
        encoded += _status_bytes(
            4, b"".join(_status_text(number, cause.get(name) or "") for number, name in parts)
        )
    return (
        encoded
        + _status_number(5, details.get("retryAfterSeconds") or 0)
        + _status_text(6, details.get("uid") or "")
    )


def _status_text(number: int, text: str) -> bytes:
    return _status_bytes(number, text.encode())


def _status_bytes(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _LENGTH) + _varint(len(content)) + content


def _status_number(number: int, value: int) -> bytes:
    return _varint(number << 3 | _VARINT) + _varint(value)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > _SEVEN_BITS:
        encoded.append(value & _SEVEN_BITS | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
