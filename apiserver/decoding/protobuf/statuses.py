"""Writes a `Status` in protobuf, for clients that take nothing else.

Field numbers: k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto and runtime/generated.proto, 1.36.
"""

from kubeskew.apimachinery.objects import Object

_MAGIC = b"k8s\x00"
_LENGTH, _VARINT = 2, 0
_SEVEN_BITS = 0x7F


def encode_status(status: Object) -> bytes:
    """Returns the Status in its envelope, ready for the wire."""
    kind = _text(1, status["apiVersion"]) + _text(2, status["kind"])
    metadata = _text(1, "") + _text(2, "") + _text(3, "")
    raw = _bytes(1, metadata) + _text(2, status.get("status") or "") + _text(3, status.get("message") or "")
    raw += _text(4, status.get("reason") or "")
    if status.get("details") is not None:
        raw += _bytes(5, _details(status["details"]))
    raw += _number(6, status.get("code") or 0)
    return _MAGIC + _bytes(1, kind) + _bytes(2, raw) + _text(3, "") + _text(4, "")


def _details(details: Object) -> bytes:
    encoded = b"".join(
        _text(n, details.get(name) or "") for n, name in ((1, "name"), (2, "group"), (3, "kind"))
    )
    for cause in details.get("causes") or ():
        parts = ((1, "reason"), (2, "message"), (3, "field"))
        encoded += _bytes(4, b"".join(_text(number, cause.get(name) or "") for number, name in parts))
    return encoded + _number(5, details.get("retryAfterSeconds") or 0) + _text(6, details.get("uid") or "")


def _text(number: int, text: str) -> bytes:
    return _bytes(number, text.encode())


def _bytes(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _LENGTH) + _varint(len(content)) + content


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3 | _VARINT) + _varint(value)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > _SEVEN_BITS:
        encoded.append(value & _SEVEN_BITS | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
