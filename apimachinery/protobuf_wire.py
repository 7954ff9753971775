"""The wire format of protobuf, as far as it is read and written without a schema: envelopes and Status.

`apiserver/decoding/protobuf/` reads whole objects, with the errors of the Unmarshal methods of Kubernetes;
here a message that cannot be read has no fields from there on.

Field numbers: k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto and runtime/generated.proto, 1.36.
"""

from collections.abc import Iterator
from typing import Final

from kubeskew.apimachinery.objects import Object

MAGIC: Final = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SIZES: Final = {_FIXED64: 8, _FIXED32: 4}
_SEVEN_BITS: Final = 0x7F
_LONGEST: Final = 10  # bytes of a number
_RAW: Final = 2  # of runtime.Unknown
_METADATA: Final = 1  # of every object
_NAME, _NAMESPACE = 1, 3  # of ObjectMeta


def payloads(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields the number and payload of each field that has a length: texts, bytes and messages."""
    at = 0
    while at < len(message):
        tag, at = _number(message, at)
        wire_type = tag & 7
        if wire_type == _VARINT:
            _, at = _number(message, at)
        elif wire_type in _SIZES:
            at += _SIZES[wire_type]
        elif wire_type == _BYTES:
            size, at = _number(message, at)
            if at + size > len(message):
                return
            yield tag >> 3, message[at : at + size]
            at += size
        else:
            return


def _number(message: bytes, at: int) -> tuple[int, int]:
    """The second one is the position after it; a number that is cut short is larger than what is left."""
    value = 0
    for shift, byte in enumerate(message[at : at + _LONGEST]):
        value |= (byte & _SEVEN_BITS) << 7 * shift
        if byte <= _SEVEN_BITS:
            return value, at + shift + 1
    return len(message) + 1, len(message)


def payload(message: bytes, number: int) -> bytes:
    """Empty without the field; of several the last one counts."""
    found = b""
    for each, content in payloads(message):
        if each == number:
            found = content
    return found


def raw_object(body: bytes) -> bytes:
    """The object's message in an envelope; a body that has no envelope is one itself."""
    return payload(body[len(MAGIC) :], _RAW) if body.startswith(MAGIC) else body


def namespace_and_name(message: bytes) -> tuple[str, str]:
    """Reads the metadata of an object's message."""
    metadata = payload(message, _METADATA)
    namespace, name = payload(metadata, _NAMESPACE), payload(metadata, _NAME)
    return namespace.decode("utf-8", "replace"), name.decode("utf-8", "replace")


def encode_status(status: Object) -> bytes:
    """Writes a Status in an envelope."""
    kind = encode_text(1, status["apiVersion"]) + encode_text(2, status["kind"])
    metadata = encode_text(1, "") + encode_text(2, "") + encode_text(3, "")
    raw = (
        encode_bytes(1, metadata)
        + encode_text(2, status.get("status") or "")
        + encode_text(3, status.get("message") or "")
    )
    raw += encode_text(4, status.get("reason") or "")
    if status.get("details") is not None:
        raw += encode_bytes(5, _status_details(status["details"]))
    raw += encode_number(6, status.get("code") or 0)
    return MAGIC + encode_bytes(1, kind) + encode_bytes(2, raw) + encode_text(3, "") + encode_text(4, "")


def _status_details(details: Object) -> bytes:
    encoded = b"".join(
        encode_text(n, details.get(name) or "") for n, name in ((1, "name"), (2, "group"), (3, "kind"))
    )
    for cause in details.get("causes") or ():
        parts = ((1, "reason"), (2, "message"), (3, "field"))
        encoded += encode_bytes(
            4, b"".join(encode_text(number, cause.get(name) or "") for number, name in parts)
        )
    return (
        encoded
        + encode_number(5, details.get("retryAfterSeconds") or 0)
        + encode_text(6, details.get("uid") or "")
    )


def encode_text(number: int, text: str) -> bytes:
    return encode_bytes(number, text.encode())


def encode_bytes(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def encode_number(number: int, value: int) -> bytes:
    return _varint(number << 3 | _VARINT) + _varint(value)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > _SEVEN_BITS:
        encoded.append(value & _SEVEN_BITS | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
