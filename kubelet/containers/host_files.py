"""Copies, within bounds, files of this machine that a driver mounts into a container.

What a container writes there stays in the container. A path that does not exist here is an empty directory,
because drivers name files of machines that have the hardware.
"""

from collections.abc import Iterator
from pathlib import Path

from kubeskew.kubelet.containers.execution.files import File, Tree

_MOST_FILES = 256
_LARGEST_FILE = 1 << 20
_DEPTH = 4


def host_tree(path: Path) -> Tree:
    """Returns the file at `path`, or the files below the directory: only the first ones, and the beginning
    of large ones."""
    tree = Tree()
    try:
        if path.is_dir():
            for number, found in enumerate(_below(path, _DEPTH)):
                if number == _MOST_FILES:
                    break
                tree.put(str(found.relative_to(path)), _file(found))
        elif path.is_file():
            tree.entries[""] = _file(path)
    except OSError:
        pass  # not readable: treated as empty
    return tree


def _below(directory: Path, depth: int) -> Iterator[Path]:
    for entry in sorted(directory.iterdir()):
        if entry.is_symlink():
            continue
        if entry.is_file():
            yield entry
        elif entry.is_dir() and depth > 1:
            yield from _below(entry, depth - 1)


def _file(path: Path) -> File:
    status = path.stat()
    with path.open("rb") as file:
        return File(file.read(_LARGEST_FILE), status.st_mode & 0o777, status.st_mtime)
