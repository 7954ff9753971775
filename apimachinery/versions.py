"""Kubernetes releases that a component can be emulated at, and how they compare."""

import re
from dataclasses import dataclass
from functools import total_ordering

_TEXT = re.compile(r"^v?1\.(?P<minor>\d+)(?:\.\d+)?(?:\+(?P<preview>[a-z0-9]+))?$")

OLDEST_MINOR, NEWEST_MINOR = 26, 37

# The newest patch level whose behaviour we follow, per minor (fixes of DRA came with patch releases).
_PATCH_LEVELS = {
    26: 15, 27: 16, 28: 15, 29: 15, 30: 14, 31: 14, 32: 13, 33: 10, 34: 7, 35: 6, 36: 4, 37: 0,
}  # fmt: skip


@total_ordering
@dataclass(frozen=True, slots=True)
class Version:
    """A Kubernetes release `1.MINOR`; `preview` names a release that carries a KEP draft's design.

    A preview comes after the release of its minor and before the next.
    """

    minor: int
    preview: str = ""

    @classmethod
    def parse(cls, text: str) -> "Version":
        """Parses `1.36`, `v1.36.4` or a preview such as `1.25+kep3063`; raises ValueError that says what
        to do."""
        found = _TEXT.match(text)
        if found is None:
            raise ValueError(f"{text!r} is not a Kubernetes version: write 1.{NEWEST_MINOR - 1}")
        version = cls(int(found["minor"]), found["preview"] or "")
        if version not in SUPPORTED:
            previews = " or ".join(map(str, PREVIEWS))
            raise ValueError(
                f"version {text} is not supported: choose one from 1.{OLDEST_MINOR} to 1.{NEWEST_MINOR}, "
                f"or {previews}"
            )
        return version

    @property
    def git_version(self) -> str:
        """Returns the gitVersion of `/version`, e.g. `v1.36.4`, `v1.25.0+kep3063`."""
        if self.preview:
            return f"v1.{self.minor}.0+{self.preview}"
        return f"v1.{self.minor}.{_PATCH_LEVELS[self.minor]}"

    def __lt__(self, other: "Version") -> bool:
        return (self.minor, self.preview) < (other.minor, other.preview)

    def __str__(self) -> str:
        return f"1.{self.minor}" + (f"+{self.preview}" if self.preview else "")


DEFAULT_VERSION = Version(36)
# Releases that `data/previews` and `data/gates.json` have beside those of the minors.
PREVIEWS = (Version(25, "kep3063"), Version(29, "kep4381"))
SUPPORTED = tuple(sorted([*PREVIEWS, *(Version(minor) for minor in range(OLDEST_MINOR, NEWEST_MINOR + 1))]))
