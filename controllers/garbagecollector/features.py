"""The differences between releases of the garbage collector."""

from dataclasses import dataclass

from kubeskew.apimachinery.versions import Version


@dataclass(frozen=True, slots=True)
class GarbageCollectorFeatures:
    """Named decisions of one release."""

    waits_for_all: bool  # up to 1.31 nothing is collected while a resource cannot be listed (125796)

    @classmethod
    def of(cls, version: Version) -> "GarbageCollectorFeatures":
        return cls(waits_for_all=version.minor <= 31)
