"""Writes files that hold secrets: mode 0600, in directories of mode 0700."""

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kubeskew.apimachinery.durable_files import flush

_FLUSHES_MAX = 32  # at a time: the disk does many as fast as one (3 to 7 ms)


def write_secret(path: Path, content: bytes | str) -> None:
    """Writes a file that only its owner may read; never readable by others, not even for a moment."""
    partial = _write(path, content)
    flush(partial)
    partial.replace(path)


def write_secrets(contents: Mapping[Path, bytes | str]) -> None:
    """Writes many files, in the time of few."""
    partials = {path: _write(path, content) for path, content in contents.items()}
    with ThreadPoolExecutor(_FLUSHES_MAX) as pool:
        for path, _ in zip(partials, pool.map(flush, partials.values()), strict=True):
            partials[path].replace(path)


def _write(path: Path, content: bytes | str) -> Path:
    """Writes what becomes `path`, beside it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    partial = path.with_name(path.name + ".partial")
    data = content.encode() if isinstance(content, str) else content
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    return partial
