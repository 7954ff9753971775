"""Reads the protobuf wire format: from bytes to numbered fields, without knowing what they mean.

Errors are those of the Unmarshal methods that Kubernetes generates for its types (1.36).
"""

from collections.abc import Iterator
from math import isfinite
from struct import unpack
from typing import Final, NamedTuple

VARINT, FIXED64, BYTES, GROUP_START, GROUP_END, FIXED32 = range(6)
_SIZES: Final = {FIXED64: 8, FIXED32: 4}
_MAX_SHIFT = 63
_MANY: Final = 1 << 29  # protobuf has no such field numbers
_64_BITS = (1 << 64) - 1
_TRUNCATED = "unexpected EOF"


class WireError(ValueError):
    """A body that Go could not read either; the text is Go's."""


class Token(NamedTuple):
    """Holds one field of a message. `value` is an integer for VARINT, else the bytes of the payload."""

    number: int
    wire_type: int
    value: int | bytes


_token: Final = Token._make


def tokens(data: bytes, message: str) -> Iterator[Token]:
    """Yields the fields in `data`, in their order, without groups. `message` names the Go type in errors."""
    at, end = 0, len(data)
    while at < end:
        tag = data[at]
        if tag < 0x80:
            at += 1
        else:
            tag, at = read_varint(data, at)
        number, wire_type = tag >> 3, tag & 7
        short = wire_type == BYTES and 0 < number < _MANY and at < end and data[at] < 0x80
        if short and at + (size := data[at]) < end:
            at += 1  # most fields by far: a short text or message
            yield _token((number, BYTES, data[at : at + size]))
            at += size
            continue
        _check(number, wire_type, message)
        if wire_type == GROUP_START:
            at = _skip_group(data, at)
            continue
        value, at = _payload(data, at, wire_type)
        yield Token(number, wire_type, value)


def _check(number: int, wire_type: int, message: str) -> None:
    if wire_type == GROUP_END:
        raise WireError(f"proto: {message}: wiretype end group for non-group")
    if not 0 < number < 1 << 31:
        raise WireError(f"proto: {message}: illegal tag {signed(number, 32)} (wire type {wire_type})")


def _payload(data: bytes, at: int, wire_type: int) -> tuple[int | bytes, int]:
    if wire_type == VARINT:
        return read_varint(data, at)
    if wire_type == BYTES:
        size, at = read_varint(data, at)
        if size > _64_BITS >> 1:
            raise WireError("proto: negative length found during unmarshaling")
    elif wire_type in _SIZES:
        size = _SIZES[wire_type]
    else:
        raise WireError(f"proto: illegal wireType {wire_type}")
    if at + size > len(data):
        raise WireError(_TRUNCATED)
    return data[at : at + size], at + size


def _skip_group(data: bytes, at: int) -> int:
    """Returns the position after a group that began before `at`; groups nest, without using the stack."""
    depth = 1
    while depth:
        tag, at = read_varint(data, at)
        wire_type = tag & 7
        if wire_type == GROUP_START:
            depth += 1
        elif wire_type == GROUP_END:
            depth -= 1
        else:
            _, at = _payload(data, at, wire_type)
    return at


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Returns an unsigned 64-bit number at a position, and the position after it."""
    value = shift = 0
    while at < len(data):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _64_BITS, at
        shift += 7
        if shift > _MAX_SHIFT:
            raise WireError("proto: integer overflow")
    raise WireError(_TRUNCATED)


def varints(data: bytes) -> Iterator[int]:
    """Yields the numbers of a packed list."""
    at = 0
    while at < len(data):
        value, at = read_varint(data, at)
        yield value


def signed(value: int, bits: int = 64) -> int:
    """Returns the value that Go reads from an unsigned number into an `intN`: the lowest bits, in two's
    complement.
    """
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def double(data: bytes) -> float:
    """Returns the number in a FIXED64 payload; JSON has no infinity and no NaN."""
    number: float = unpack("<d", data)[0]
    if not isfinite(number):
        raise WireError("json: unsupported value")
    return number


def text(data: bytes) -> str:
    """Returns a string; what is not UTF-8 becomes U+FFFD, as in the JSON that Go would write of it."""
    return data.decode("utf-8", "replace")
