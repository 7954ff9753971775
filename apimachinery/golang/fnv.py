"""Go's hash/fnv, 32 bits: names and checksums are made with it."""

_OFFSET, _PRIME, _MASK = 0x811C9DC5, 0x01000193, 0xFFFFFFFF


def fnv1a(data: bytes) -> int:
    value = _OFFSET
    for byte in data:
        value = ((value ^ byte) * _PRIME) & _MASK
    return value


def fnv1(data: bytes) -> int:
    """FNV-1 multiplies first, unlike FNV-1a."""
    value = _OFFSET
    for byte in data:
        value = ((value * _PRIME) & _MASK) ^ byte
    return value
