"""Knowing and ending processes that are not ours to wait for."""

import os
import subprocess
import sys

from kubeskew.cluster.processes import ExecutedProcesses, birth


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


def test_pid_zero_is_nobody():
    """A process that was never started is not alive."""
    assert not ExecutedProcesses().alive(0, "")
