"""The entries of the cluster file for images: by names with wildcards, what a container of one is.

    "busybox*": {program: /bin/busybox}      a program of this machine
    "example.com/app:*": {path: ./app.tar}   a root file system, an OCI layout or an archive
    "*/job": {runsFor: 5, exitCode: 1}       how the simulated runtime acts it; `onSigterm` as the annotation

A pattern is of the name as a pod gives it, in full or as short as can be, each with its tag or without. The
first that fits counts.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from kubeskew.kubelet.containers.acting import Behaviour, stops_after
from kubeskew.kubelet.containers.sandbox import full_image_name

KEYS = ("path", "program", "runsFor", "exitCode", "onSigterm")


class ImageEntry(NamedTuple):
    """An entry of an image: what its containers are; `behaviour` is for one that is acted."""

    path: Path | None = None
    program: Path | None = None
    behaviour: Behaviour = Behaviour()

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> "ImageEntry":
        """Reads an entry that is well formed."""
        runs_for, code, sigterm = value.get("runsFor"), value.get("exitCode"), value.get("onSigterm")
        return cls(
            Path(value["path"]) if value.get("path") else None,
            Path(value["program"]) if value.get("program") else None,
            Behaviour(
                None if runs_for is None else float(runs_for),
                None if code is None else int(code),
                stops_after(None if sigterm is None else str(sigterm)),
            ),
        )


ImageEntries = tuple[tuple[str, ImageEntry], ...]  # by pattern


def entry_for(entries: ImageEntries, name: str) -> ImageEntry | None:
    """None if no pattern fits."""
    return next((entry for pattern, entry in entries if fits(pattern, name)), None)


def fits(pattern: str, name: str) -> bool:
    """Decides whether a pattern is of an image."""
    full = full_image_name(name)
    short = full.removeprefix("docker.io/").removeprefix("library/")
    names = [form for each in (name, short, full) for form in (each, _untagged(each))]
    return any(fnmatchcase(each, pattern) for each in names)


def _untagged(name: str) -> str:
    head, slash, tail = name.rpartition("/")
    return f"{head}{slash}{tail.partition('@')[0].partition(':')[0]}"
