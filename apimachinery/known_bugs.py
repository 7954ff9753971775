"""Upstream's known bugs, their releases, and the switches by which components have them.

The table is `data/known_bugs.json`, one row per bug (its shape: `KnownBug`). A row with a `switch` is built:
the field of that component's features asks `KnownBugs.present` at construction, and nothing else compares
patches. A row without one says what is `missing`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from kubeskew.apimachinery.known_names import did_you_mean
from kubeskew.apimachinery.versions import Version

_TABLE = Path(__file__).parent / "data" / "known_bugs.json"

_ON = {"on": True, "true": True, "off": False, "false": False}


class BugError(ValueError):
    """A bug that is not known, or a setting that cannot be read; the text says what to write."""


class Patch(NamedTuple):
    minor: int
    patch: int

    @classmethod
    def parse(cls, text: str) -> "Patch":
        _, minor, patch = text.split(".")
        return cls(int(minor), int(patch))

    def __str__(self) -> str:
        return f"1.{self.minor}.{self.patch}"


@dataclass(frozen=True, slots=True)
class KnownBug:
    """A row of the table.

    `since` and `fixed` name the first release with the bug, and with its fix, of each minor that got it by a
    patch; the last of them counts for all later minors. A bug without `fixed` is in every release known.
    """

    id: str
    component: str  # kind of component: apiserver, controller-manager, scheduler, kubelet, driver
    area: str  # controller, plugin or manager
    title: str
    source: str
    since: tuple[Patch, ...]
    fixed: tuple[Patch, ...]
    gates: tuple[str, ...]  # without which it shows nothing
    trigger: tuple[Mapping[str, Any], ...]  # objects that may meet it (`kubeskew bugs -f FILE`)
    switch: str  # `MODULE:CLASS.FIELD` of the component's features; empty if it is not built
    missing: str  # the code that kubeskew lacks to behave so; empty if it does
    note: str  # the source of its releases, if not a release note; uncertainties
    also: tuple[str, ...] = ()  # other kinds that run the same code, and are switched with it

    def is_of(self, component: str) -> bool:
        """True if components of that kind have it, or run the same code."""
        return component == self.component or component in self.also

    def affects(self, version: Version) -> bool:
        """Previews of drafts were never released and have no bugs; an imported release has its base's."""
        base = version.base
        released = bool(self.since) and not base.preview
        return released and _reached(self.since, base) and not _reached(self.fixed, base)

    @property
    def is_open(self) -> bool:
        """True if releases have it, and none is known that has its fix."""
        return bool(self.since) and not self.fixed

    @property
    def affected(self) -> str:
        """Ranges of releases with the bug, for people: `1.32.0-1.32.9, 1.33.0-1.33.5`."""
        if not self.since:
            return "no release"
        if self.is_open:
            return f"since {self.since[0]}"
        stretches = []
        for fix in self.fixed:
            began = [patch for patch in self.since if patch.minor == fix.minor]
            first = began[0] if began else Patch(fix.minor, 0)
            if fix.patch and first >= self.since[0]:
                stretches.append(f"{first}-{fix._replace(patch=fix.patch - 1)}")
        oldest = min(self.fixed)
        unfixed = [patch for patch in self.since if patch.minor < oldest.minor]
        whole = [patch for patch in unfixed if patch.patch or patch == unfixed[0]]  # others go on
        ends = [*(patch.minor - 1 for patch in whole[1:]), oldest.minor - 1]
        before = [f"{first}-1.{end}" for first, end in zip(whole, ends, strict=True)] if whole else []
        return ", ".join(before + stretches)


def _reached(releases: Sequence[Patch], version: Version) -> bool:
    """A change that came with these releases is in all later patches of their minors and in all later
    minors."""
    own = [patch for patch in releases if patch.minor == version.minor]
    if own:
        return version.level >= min(own).patch
    return bool(releases) and version.minor > max(releases).minor


@cache
def known_bugs() -> Mapping[str, KnownBug]:
    """Keeps the table's order."""
    rows: dict[str, dict[str, Any]] = orjson.loads(_TABLE.read_bytes())
    return {id_: _bug(id_, row) for id_, row in rows.items()}


def _bug(id_: str, row: Mapping[str, Any]) -> KnownBug:
    return KnownBug(
        id=id_,
        component=row["component"],
        area=row["area"],
        title=row["title"],
        source=row["source"],
        since=tuple(map(Patch.parse, row["since"])),
        fixed=tuple(map(Patch.parse, row["fixed"])),
        gates=tuple(row.get("gates", ())),
        trigger=tuple(row.get("trigger", ())),
        switch=row.get("switch", ""),
        missing=row.get("missing", ""),
        note=row.get("note", ""),
        also=tuple(row.get("also", ())),
    )


def check_bugs(settings: Mapping[Any, Any], component: str = "") -> dict[str, bool]:
    """Checks that each bug is known (one of `component`, if that is given) and can be switched so.

    Raises BugError.
    """
    for id_, on in settings.items():
        bug = known_bugs().get(str(id_))
        if bug is None:
            hint = did_you_mean(str(id_), known_bugs()) or "; `kubeskew bugs` lists them"
            raise BugError(f"there is no known bug {id_}{hint}")
        if not isinstance(on, bool):
            raise BugError(f"{id_}: expected on or off, found {on!r}")
        if on and not bug.switch:
            raise BugError(f"{id_} cannot be switched on, for kubeskew does not behave so: {bug.missing}")
        if component and not bug.is_of(component):
            raise BugError(f"{id_} is a bug of the {bug.component}, not of the {component}")
    return dict(sorted(settings.items()))


def parse_bugs(text: str) -> dict[str, bool]:
    """Parses `ID=off,ID=on`. Raises BugError."""
    settings: dict[str, bool] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        id_, _, value = (part.strip() for part in item.partition("="))
        if value.lower() not in _ON:
            raise BugError(f"{item!r}: write {id_}=off or {id_}=on")
        settings[id_] = _ON[value.lower()]
    return check_bugs(settings)


def bugs_flag(settings: Mapping[str, bool]) -> str:
    """The value that `--bugs` needs for the same settings."""
    return ",".join(f"{id_}={'on' if on else 'off'}" for id_, on in settings.items())


class KnownBugs:
    """The bugs of one component: those of its release, with settings by hand. Immutable, hashable."""

    __slots__ = ("_settings", "_version")

    def __init__(self, version: Version, settings: Mapping[str, bool] | None = None) -> None:
        self._version = version
        self._settings = dict(sorted((settings or {}).items()))

    @property
    def settings(self) -> Mapping[str, bool]:
        return self._settings

    def present(self, id_: str) -> bool:
        """A setting by hand goes before the release. Raises KeyError for a bug that is not in the table."""
        bug = known_bugs()[id_]
        return self._settings.get(id_, bug.affects(self._version))

    def mended(self, id_: str) -> bool:
        """True if the component behaves as with the fix. Raises KeyError as `present`.

        Previews of drafts, which have no bugs, are older than all fixes.
        """
        return not self.present(id_) and not self._version.preview

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, KnownBugs):
            return NotImplemented
        return (self._version, self._settings) == (other._version, other._settings)

    def __hash__(self) -> int:
        return hash((self._version, tuple(self._settings.items())))
