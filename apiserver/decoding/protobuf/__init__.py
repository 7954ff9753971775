"""Reads protobuf bodies of built-in kinds, as typed Go clients send them, into JSON along the schema.

Clients that send protobuf take JSON back; only a Status is written, for those that do not.
"""

from kubeskew.apiserver.decoding.protobuf.decoding import (
    MAGIC,
    Envelope,
    decode_unknown,
    is_protobuf,
    read_envelope,
    read_object,
)
from kubeskew.apiserver.decoding.protobuf.numbers import is_known
from kubeskew.apiserver.decoding.protobuf.statuses import encode_status
from kubeskew.apiserver.decoding.protobuf.wire import WireError

__all__ = [
    "MAGIC",
    "Envelope",
    "WireError",
    "decode_unknown",
    "encode_status",
    "is_known",
    "is_protobuf",
    "read_envelope",
    "read_object",
]
