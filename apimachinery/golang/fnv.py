"""Go's hash/fnv, 32 bits and 128: names and checksums are made with it."""

_OFFSET, _PRIME, _MASK = 0x811C9DC5, 0x01000193, 0xFFFFFFFF
_OFFSET_128, _PRIME_128 = 0x6C62272E07BB014262B821756295C58D, 0x1000000000000000000013B


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


def fnv1a_128(data: bytes) -> int:
    value = _OFFSET_128
    for byte in data:
        value = ((value ^ byte) * _PRIME_128) & ((1 << 128) - 1)
    return value
