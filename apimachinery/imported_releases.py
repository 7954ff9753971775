"""Releases that users made of source trees with `kubeskew release import`, as they lie on disk.

Each is a directory, named as the release, of JSON files: `release.json` (its base, its tree, a summary) and
one file per subject, of which `kubeskew/releases/import_tree.py` has the list. Components read the files of
their own release alone; nothing is read for shipped releases.
"""

import os
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import orjson

ENVIRONMENT = "KUBESKEW_RELEASES"  # the directory of the releases, for all components of a cluster
SUMMARY = "release.json"
NAME = re.compile(r"1\.[1-9][0-9]{0,2}(\+[a-z0-9]+)?")
FORMAT = 1  # of the directories; a release of another format has to be imported again


class Imported(NamedTuple):
    """`stamp` says where and when a release was imported: another of the same name has another."""

    base: str
    stamp: str


def releases_directory() -> Path:
    """`$KUBESKEW_RELEASES`, else `kubeskew/releases` in the user's data directory (XDG base directories)."""
    if named := os.environ.get(ENVIRONMENT):
        return Path(named)
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "kubeskew" / "releases"


def imported_releases() -> Mapping[str, Imported]:
    """The imported releases by their names, in the order of names; empty without any."""
    directory = releases_directory()
    try:
        changed = directory.stat().st_mtime_ns
    except OSError:
        return {}
    return _releases(directory, changed)


def document(name: str, file: str) -> Any:
    """A file of an imported release; None if the release does not have it.

    Raises ValueError, in one line, for a release that is not there or whose file cannot be read.
    """
    directory = releases_directory() / name
    try:
        changed = (directory / SUMMARY).stat().st_mtime_ns
    except OSError:
        raise ValueError(f"release {name} is not in {directory.parent}: import it again") from None
    return _document(directory, file, changed)


@lru_cache(maxsize=8)
def _releases(directory: Path, _changed: int) -> Mapping[str, Imported]:
    found = {}
    for path in sorted(directory.glob(f"*/{SUMMARY}")):
        try:
            summary = orjson.loads(path.read_bytes())
        except (OSError, ValueError):
            continue  # `release list` names it
        if (
            isinstance(summary, dict)
            and summary.get("format") == FORMAT
            and isinstance(summary.get("base"), str)
            and NAME.fullmatch(path.parent.name)
        ):
            stamp = f"{directory}@{path.stat().st_mtime_ns}"
            found[path.parent.name] = Imported(summary["base"], stamp)
    return found


@cache
def _document(directory: Path, file: str, _changed: int) -> Any:
    path = directory / file
    if not path.is_file():
        return None
    try:
        return orjson.loads(path.read_bytes())
    except ValueError:
        raise ValueError(f"{path} is damaged: remove release {directory.name} and import it again") from None
