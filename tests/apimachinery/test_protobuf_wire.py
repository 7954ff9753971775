"""The wire format of protobuf, as far as it is read without a schema."""

import pytest

from kubeskew.apimachinery.protobuf_wire import (
    MAGIC,
    encode_bytes,
    encode_number,
    encode_text,
    namespace_and_name,
    payload,
    payloads,
    raw_object,
)

NAMED = encode_bytes(1, encode_text(1, "a") + encode_number(7, 1 << 40) + encode_text(3, "ns"))


def test_fields_of_any_type_are_passed_over():
    """Numbers of any size are skipped, and of a text that comes twice the last one counts."""
    fixed = b"\x19" + b"8" * 8 + b"\x25" + b"4" * 4  # fields 3 and 4
    message = encode_number(1, 1 << 63) + encode_text(2, "x") + fixed + encode_text(2, "y" * 200)
    assert [*payloads(message)] == [(2, b"x"), (2, b"y" * 200)]
    assert (payload(message, 2), payload(message, 5)) == (b"y" * 200, b"")


@pytest.mark.parametrize("envelope", [b"", MAGIC + encode_bytes(1, b"") + encode_bytes(2, NAMED)])
def test_an_object_is_known_by_its_metadata(envelope):
    """Name and namespace are read in an envelope as without one."""
    assert namespace_and_name(raw_object(envelope or NAMED)) == ("ns", "a")


@pytest.mark.parametrize(
    "message",
    [
        b"\x0a\x05abc",
        b"\x0a",
        b"\xff" * 20,
        b"\x0b",
        b"\x09\x01",
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
    ],
)
def test_what_cannot_be_read_has_no_fields(message):
    """A message that is cut short or has a group in it ends there, without an error."""
    assert [*payloads(message)] == []
