"""State files: written whole or not at all, so that a kubelet killed at any point leaves a readable one."""

import os
from pathlib import Path


def write_atomically(path: Path, content: bytes) -> None:
    """Replace the file's content.

    A crash of the machine may lose it, as it loses the containers themselves.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_bytes(content)
    temporary.replace(path)
