"""The files of containers' logs in CRI's format."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

from kubeskew.kubelet.containers import log_reader
from kubeskew.kubelet.containers.host.log_writer import LINE_BYTES, LogWriter
from kubeskew.kubelet.containers.log_reader import LogFollower


class Clock:
    """A clock of which every reading is a microsecond later."""

    def __init__(self) -> None:
        self._microseconds = 0

    def now(self) -> datetime:
        self._microseconds += 1
        return datetime(2026, 1, 2, 3, 4, 5, self._microseconds, tzinfo=UTC)

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


def test_lines(tmp_path: Path):
    """Each line has its time and stream; what has no end of line is written when its stream ends."""
    writer = LogWriter(tmp_path / "c" / "0.log", Clock())
    writer.write("stdout", b"one\ntw")
    writer.write("stderr", b"error\n")
    writer.write("stdout", b"o\nrest")
    writer.close()
    assert (tmp_path / "c" / "0.log").read_text() == (
        "2026-01-02T03:04:05.000001000Z stdout F one\n"
        "2026-01-02T03:04:05.000002000Z stderr F error\n"
        "2026-01-02T03:04:05.000003000Z stdout F two\n"
        "2026-01-02T03:04:05.000004000Z stdout P rest\n"
    )
    lines = log_reader.read(tmp_path / "c" / "0.log")
    assert [(line.stream, line.data) for line in lines] == [
        ("stdout", b"one\n"),
        ("stderr", b"error\n"),
        ("stdout", b"two\n"),
        ("stdout", b"rest"),
    ]
    assert lines[0].time == datetime(2026, 1, 2, 3, 4, 5, 1, tzinfo=UTC)


def test_long_lines(tmp_path: Path):
    """Long lines are written in pieces, which reading joins to the same bytes."""
    content = b"a" * (2 * LINE_BYTES + 5) + b"\n" + b"b\n" + b"c" * LINE_BYTES + b"\n"
    for size in (7, 1000, LINE_BYTES, len(content)):
        path = tmp_path / str(size)
        writer = LogWriter(path, Clock())
        for begin in range(0, len(content), size):
            writer.write("stdout", content[begin : begin + size])
        writer.close()
        lines = log_reader.read(path)
        assert b"".join(line.data for line in lines) == content
        assert max(len(line.data) for line in lines) <= LINE_BYTES + 1


def test_carriage_returns(tmp_path: Path):
    """Only a line feed ends a line, also in output that is written in pieces."""
    content = b"50%\r100%\n" + b"a" * (LINE_BYTES + 5) + b"\x0b\r\n"
    writer = LogWriter(tmp_path / "0.log", Clock())
    writer.write("stdout", content)
    writer.close()
    lines = log_reader.read(tmp_path / "0.log")
    assert lines[0].data == b"50%\r100%\n"
    assert b"".join(line.data for line in lines) == content


def test_rotation(tmp_path: Path):
    """A full file gets another name, the oldest are removed; a follower misses nothing of the newest."""
    path = tmp_path / "0.log"
    writer = LogWriter(path, Clock(), file_bytes=100, files=3)
    follower = LogFollower(path)
    found = []
    for number in range(20):
        writer.write("stdout", f"{number}\n".encode())
        found += [line.data for line in follower.read()]
    follower.close()
    writer.close()
    assert found == [f"{number}\n".encode() for number in range(20)]
    assert len([*tmp_path.iterdir()]) == 3


def test_rotation_by_a_kubelet(tmp_path: Path):
    """The file that has the path is written after a reopening, and no file is renamed by its size."""
    path = tmp_path / "0.log"
    writer = LogWriter(path, Clock(), file_bytes=0)
    follower = LogFollower(path)
    writer.write("stdout", b"one\n")
    path.rename(tmp_path / "0.log.20260102-030405")
    writer.write("stdout", b"two\n")
    writer.reopen()
    writer.write("stdout", b"three\n")
    writer.close()
    assert [line.data for line in follower.read()] == [b"one\n", b"two\n", b"three\n"]
    assert [line.data for line in log_reader.read(path)] == [b"three\n"]
    assert len([*tmp_path.iterdir()]) == 2
    follower.close()


def test_a_full_disk(tmp_path: Path):
    """Output that cannot be written is lost, and nothing else happens."""
    (tmp_path / "c").write_text("in the way")
    writer = LogWriter(tmp_path / "c" / "0.log", Clock())
    writer.write("stdout", b"lost\n")
    writer.close()
    assert log_reader.read(tmp_path / "c" / "0.log") == []


def test_lines_of_others(tmp_path: Path):
    """Lines that are not in the format, and one that is still written, are left out."""
    path = tmp_path / "0.log"
    path.write_text(
        "nonsense\nx stdout F bad time\n2026-01-02T03:04:05Z stdout F good\n2026-01-02T03:04:05Z stdout F ha"
    )
    assert [line.data for line in log_reader.read(path)] == [b"good\n"]
