"""Rotates the logs of containers: the runtime writes them, the kubelet renames and compresses.

Source: pkg/kubelet/logs/container_log_manager.go, 1.36, with the defaults of a KubeletConfiguration.
"""

import glob
import gzip
import shutil
from datetime import datetime
from pathlib import Path

PERIOD_SECONDS = 10.0  # containerLogMonitorInterval
_MAX_BYTES, _MAX_FILES = 10 << 20, 5
_STAMP = "%Y%m%d-%H%M%S"
_COMPRESSED, _TEMPORARY = ".gz", ".tmp"


def is_too_large(path: Path) -> bool:
    """Raises OSError, FileNotFoundError for a log that is not there."""
    return path.stat().st_size >= _MAX_BYTES


def rotate(path: Path, now: datetime) -> Path:
    """Makes room for a new file at a log's path: compresses what was rotated before, and returns the path to
    which the log has moved. Raises OSError."""
    found = sorted(_others(path))
    rotated = [each for each in found if _is_used(each, found)]
    for unused in [each for each in found if each not in rotated]:
        unused.unlink()
    excess = max(len(rotated) - (_MAX_FILES - 2), 0)
    for old in rotated[:excess]:
        old.unlink()
    for each in rotated[excess:]:
        if each.suffix != _COMPRESSED:
            _compress(each)
    moved = path.with_name(f"{path.name}.{now.astimezone().strftime(_STAMP)}")
    return path.rename(moved)


def remove(path: Path) -> None:
    """Removes a log with all that was rotated."""
    for each in [path, *_others(path)]:
        each.unlink(missing_ok=True)


def _others(path: Path) -> list[Path]:
    return [*path.parent.glob(f"{glob.escape(path.name)}.*")]


def _is_used(path: Path, among: list[Path]) -> bool:
    """Decides whether a file is a log, and not left of a rotation that failed."""
    if path.suffix == _TEMPORARY:
        return False
    return path.suffix == _COMPRESSED or path.with_name(path.name + _COMPRESSED) not in among


def _compress(path: Path) -> None:
    temporary = path.with_name(path.name + _TEMPORARY)
    try:
        with path.open("rb") as source, gzip.open(temporary, "wb") as target:
            shutil.copyfileobj(source, target)
        temporary.rename(path.with_name(path.name + _COMPRESSED))
    finally:
        temporary.unlink(missing_ok=True)
    path.unlink()
