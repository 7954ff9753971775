"""The message with which a container ended."""

import os
from datetime import UTC, datetime

import pytest

from kubeskew.kubelet.containers.runtime_service import LogLine
from kubeskew.kubelet.volumes.termination_message import termination_message

TIME = datetime(2026, 1, 1, tzinfo=UTC)
FALLBACK = {"terminationMessagePolicy": "FallbackToLogsOnError"}


def lines(*texts):
    return [LogLine(TIME, "stdout", text.encode()) for text in texts]


@pytest.mark.parametrize(
    ("spec", "content", "exit_code", "log", "expected"),
    [
        ({}, "done", 3, lines("x\n"), "done"),
        ({}, "x" * 5000 + "end", 0, [], "x" * 4093 + "end"),
        ({}, "", 3, lines("x\n"), ""),
        (FALLBACK, "", 3, lines("x\n", "y"), "x\ny"),
        (FALLBACK, "done", 3, lines("x\n"), "done"),
        (FALLBACK, "", 0, lines("x\n"), ""),
        (FALLBACK, None, 1, lines("x\n"), "x\n"),
        (FALLBACK, "", 1, lines(*(f"{n}\n" for n in range(100))), "".join(f"{n}\n" for n in range(20, 100))),
        (FALLBACK, "", 1, lines("a" * 3000 + "\n"), "a" * 2047 + "\n"),
    ],
)
def test_message(tmp_path, spec, content, exit_code, log, expected):
    """The end of the file counts; of a failed container with an empty one, the end of the log may."""
    file = tmp_path / "f"
    if content is not None:
        file.write_text(content)
    assert termination_message(spec, file, exit_code, lambda: log) == expected


def test_pieces_of_a_line_count_once():
    """Eighty lines are kept, however many pieces each has."""
    log = lines(*(piece for n in range(90) for piece in (f"{n}", ".", "\n")))
    expected = "".join(f"{n}.\n" for n in range(10, 90))
    assert termination_message(FALLBACK, None, 1, lambda: log) == expected


def test_file_that_cannot_be_read(tmp_path):
    """The message says why its file cannot be read."""
    text = f"Error on reading termination log {tmp_path}: open {tmp_path}: is a directory"
    assert termination_message({}, tmp_path, 1, list) == text


def test_pipe_in_place_of_the_file(tmp_path):
    """A container cannot make the kubelet wait for its pipe."""
    file = tmp_path / "f"
    os.mkfifo(file)
    text = f"Error on reading termination log {file}: open {file}: invalid argument"
    assert termination_message({}, file, 1, list) == text


def test_link_in_place_of_the_file(tmp_path):
    """A container cannot have the kubelet show another file."""
    (tmp_path / "secret").write_text("x")
    file = tmp_path / "f"
    file.symlink_to("secret")
    text = f"Error on reading termination log {file}: open {file}: too many levels of symbolic links"
    assert termination_message({}, file, 1, list) == text
