"""Kubernetes releases that a component can be emulated at, and how they compare."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import total_ordering
from typing import Any, TypeVar

from kubeskew.apimachinery.imported_releases import (
    ENVIRONMENT,
    Imported,
    document,
    imported_releases,
    releases_directory,
)

T = TypeVar("T")

_TEXT = re.compile(r"^v?1\.(?P<minor>\d+)(?:\.(?P<patch>\d+))?(?:\+(?P<name>[a-z0-9]+))?$")

OLDEST_MINOR, NEWEST_MINOR = 26, 37
OLDEST_IMPORTED = 31  # the first minor whose source trees can be imported

# The newest patch release of each minor. Source: https://github.com/kubernetes/kubernetes/releases as of
# October 2026; minors up to 1.33 get no more.
NEWEST_PATCHES = {
    26: 15, 27: 16, 28: 15, 29: 15, 30: 14, 31: 14, 32: 13, 33: 13, 34: 12, 35: 9, 36: 5, 37: 1,
}  # fmt: skip


class VersionError(ValueError):
    """A version that there is not; the text is one line that says which there are."""


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """A Kubernetes release `1.MINOR.PATCH`; `preview` names a release that carries a KEP draft's design.

    Without a patch the newest is meant, so that 1.36 equals 1.36.5. A preview comes after every release of
    its minor and before the next minor. Patches differ in `known_bugs.py` alone.

    A release that was imported from a source tree has a base, whose behaviour it has where code decides, and
    a name behind its minor (`1.37+mine`) or none (`1.38`). It comes after its minor as previews do. Another
    import under the same name is another version (`stamp`): what is kept of the first is not taken for it.
    """

    minor: int
    preview: str = ""
    patch: int | None = None
    name: str = ""
    imported_from: "Version | None" = None
    stamp: str = ""

    @classmethod
    def parse(cls, text: str) -> "Version":
        """Parses `1.36`, `v1.36.4` or a preview such as `1.25+kep3063`; raises VersionError with the versions
        to choose from."""
        found = _TEXT.match(text)
        if found is None:
            raise VersionError(f"{text!r} is not a Kubernetes version: write 1.{NEWEST_MINOR - 1} or 1.35.2")
        minor = cls(int(found["minor"]), found["name"] or "")
        if minor not in SUPPORTED:
            return _imported(text, f"1.{minor.minor}" + (f"+{minor.preview}" if minor.preview else ""))
        if found["patch"] is None:
            return minor
        version = cls(minor.minor, minor.preview, int(found["patch"]))
        if version.level > minor.level:
            newest = f"{minor}.{minor.level}" if not minor.preview else minor.git_version[1:]
            raise VersionError(f"there is no release {text}: the newest patch of 1.{minor.minor} is {newest}")
        return minor if minor.preview else version

    @property
    def base(self) -> "Version":
        """The release whose behaviour it has: that which an imported release is based on, else itself."""
        return self.imported_from or self

    def document(self, file: str) -> Any:
        """A file that an imported release has for itself; None for every other release, and without it."""
        return None if self.imported_from is None else document(str(self.release), file)

    @property
    def level(self) -> int:
        """Number of the patch release; 0 for a preview, and for an imported release of another minor than its
        base."""
        if self.patch is not None:
            return self.patch
        if self.imported_from is not None:
            return self.imported_from.level if self.imported_from.minor == self.minor else 0
        return 0 if self.preview else NEWEST_PATCHES.get(self.minor, 0)

    @property
    def release(self) -> "Version":
        """The minor or preview without a patch: types, gates and served versions are the same in all
        patches."""
        return self if self.patch is None else replace(self, patch=None)

    @property
    def git_version(self) -> str:
        """The gitVersion of `/version`, e.g. `v1.36.4`, `v1.25.0+kep3063`."""
        return f"v1.{self.minor}.{self.level}{self._suffix}"

    @property
    def _suffix(self) -> str:
        name = self.preview or self.name
        return f"+{name}" if name else ""

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return self._key() == other._key() if isinstance(other, Version) else NotImplemented

    def __lt__(self, other: "Version") -> bool:
        return self._key() < other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __str__(self) -> str:
        patch = "" if self.patch is None else f".{self.patch}"
        return f"1.{self.minor}{patch}{self._suffix}"

    def _key(self) -> tuple[int, str, int, str]:
        return self.minor, self.preview or self.name, self.level, self.stamp


DEFAULT_VERSION = Version(36)
# Releases that `data/previews` and `data/gates.json` have besides those of the minors.
PREVIEWS = (Version(25, "kep3063"), Version(29, "kep4381"))
# The newest patch of each minor, oldest first.
MINORS = tuple(Version(minor) for minor in range(OLDEST_MINOR, NEWEST_MINOR + 1))
SUPPORTED = tuple(sorted([*PREVIEWS, *MINORS]))  # what is shipped; `supported()` has imported releases, too


def supported() -> tuple[Version, ...]:
    """All releases that components can be of, shipped and imported, oldest first."""
    imported = list(_imported_versions())
    return tuple(sorted([*SUPPORTED, *imported])) if imported else SUPPORTED


def _imported_versions() -> Iterator[Version]:
    for name, imported in imported_releases().items():
        try:
            yield _version_of(name, imported)
        except VersionError:
            continue  # its base came after this kubeskew; `release list` names it


def _imported(text: str, name: str) -> Version:
    """Raises VersionError with the versions to choose from if no imported release has the name."""
    release = imported_releases().get(name)
    if release is not None:
        return _version_of(name, release)
    imported = list(imported_releases())
    if "+" in name and minor_of(name) >= OLDEST_IMPORTED:
        there = ", ".join(imported) or "none"
        raise VersionError(
            f"release {name} is not imported in {releases_directory()}, which has {there}: import it with "
            f"`kubeskew release import`, or name the directory that has it in {ENVIRONMENT}"
        )
    more = "".join(f", {each}" for each in imported)
    raise VersionError(
        f"version {text} is not supported: choose one from 1.{OLDEST_MINOR} to 1.{NEWEST_MINOR}{more}, "
        f"or {' or '.join(map(str, PREVIEWS))}"
    )


def minor_of(name: str) -> int:
    """The minor in a release's name, `1.37+mine` → 37."""
    return int(name.removeprefix("1.").partition("+")[0])


def _version_of(name: str, release: Imported) -> Version:
    base = Version.parse(release.base)
    return Version(minor_of(name), name=name.partition("+")[2], imported_from=base, stamp=release.stamp)


def entry(table: Mapping[int, T], minor: int) -> T:
    """The entry of the newest minor in the table that is not newer than `minor`; 0 stands for the oldest."""
    return table[max(first for first in table if first <= minor)]


def is_between(minor: int, first: int | None, last: int | None) -> bool:
    """Both ends belong to the span; None is an open end."""
    return (first is None or first <= minor) and (last is None or minor <= last)


def changes_until(changes: Mapping[str, T], minor: int) -> Iterator[T]:
    """Yields, oldest first, the changes of a data file that `minor` has; keys are releases such as `1.35`."""
    minors = {int(release.partition(".")[2]): change for release, change in changes.items()}
    return (minors[first] for first in sorted(minors) if first <= minor)


def minors_between(one: Version, other: Version) -> list[Version]:
    """The minors that lie between two versions, without those of both ends, oldest first."""
    low, high = sorted((one.minor, other.minor))
    return [version for version in MINORS if low < version.minor < high]
