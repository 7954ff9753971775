"""Reads from the journals what the files of nodes were at a revision, also beside running kubelets."""

import itertools
from collections.abc import Iterator
from pathlib import Path

from kubeskew.kubelet.journal import segments
from kubeskew.kubelet.journal.segments import DIRECTORY, Files


class FilesForgottenError(Exception):
    """The journal does not reach back to the revision; the text says how far it does."""


def node_files_at(node: Path, revision: int) -> Files:
    """Returns the files in a node's directory as they were. Raises FilesForgottenError."""
    files: Files = {}
    for _, content in _segments_until(node, revision)[-1:]:
        for position in segments.positions(content):
            segments.apply(files, position.record)
    return files


def restore_node(node: Path, revision: int, target: Path) -> None:
    """Writes a node's files, and its journal so far, to another directory, which must not exist.

    Raises FilesForgottenError.
    """
    journal = _segments_until(node, revision)
    files = node_files_at(node, revision)
    (target / DIRECTORY).mkdir(parents=True, mode=0o700)
    for name, content in files.items():
        path = target / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            continue
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_bytes(content)
    for number, content in journal:
        segments.segment_path(target / DIRECTORY, number).write_bytes(content)


def _segments_until(node: Path, revision: int) -> list[tuple[int, bytes]]:
    """Returns the segments (number, content) up to the revision, the last one cut off after it.

    Raises FilesForgottenError.
    """
    found: list[tuple[int, bytes]] = []
    for number, content in _segments(node / DIRECTORY):
        kept = itertools.takewhile(lambda each: each.revision <= revision, segments.positions(content))
        end = max((each.end for each in kept), default=0)
        if end == 0:
            break
        found.append((number, content[:end]))
        if end < len(content):
            break
    oldest = next(_segments(node / DIRECTORY), None)
    if not found and oldest is not None and oldest[0] > 1:
        first = next(segments.positions(oldest[1])).revision
        raise FilesForgottenError(
            f"the files of node {node.name} are known from revision {first} on, not at {revision}"
        )
    return found


def _segments(journal: Path) -> Iterator[tuple[int, bytes]]:
    for number in segments.numbers(journal):
        try:
            yield number, segments.segment_path(journal, number).read_bytes()
        except FileNotFoundError:  # a running kubelet has just removed it as the oldest
            continue
