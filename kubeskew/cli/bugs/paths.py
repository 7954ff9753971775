"""Finds the known bugs that a path of versions meets."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kubeskew.apimachinery.known_bugs import KnownBug, known_bugs
from kubeskew.apimachinery.versions import SUPPORTED, Version
from kubeskew.cli.bugs.triggers import meets


class Met(NamedTuple):
    """A bug, and the stops of the path that have it."""

    bug: KnownBug
    at: Sequence[Version]

    def as_json(self) -> dict[str, Any]:
        bug = self.bug
        return {
            "id": bug.id,
            "component": bug.component,
            "area": bug.area,
            "title": bug.title,
            "source": bug.source,
            "affected": bug.affected,
            "fixed": [str(patch) for patch in bug.fixed],
            "gates": list(bug.gates),
            "at": [str(version) for version in self.at],
            "behaves": bool(bug.switch),
            "missing": bug.missing or None,
        }


def stops(first: Version, last: Version) -> list[Version]:
    """Returns both ends, and the newest patch of each minor between them, in the order of the way."""
    low, high = sorted((first, last))
    between = [
        version for version in SUPPORTED if low.minor < version.minor < high.minor and not version.preview
    ]
    way = [low, *between, *([high] if high != low else [])]
    return way if first == low else way[::-1]


def met(path: Sequence[Version], workload: Sequence[Mapping[str, Any]] | None) -> Iterator[Met]:
    """Returns the bugs that a stop of the path has, and that the workload meets; without a path all bugs."""
    for bug in known_bugs().values():
        at = [version for version in path if bug.affects(version)]
        if (at or not path) and (workload is None or meets(bug, workload)):
            yield Met(bug, at)
