"""Bars on a terminal while cells run: what is drawn, from any process, and that it ends."""

import io
import json
import os
import pty
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kubeskew.cli import live
from kubeskew.cli.commands import cell_runs
from kubeskew.conformance.matrix import cells_of
from kubeskew.conformance.results import CellResult, StepResult
from kubeskew.conformance.runner import Moment

WIDTH = 100


class Terminal(io.StringIO):
    """A terminal that keeps what is written to it."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def screen(monkeypatch):
    """A screen, and what ends it and returns the lines that were drawn."""
    monkeypatch.setenv("TERM", "xterm-256color")
    reading, writing = os.pipe()
    terminal = Terminal()

    def drawn():
        os.write(writing, b'{"do": "end"}\n')
        os.close(writing)
        with os.fdopen(reading, "rb", buffering=0) as pipe:
            live.draw(pipe, terminal, WIDTH)
        return plain(terminal.getvalue())

    return live.Screen(writing), drawn


def plain(text):
    return [
        line.rstrip() for line in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text).splitlines() if line.strip()
    ]


@pytest.fixture
def cell():
    return cells_of("first", "*/explicit/*")[0]


def last_bars(lines, key):
    return [line for line in lines if line.startswith(key)][-1]


def test_a_cell_has_a_line_with_its_step(screen, cell):
    """A running cell is drawn with the number of steps behind it, and the name of the one it is at."""
    bars, drawn = screen
    audience = cell_runs.Bars(bars, 4)
    audience.on_moment(cell, Moment("starting the cluster"))
    audience.on_moment(cell, Moment("a deployment", 3))

    line = last_bars(drawn(), cell.name[:20])

    assert f"2/{len(cell.steps())}" in line
    assert line.endswith("a deployment")


def test_an_ended_cell_leaves_its_line(screen, cell):
    """A cell that has ended has no line any more, and counts for the line of all."""
    bars, drawn = screen
    audience = cell_runs.Bars(bars, 4)
    audience.on_moment(cell, Moment("a deployment", 1))
    audience.on_moment(cell, Moment("ended", is_last=True))
    audience.ended(CellResult(cell.name, "s", {}, [StepResult("a deployment")]))

    lines = drawn()

    assert lines[-1].startswith("all"), "the bar of all is drawn first, and nothing behind it"
    assert "1/4" in last_bars(lines, "all")
    assert "1 passed" in last_bars(lines, "all")


def test_a_failed_cell_stays_as_a_line(screen, cell):
    """A failure is printed above the bars, and stays there."""
    bars, drawn = screen
    audience = cell_runs.Bars(bars, 4)
    audience.ended(CellResult(cell.name, "s", {}, error="no cluster"))

    assert f"{cell.name}: FAILED in 0.0 s: no cluster" in drawn()


def test_lines_fit_the_terminal(screen, cell):
    """No drawn line is wider than the terminal, however long names and texts are."""
    bars, drawn = screen
    bars.whole(3, "counts " * 50)
    bars.bar("name" * 50, 1, 3, "step " * 50)

    assert max(map(len, drawn())) <= WIDTH


def test_hostile_texts_do_not_steer_the_terminal(screen):
    """Control characters of a name or a text are drawn as escapes."""
    bars, drawn = screen
    bars.whole(1, "")
    bars.bar("x\x07y", 0, 1, "z\x07w")

    assert "x\\x07y" in last_bars(drawn(), "x")


def test_a_message_is_written_whole():
    """The longest message goes into a pipe in one piece, so that processes need no lock."""
    reading, writing = os.pipe()
    live.Screen(writing).bar("\U0001f4a9" * 200, 1, 2, "\U0001f4a9" * 10_000)
    written = os.read(reading, 1 << 16)

    assert len(written) <= 4096
    assert json.loads(written)["do"] == "bar"


def test_nobody_draws():
    """Whoever works goes on if the process that draws is gone."""
    reading, writing = os.pipe()
    os.close(reading)

    live.Screen(writing).line("still here")


@pytest.mark.parametrize(
    ("elapsed", "done", "total", "left"),
    [(10.0, 2, 4, 10.0), (10.0, 0, 4, None), (10.0, 3, None, None), (10.0, 5, 4, 0.0)],
)
def test_the_time_that_is_left(elapsed, done, total, left):
    """The rest takes as long as it did so far, for each part; without a part nothing is said."""
    assert live.seconds_left(elapsed, done, total) == left


@pytest.mark.parametrize(("seconds", "said"), [(41.6, "42 s"), (185, "3 min 05 s"), (3720, "1 h 02 min")])
def test_times_are_said_as_people_do(seconds, said):
    """Times are reported in the units that they have."""
    assert live.span(seconds) == said


def test_a_line_for_each_cell_without_a_terminal(capsys, cell):
    """Without a terminal a cell is one line, at its end."""
    with cell_runs.cells_shown(2, verbose=False) as audience:
        audience.on_moment(cell, Moment("a deployment", 1))
        audience.ended(CellResult(cell.name, "s", {}, [StepResult("a deployment")]))

    assert capsys.readouterr().err == f"· 1/2 {cell.name}: passed in 0.0 s\n"


def test_all_lines_with_verbose(capsys, cell):
    """With -v all that cells do is a line."""
    with cell_runs.cells_shown(2, verbose=True) as audience:
        audience.on_moment(cell, Moment("a deployment", 1))
        audience.on_moment(cell, Moment("ended", is_last=True))

    assert capsys.readouterr().err == f"· {cell.name}: a deployment\n"


def in_terminal(*arguments):
    """Runs a command in a terminal; returns its status and what it wrote there."""
    controlling, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(WIDTH)}
    command = [sys.executable, "-m", "kubeskew", *arguments]
    written = bytearray()

    def read():
        while True:
            try:
                found = os.read(controlling, 65536)
            except OSError:  # everybody has closed the terminal
                return
            if not found:
                return
            written.extend(found)

    with subprocess.Popen(command, stdout=terminal, stderr=terminal, env=environment) as process:
        os.close(terminal)
        reader = threading.Thread(target=read)
        reader.start()
        status = process.wait()
        reader.join()
    os.close(controlling)
    return status, written.decode()


@pytest.mark.parametrize("jobs", ["1", pytest.param("2", marks=pytest.mark.slow)])
def test_a_matrix_in_a_terminal(jobs):
    """A matrix draws its cells from the processes that run them, clears the bars and prints its table."""
    only = "kep-5004/basic/explicit/1.3[56]"
    status, text = in_terminal("run", "kep-5004/basic", "--only", only, "--simulate", "--jobs", jobs)

    lines = plain(text)
    assert status == 0
    assert [line for line in lines if line.startswith("kep-5004/basic/explicit/1.35") and "/7 " in line]
    assert not [line for line in lines if line.startswith("·")]
    assert text.endswith("Steps: 14 run, 0 not run\r\n")
    assert "\x1b[?25h" in text, "the cursor is shown again"


@pytest.mark.slow
def test_an_exploration_in_a_terminal(tmp_path: Path):
    """An exploration draws one bar with its rate and what was found."""
    cell = "kep-5004/basic/explicit/1.36"
    status, text = in_terminal("explore", cell, "--seeds", "2", "--jobs", "1")

    assert status == 0
    assert [line for line in plain(text) if line.startswith("all") and "a second" in line]
