"""Tells findings apart: by the invariant, and by the message without what is chance."""

import re
from dataclasses import dataclass

from kubeskew.apimachinery.clock import SUFFIX_ALPHABET

_DRAWN = rf"-[{SUFFIX_ALPHABET}]{{5}}(?![a-z0-9])"
# Each with what stands for it; the order matters.
_RULES = (
    (re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"), "<uid>"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)?"), "<time>"),
    (re.compile(r"\b0x[0-9a-f]+\b"), "<address>"),
    (re.compile(rf"-[{SUFFIX_ALPHABET}]{{8,10}}(?={_DRAWN})"), "-#"),  # the template's hash of a ReplicaSet
    (re.compile(_DRAWN), "-#"),
    # the kind and the name of an object: which of them it happened to is chance
    (re.compile(r"\b([A-Z][A-Za-z]+) [a-z0-9.-]+/[A-Za-z0-9.:#<>-]+"), r"\1 <name>"),
    (re.compile(r"\b(kubelet|driver|driver-controller)/[A-Za-z0-9.-]+"), r"\1/<name>"),
    (re.compile(r"\d+(?:\.\d+)*"), "N"),
)


@dataclass(frozen=True, slots=True, order=True)
class Signature:
    """Identifies findings of one kind."""

    invariant: str
    message: str

    def __str__(self) -> str:
        return f"{self.invariant} {self.message}"


def signature(invariant: str, message: str) -> Signature:
    """Returns the signature of a finding: its message without drawn names, uids, times, numbers, and without
    the names of the objects that it happened to."""
    text = " ".join(message.split())
    for pattern, stands_for in _RULES:
        text = pattern.sub(stands_for, text)
    return Signature(invariant, text)
