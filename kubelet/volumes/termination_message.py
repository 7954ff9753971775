"""The message with which a container ended: from its file, or from the end of its log.

Source: pkg/kubelet/kuberuntime/kuberuntime_container.go (getTerminationMessage), pkg/util/tail, 1.36.
"""

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
    reason: str = "",
) -> str:
    """`file` is what was mounted for it, `reason` why it ended.

    The log counts if the policy is FallbackToLogsOnError, the container has failed and the file is empty.
    """
    has_failed = exit_code != 0 and reason != "ContainerCannotRun"
    falls_back = spec.get("terminationMessagePolicy") == "FallbackToLogsOnError" and has_failed
    message, has_file = _from_file(file)
    if message or not falls_back or not has_file:
        return message
    return _tail(read_log())


def _from_file(file: Path | None) -> tuple[str, bool]:
    """The pair is (text, whether the log may be read instead)."""
    if file is None:
        return "", True
    try:
        with file.open("rb") as opened:
            size = opened.seek(0, 2)
            opened.seek(max(0, size - _LONGEST))
            return opened.read(_LONGEST).decode(errors="replace"), True
    except FileNotFoundError:
        return "", True
    except OSError as error:
        return f"Error on reading termination log {file}: {go_error('open', file, error)}", False


def _tail(lines: Sequence[LogLine]) -> str:
    kept: list[bytes] = []
    count = 0
    for line in reversed(lines):  # a line may be in several pieces: only the last one has the line's end
        count += line.data.endswith(b"\n") or not kept
        if count > _MOST_LOG_LINES:
            break
        kept.append(line.data)
    return b"".join(reversed(kept))[-_LONGEST_LOG:].decode(errors="replace")
