"""Files that hold secrets: mode 0600, in directories of mode 0700."""

import os
from pathlib import Path


def write_secret(path: Path, content: bytes | str) -> None:
    """Write a file that only its owner may read; never readable by others, not even for a moment."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    partial = path.with_name(path.name + ".partial")
    data = content.encode() if isinstance(content, str) else content
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
