"""Processes of the cluster: start them apart from us, know whether they live, end them.

They outlive the command that started them, so all that is known of one is its pid and its birth (the kernel's
start time), which tells it from a later process with the same pid.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

STOP_SECONDS = 15.0
POLL_SECONDS = 0.02


def start(
    arguments: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Start `kubeskew ARGUMENTS` in a session of its own; gives its pid and birth."""
    log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    log.touch(mode=0o600)
    with log.open("ab") as output:
        process = subprocess.Popen(  # noqa: S603 - our own entry point
            [sys.executable, "-P", "-m", "kubeskew", *arguments],  # -P: no modules from here
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            close_fds=True,
            umask=0o077,
            env={**os.environ, **(environment or {})},
        )
    # the process outlives this command on purpose: keep Popen from warning about it
    process.returncode = 0
    return process.pid, birth(process.pid)


def birth(pid: int) -> str:
    """Returns a mark that tells this process from another with the same pid; empty if it has ended."""
    _reap(pid)
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return _birth_without_proc(pid)
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]


def _birth_without_proc(pid: int) -> str:
    if Path("/proc/self/stat").exists():
        return ""
    found = subprocess.run(  # noqa: S603
        ["/bin/ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return found.stdout.strip()


def _reap(pid: int) -> None:
    """Collect the exit status if the process is a child of this one."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return


def alive(pid: int, born: str) -> bool:
    """Returns whether the process that had `pid` when it was `born` still runs."""
    return pid > 0 and birth(pid) == born != ""


def send(pid: int, born: str, number: signal.Signals) -> None:
    """Signal the process if it still runs."""
    if alive(pid, born):
        os.kill(pid, number)


async def stop(pid: int, born: str, *, kill: bool = False) -> bool:
    """End the process: SIGTERM, and SIGKILL if that takes too long (or at once with `kill`).

    True if it ended, or had ended, without SIGKILL.
    """
    graceful = not kill
    send(pid, born, signal.SIGKILL if kill else signal.SIGTERM)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + STOP_SECONDS
    while alive(pid, born):
        if loop.time() > deadline:
            graceful = False
            send(pid, born, signal.SIGKILL)
        await asyncio.sleep(POLL_SECONDS)
    return graceful


def tail(log: Path, lines: int = 8) -> str:
    """The last lines of a log, for an error message."""
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""
