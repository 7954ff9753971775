"""Events of watches as an API server writes them in protobuf."""

from kubeskew.apimachinery.protobuf_wire import MAGIC, encode_bytes, encode_text


def enveloped(message: bytes) -> bytes:
    return MAGIC + encode_bytes(1, encode_text(1, "v1")) + encode_bytes(2, message)


def frame(kind: str, name: str, *, envelope: bool = False) -> bytes:
    """An event of the object `ns/NAME`, by itself or in an envelope of its own."""
    metadata = encode_text(1, name) + encode_text(2, "") + encode_text(3, "ns")
    made = enveloped(encode_bytes(1, metadata) + encode_bytes(2, b"spec"))
    event = encode_text(1, kind) + encode_bytes(2, encode_bytes(1, made))
    event = enveloped(event) if envelope else event
    return len(event).to_bytes(4, "big") + event
