"""Defines what a broken invariant is reported as."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """Tells that an invariant did not hold, from which revision on; the message names objects and writers."""

    code: str  # I01 … I25
    name: str  # device-once …
    message: str
    revision: int
    time: str = ""  # RFC 3339 with microseconds

    @property
    def title(self) -> str:
        """Returns what marks of scenarios are searched in: code, name and message."""
        return f"{self.code} {self.name}: {self.message}"

    def __str__(self) -> str:
        return f"{self.code} {self.name} at revision {self.revision}: {self.message}"
