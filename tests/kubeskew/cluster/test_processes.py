"""Knowing and ending processes that are not ours to wait for."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from until import until

from kubeskew.cluster.processes import ExecutedProcesses, KernelProcesses, alive, birth, last_error


def sleeper(code: str = "import time; time.sleep(60)") -> int:
    process = subprocess.Popen([sys.executable, "-c", code])
    process.returncode = 0
    return process.pid


def ended() -> int:
    pid = sleeper("pass")
    os.waitpid(pid, 0)
    return pid


async def test_a_process_is_known_by_pid_and_birth():
    """A running process is alive under its birth and under no other."""
    pid = sleeper()
    processes, born = ExecutedProcesses(), birth(pid)

    assert processes.alive(pid, born)
    assert not processes.alive(pid, "another")
    await processes.stop(pid, born, kill=True)
    assert not processes.alive(pid, born)


async def test_stopping_what_has_ended_is_no_error():
    """A process that is gone already counts as stopped."""
    assert await ExecutedProcesses().stop(ended(), "1")


def wrapper(pids: Path) -> int:
    """A leader of a session that writes the pid of what it has started."""
    script = f"sleep 1000 & echo $! >{pids}.part; mv {pids}.part {pids}; wait"
    process = subprocess.Popen(["/bin/sh", "-c", script], start_new_session=True)
    process.returncode = 0
    return process.pid


async def test_sigkill_ends_what_a_process_has_started(tmp_path):
    """A real program that a wrapper has not exec'ed does not outlive its shim."""
    pids = tmp_path / "pids"
    leader = wrapper(pids)
    await until(pids.exists, 10)
    started = int(pids.read_text())
    born = birth(started)

    assert not await KernelProcesses().stop(leader, birth(leader), kill=True)
    await until(lambda: not alive(started, born), 5)


def test_pid_zero_is_nobody():
    """A process that was never started is not alive."""
    assert not ExecutedProcesses().alive(0, "")


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (
            [
                'I1130 00:00:00.000000       1 a.go:1] "Starting"',
                'E1130 00:00:00.000000       1 run.go:72] "command failed" err="no config"',
                "2026-11-30T00:00:00.000Z E kubeskew.shim.host: it ended",
                "kubeskew: /bin/x ended by itself: exit status 1",
            ],
            'E1130 00:00:00.000000       1 run.go:72] "command failed" err="no config"',
        ),
        (
            ['E1130 00:00:00.000000       1 k.go:1] "Failed" err="read \\"a\\": bad"'],
            'E1130 00:00:00.000000       1 k.go:1] "Failed" err="read "a": bad"',
        ),
        (["Error: unknown flag: --x", "Usage:", "  x"], "Error: unknown flag: --x"),
        (["panic: boom", "goroutine 1 [running]:", "main.main()"], "panic: boom"),
        (["something else"], "something else"),
        (["kubeskew: /bin/x ended by itself: exit status 0"], "exit status 0"),
        ([], "it printed nothing"),
    ],
)
def test_the_reason_of_a_programs_end_is_found_in_its_log(tmp_path, lines, text):
    """An error line stands before any other line of the program, and these before what kubeskew logs."""
    log = tmp_path / "scheduler.log"
    log.write_text("".join(f"{line}\n" for line in lines))

    assert last_error(log) == text
