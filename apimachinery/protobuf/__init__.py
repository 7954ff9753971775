"""Bodies of built-in kinds in protobuf, as typed Go clients send them, read into JSON along the schema.

Nothing here writes protobuf: clients that send it take JSON back.
"""

from apimachinery.protobuf.decoding import (
    MAGIC,
    Envelope,
    decode_unknown,
    is_protobuf,
    read_envelope,
    read_object,
)
from apimachinery.protobuf.numbers import is_known
from apimachinery.protobuf.wire import WireError

__all__ = [
    "MAGIC",
    "Envelope",
    "WireError",
    "decode_unknown",
    "is_known",
    "is_protobuf",
    "read_envelope",
    "read_object",
]
