"""The message with which a container ended: from its file, or from the end of its log.

Source: pkg/kubelet/kuberuntime/kuberuntime_container.go (getTerminationMessage), pkg/util/tail, 1.36.
"""

import errno
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.containers.runtime_service import LogLine
from kubeskew.kubelet.volumes.files import go_error

_LONGEST = 4096
_LONGEST_LOG, _MOST_LOG_LINES = 2048, 80
POD_LIMIT = 12 * 1024  # of all messages of a pod


def termination_message(
    spec: Object,
    file: Path | None,
    exit_code: int,
    read_log: Callable[[], Sequence[LogLine]],
) -> str:
    """`file` is what was mounted for it.

    The log counts if the policy is FallbackToLogsOnError, the container has failed and the file is empty.
    """
    falls_back = spec.get("terminationMessagePolicy") == "FallbackToLogsOnError" and exit_code != 0
    message, has_file = _from_file(file)
    if message or not falls_back or not has_file:
        return message
    return _tail(read_log())


def _from_file(file: Path | None) -> tuple[str, bool]:
    """The pair is (text, whether the log may be read instead)."""
    if file is None:
        return "", True
    try:
        with open(file, "rb", opener=_opened) as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):  # the container has put it there
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), str(file))
            size = opened.seek(0, 2)
            opened.seek(max(0, size - _LONGEST))
            return opened.read(_LONGEST).decode(errors="replace"), True
    except FileNotFoundError:
        return "", True
    except OSError as error:
        return f"Error on reading termination log {file}: {go_error('open', file, error)}", False


def _opened(path: str, flags: int) -> int:
    """Follows no link at the end, and waits for no pipe's writer: containers can replace their file."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _tail(lines: Sequence[LogLine]) -> str:
    kept: list[bytes] = []
    count = 0
    for line in reversed(lines):  # a line may be in several pieces: only the last one has the line's end
        count += line.data.endswith(b"\n") or not kept
        if count > _MOST_LOG_LINES:
            break
        kept.append(line.data)
    return b"".join(reversed(kept))[-_LONGEST_LOG:].decode(errors="replace")
