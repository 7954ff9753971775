"""The hashes that name replica sets and revisions.

A pod template's is FNV-1a, 32 bits, of what Go prints of it.
"""

from kubeskew.apimachinery.clock import SUFFIX_ALPHABET
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.framework.template_text import template_text

_OFFSET, _PRIME, _MASK = 0x811C9DC5, 0x01000193, 0xFFFFFFFF


def fnv1a(data: bytes) -> int:
    """The 32-bit FNV-1a hash."""
    value = _OFFSET
    for byte in data:
        value = ((value ^ byte) * _PRIME) & _MASK
    return value


def fnv1(data: bytes) -> int:
    """The 32-bit FNV-1 hash, which multiplies first."""
    value = _OFFSET
    for byte in data:
        value = ((value * _PRIME) & _MASK) ^ byte
    return value


def safe_encode(text: str) -> str:
    """Returns the text with each character mapped to one that forms no words (apimachinery
    util/rand.SafeEncodeString)."""
    return "".join(SUFFIX_ALPHABET[ord(character) % len(SUFFIX_ALPHABET)] for character in text)


def template_hash(template: Object, collisions: int | None) -> str:
    """Returns the pod-template-hash of a pod template after `collisions` collisions of names."""
    data = template_text(template).encode()
    if collisions is not None:
        data += collisions.to_bytes(8, "little")
    return safe_encode(str(fnv1a(data)))
