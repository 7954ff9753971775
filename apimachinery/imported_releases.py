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
from typing import Any

import orjson

ENVIRONMENT = "KUBESKEW_RELEASES"  # the directory of the releases, for all components of a cluster
SUMMARY = "release.json"
NAME = re.compile(r"1\.[1-9][0-9]{0,2}(\+[a-z0-9]+)?")
FORMAT = 1  # of the directories; a release of another format has to be imported again


def releases_directory() -> Path:
    """`$KUBESKEW_RELEASES`, else `kubeskew/releases` in the user's data directory (XDG base directories)."""
    if named := os.environ.get(ENVIRONMENT):
        return Path(named)
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "kubeskew" / "releases"


def imported_bases() -> Mapping[str, str]:
    """The base of each imported release by its name, in the order of names; empty without any."""
    directory = releases_directory()
    try:
        changed = directory.stat().st_mtime_ns
    except OSError:
        return {}
    return _bases(directory, changed)


def document(name: str, file: str) -> Any:
    """A file of an imported release; None if the release does not have it.

    Raises ValueError, in one line, for a release that is not there or whose file cannot be read.
    """
    return _document(releases_directory() / name, file)


@lru_cache(maxsize=8)
def _bases(directory: Path, _changed: int) -> Mapping[str, str]:
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
            found[path.parent.name] = summary["base"]
    return found


@cache
def _document(directory: Path, file: str) -> Any:
    if not (directory / SUMMARY).is_file():
        raise ValueError(f"release {directory.name} is not in {directory.parent}: import it again")
    path = directory / file
    if not path.is_file():
        return None
    try:
        return orjson.loads(path.read_bytes())
    except ValueError:
        raise ValueError(f"{path} is damaged: remove release {directory.name} and import it again") from None
