"""The logs of containers in CRI's format: `TIME STREAM TAG DATA`, the tag P for a piece of a line, F for its
end.

Source: kubernetes/design-proposals-archive, node/kubelet-cri-logging.md; containerd's
internal/cri/io/logger.go; the kubelet's defaults containerLogMaxSize and containerLogMaxFiles.
"""

import contextlib
import os
from datetime import datetime
from pathlib import Path

from kubeskew.apimachinery.clock import Clock

LINE_BYTES = 16_384  # longer lines are written in pieces
FILE_BYTES = 10 * 1024 * 1024
FILES = 5  # the one that is written and those before it


class LogWriter:
    """Writes the output of one container. It goes on when the disk is full; output is lost then."""

    def __init__(self, path: Path, clock: Clock, file_bytes: int = FILE_BYTES, files: int = FILES) -> None:
        """A file of `file_bytes` is full; none ever is with 0, where a kubelet rotates (`reopen`)."""
        self._path = path
        self._clock = clock
        self._file_bytes, self._files = file_bytes, files
        self._pending = {"stdout": b"", "stderr": b""}
        self._fd, self._size = -1, 0
        with contextlib.suppress(OSError):
            self._open()

    def write(self, stream: str, data: bytes) -> None:
        data = self._pending[stream] + data
        cut = data.rfind(b"\n") + 1
        complete, rest = data[:cut], data[cut:]
        prefix = f"{_stamp(self._clock.now())} {stream} ".encode()
        lines = []
        for content in complete[:-1].split(b"\n") if len(complete) > LINE_BYTES else ():
            line = content + b"\n"
            while len(line) > LINE_BYTES + 1:
                lines.append(b"P " + line[:LINE_BYTES] + b"\n")
                line = line[LINE_BYTES:]
            lines.append(b"F " + line)
        if lines:
            text = b"".join([prefix + line for line in lines])
        elif complete:
            text = prefix + b"F " + complete[:-1].replace(b"\n", b"\n" + prefix + b"F ") + b"\n"
        else:
            text = b""
        while len(rest) >= LINE_BYTES:
            text += prefix + b"P " + rest[:LINE_BYTES] + b"\n"
            rest = rest[LINE_BYTES:]
        self._pending[stream] = rest
        self._append(text)

    def close_stream(self, stream: str) -> None:
        """Writes what has no end of line, as a piece of one."""
        rest, self._pending[stream] = self._pending[stream], b""
        if rest:
            self._append(f"{_stamp(self._clock.now())} {stream} P ".encode() + rest + b"\n")

    def reopen(self) -> None:
        """Goes on in the file that has the path now, or in a new one: the one so far has been renamed.

        Raises OSError, and goes on as it was then.
        """
        before = self._fd
        self._open()
        if before >= 0:
            os.close(before)

    def close(self) -> None:
        for stream in self._pending:
            self.close_stream(stream)
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _append(self, text: bytes) -> None:
        if not text:
            return
        try:
            if self._fd < 0:
                self._open()
            os.write(self._fd, text)
            self._size += len(text)
            if 0 < self._file_bytes <= self._size:
                self._rotate()
        except OSError:
            return

    def _open(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
        self._size = os.fstat(self._fd).st_size

    def _rotate(self) -> None:
        os.close(self._fd)
        self._fd = -1
        self._path.rename(
            f"{self._path}.{self._clock.now():%Y%m%d-%H%M%S}-{self._clock.now().microsecond:06}"
        )
        rotated = sorted(self._path.parent.glob(f"{self._path.name}.*"))
        for path in rotated[: max(len(rotated) - self._files + 1, 0)]:
            path.unlink(missing_ok=True)
        self._open()


def _stamp(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond:06}000Z"
