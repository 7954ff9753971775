"""Protobuf bodies of built-in kinds, as typed Go clients send them, read into JSON along the schema.

Clients that send protobuf take JSON back; only a Status is written, for those that do not.
"""

from kubeskew.apimachinery.protobuf_wire import MAGIC, encode_status
from kubeskew.apiserver.decoding.protobuf.envelope import (
    MEDIA_TYPE,
    Envelope,
    decode_unknown,
    read_envelope,
    read_object,
)
from kubeskew.apiserver.decoding.protobuf.messages import WireError, is_known

__all__ = [
    "MAGIC",
    "MEDIA_TYPE",
    "Envelope",
    "WireError",
    "decode_unknown",
    "encode_status",
    "is_known",
    "read_envelope",
    "read_object",
]
