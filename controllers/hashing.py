"""The hash that names the replica sets of a deployment.

Upstream hashes Go's deep print of the template (FNV-1a, 32 bits); that text cannot be made outside Go. This
one hashes the template as canonical JSON: as stable, and of the same form, but another value.
"""

from typing import Any

import orjson

from apimachinery.clock import SUFFIX_ALPHABET

_OFFSET, _PRIME, _MASK = 0x811C9DC5, 0x01000193, 0xFFFFFFFF


def fnv1a(data: bytes) -> int:
    """The 32-bit FNV-1a hash."""
    value = _OFFSET
    for byte in data:
        value = ((value ^ byte) * _PRIME) & _MASK
    return value


def safe_encode(text: str) -> str:
    """Each character mapped to one that makes no word (apimachinery util/rand.SafeEncodeString)."""
    return "".join(SUFFIX_ALPHABET[ord(character) % len(SUFFIX_ALPHABET)] for character in text)


def template_hash(template: Any, collisions: int | None) -> str:
    """The pod-template-hash of a pod template after `collisions` collisions of names."""
    data = orjson.dumps(template, option=orjson.OPT_SORT_KEYS)
    if collisions is not None:
        data += collisions.to_bytes(8, "little")
    return safe_encode(str(fnv1a(data)))
