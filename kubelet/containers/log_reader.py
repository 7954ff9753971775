"""Reads the logs of containers, which the host's shim or a container runtime writes in the format of CRI."""

import contextlib
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from kubeskew.kubelet.containers.runtime_service import LogLine

_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)", re.ASCII)


class LogFollower:
    """Reads what is added to a log from a moment on, also after the file was rotated."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pending = b""
        self._file = path.open("rb") if path.exists() else None
        if self._file is not None:
            self._file.seek(0, os.SEEK_END)

    def read(self) -> Iterator[LogLine]:
        """The lines that have been added since the last call."""
        if self._file is None:
            if not self._path.exists():
                return
            self._file = self._path.open("rb")
        yield from self._parsed(self._file.read())
        with contextlib.suppress(FileNotFoundError):
            if self._path.stat().st_ino != os.fstat(self._file.fileno()).st_ino:
                yield from self._parsed(self._file.read())
                self._file.close()
                self._file = self._path.open("rb")
                yield from self._parsed(self._file.read())

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _parsed(self, data: bytes) -> Iterator[LogLine]:
        data = self._pending + data
        cut = data.rfind(b"\n") + 1
        self._pending = data[cut:]
        yield from parse(data[:cut])


def read(path: Path) -> list[LogLine]:
    """The lines of the file that is written at the moment: as the kubelet, without those before it."""
    try:
        data = path.read_bytes()
    except OSError:
        return []
    return [*parse(data[: data.rfind(b"\n") + 1])]


def parse(data: bytes) -> Iterator[LogLine]:
    """Lines that are not in the format are left out."""
    time_of = _Times()
    for line in data.split(b"\n"):
        fields = line.split(b" ", 3)
        if len(fields) == 4:
            with contextlib.suppress(ValueError):
                end = b"" if fields[2] == b"P" else b"\n"
                yield LogLine(time_of(fields[0]), fields[1].decode(), fields[3] + end)


class _Times:
    """Parses times, which are in UTC or in the zone of the runtime; many lines have the same."""

    def __init__(self) -> None:
        self._text, self._time = b"", datetime.fromtimestamp(0, UTC)

    def __call__(self, text: bytes) -> datetime:
        if text != self._text:
            match = _RFC3339.fullmatch(text.decode())
            if match is None:
                raise ValueError(f"{text!r} is no time")
            seconds, fraction, zone = match.groups()
            zone = "+00:00" if zone == "Z" else zone
            self._time = datetime.fromisoformat(f"{seconds}.{fraction or '':0<6.6}{zone}").astimezone(UTC)
            self._text = text
        return self._time


async def followed(
    follower: LogFollower, ended: Callable[[], bool], wait: Callable[[], Awaitable[object]]
) -> AsyncIterator[LogLine]:
    """Yields lines as they come, until the container has ended and all that it wrote was read; closes the
    follower.
    """
    try:
        while True:
            last = ended()
            for line in follower.read():
                yield line
            if last:
                return
            await wait()
    finally:
        follower.close()
