"""The processes of a cluster: their interface, environment variables and logs, and those that are executed.

They outlive the command that started them, so a process is known only by its pid and its birth (the kernel's
start time), which distinguishes it from a later process with the same pid. Each writes a log of its own.
"""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Protocol

from kubeskew.cluster.log_lines import is_ours, time_of

# Components trust the cluster's own authority alone: spare them the machine's, which aiohttp reads (75 ms).
NO_AUTHORITIES = {"SSL_CERT_FILE": os.devnull, "SSL_CERT_DIR": os.devnull}
STOP_SECONDS = 15.0
POLL_SECONDS = 0.02

Identity = tuple[int, str]  # pid and birth

# Of klog, of cobra, and of the Go runtime.
_OURS = "kubeskew: "
_ERROR_LINE = re.compile(r"[EF]\d{4} |(?i:error|panic|fatal)\b")
_QUOTED_ERROR = re.compile(r'err="(?P<text>(?:[^"\\]|\\.)*)"')  # as klog writes it
_ESCAPED = re.compile(r"\\(.)")
_END_LINES = 200  # of a log; a panic has many


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """These variables are added to those `given` to this command.

    If Python must not leave bytecode next to its sources, every start would compile them again, which takes
    as long as the rest of it: components keep theirs in the user's cache, if the user has one.
    """
    found = dict(NO_AUTHORITIES)
    if given.get("PYTHONDONTWRITEBYTECODE") and not given.get("PYTHONPYCACHEPREFIX"):
        bytecode = _bytecode(given)
        if bytecode is not None:
            found["PYTHONPYCACHEPREFIX"] = str(bytecode)
            found["PYTHONDONTWRITEBYTECODE"] = ""
    return found


def _bytecode(given: Mapping[str, str]) -> Path | None:
    """The directory is created in the user's cache if it does not exist.

    It is None if it cannot be written: a home that is read-only, or a user without one. Python would look
    only there, and not find the bytecode of an installation next to the sources.
    """
    try:
        caches = Path(given.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        directory = caches / "kubeskew" / "bytecode"
        directory.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # the latter of a user of whom the system knows no home
        return None
    return directory if os.access(directory, os.W_OK | os.X_OK) else None


class Processes(Protocol):
    def prepare(self, kinds: Collection[str], environment: Mapping[str, str]) -> None:
        """Called before components of these kinds are started."""
        ...

    async def start(self, arguments: Sequence[str], log: Path, environment: Mapping[str, str]) -> Identity:
        """Starts `kubeskew ARGUMENTS` in a session of its own, with `environment` added to the command's; its
        output goes to `log`. Raises ClusterError if it cannot be started.
        """
        ...

    def alive(self, pid: int, born: str) -> bool:
        """True while the process that had `pid` when it was `born` runs, or is being started again."""
        ...

    def is_up(self, pid: int, born: str) -> bool:
        """True while the process runs: one that is alive may have died, and not be back yet."""
        ...

    def send(self, pid: int, born: str, number: signal.Signals) -> None:
        """Processes that have ended get no signal."""
        ...

    async def stop(self, pid: int, born: str, *, kill: bool = False) -> bool:
        """Ends the process: SIGTERM, and SIGKILL if that takes too long (or at once with `kill`), which also
        ends what it has started.

        True if it ended, or had ended, without SIGKILL.
        """
        ...


class KernelProcesses:
    """Finds and ends processes by the kernel's data, independent of their start."""

    def alive(self, pid: int, born: str) -> bool:
        return alive(pid, born)

    def is_up(self, pid: int, born: str) -> bool:
        return alive(pid, born)

    def send(self, pid: int, born: str, number: signal.Signals) -> None:
        if alive(pid, born):
            os.kill(pid, number)

    async def stop(self, pid: int, born: str, *, kill: bool = False) -> bool:
        if not kill:
            self.send(pid, born, signal.SIGTERM)
        graceful = not kill and await _ended(pid, born, STOP_SECONDS)
        if not graceful:
            started = _session_of(pid) if alive(pid, born) else []
            self.send(pid, born, signal.SIGKILL)
            await _ended(pid, born)
            for process in started:
                self.send(*process, signal.SIGKILL)
        return graceful


class ExecutedProcesses(KernelProcesses):
    """Each process has an interpreter of its own, which imports its modules."""

    def prepare(self, kinds: Collection[str], environment: Mapping[str, str]) -> None:
        """Does nothing: an interpreter is of no use before its arguments are known."""

    async def start(self, arguments: Sequence[str], log: Path, environment: Mapping[str, str]) -> Identity:
        with open_log(log) as output:
            process = subprocess.Popen(  # noqa: ASYNC220, S603 - our own entry point; it only forks
                command("kubeskew", *arguments),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                close_fds=True,
                umask=0o077,
                env={**os.environ, **environment},
            )
        # the process outlives this command on purpose: keep Popen from warning about it
        process.returncode = 0
        return process.pid, birth(process.pid)


def command(module: str, *arguments: str) -> list[str]:
    """Modules of the working directory are excluded."""
    return [sys.executable, "-P", "-m", module, *arguments]


def open_log(log: Path) -> BinaryIO:
    """Opens a log to append to it; a new one is readable for its owner only."""
    log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    log.touch(mode=0o600)
    return log.open("ab")


def birth(pid: int) -> str:
    """Distinguishes this process from another with the same pid; empty if it has ended."""
    _reap(pid)
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return _birth_without_proc(pid)
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]


def _session_of(leader: int) -> list[Identity]:
    """The other processes of the session that `leader` began, such as a real program behind a wrapper, which
    ends with its shim only if the shim can see to it. Empty on systems without /proc.
    """
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(file.parent.name)
        if int(fields[3]) == leader != pid:
            found.append((pid, "" if fields[0] in "ZX" else fields[19]))
    return found


def _birth_without_proc(pid: int) -> str:
    if Path("/proc/self/stat").exists():
        return ""
    found = subprocess.run(  # noqa: S603
        ["/bin/ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return found.stdout.strip()


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return


def alive(pid: int, born: str) -> bool:
    """True while the process that had `pid` when it was `born` runs."""
    return pid > 0 and birth(pid) == born != ""


async def _ended(pid: int, born: str, seconds: float | None = None) -> bool:
    """False if the process has not ended within `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            while alive(pid, born):
                await _exit_or_a_while(pid)
    except TimeoutError:
        return False
    return True


async def _exit_or_a_while(pid: int) -> None:
    """Waits for the exit of a process, or POLL_SECONDS where the system cannot report it."""
    try:
        descriptor = os.pidfd_open(pid)
    except (AttributeError, OSError):  # not Linux, or an old one; or it is gone
        await asyncio.sleep(POLL_SECONDS)
        return
    loop, exited = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, exited.set)
    try:
        await exited.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def tail(log: Path, lines: int = 8) -> str:
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""


def _unquoted(error: re.Match[str]) -> str:
    text = _ESCAPED.sub(r"\1", error["text"])
    return f'err="{text}"'


def last_error(log: Path) -> str:
    """The last line in which a real program said why it ended; without one, its last line at all, or its exit
    status, which its shim logs.
    """
    lines = [line.strip() for line in tail(log, _END_LINES).splitlines() if line.strip()]
    own = [line for line in lines if not is_ours(line) and not line.startswith(_OURS)]
    errors = [line for line in own if _ERROR_LINE.match(line)]
    last = _QUOTED_ERROR.sub(_unquoted, (errors or own or lines or ["it printed nothing"])[-1])
    return last.rpartition(_OURS)[2].rpartition(": ")[2] if last.startswith(_OURS) else last


def log_lines_behind(path: Path, offset: int) -> tuple[str, int]:
    """Only complete lines after `offset` are returned, and the offset after them."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            content = file.read()
    except FileNotFoundError:
        return "", offset
    whole = content[: content.rfind(b"\n") + 1]  # a line that is being written comes the next time
    return whole.decode(errors="replace"), offset + len(whole)


def interleaved_logs(logs: Mapping[str, str], now: datetime) -> Iterator[tuple[str, str]]:
    """Lines of all logs come in the order of their times, with their process.

    Lines without a time, such as those of a traceback, stay with the line before them. `now` gives those of
    real programs their year.
    """
    entries = [(*entry, name) for name, text in logs.items() for entry in _with_times(text, now)]
    entries.sort(key=lambda entry: entry[0])  # stable: lines of one moment and log keep their order
    for _, line, name in entries:
        yield name, line


def _with_times(text: str, now: datetime) -> Iterator[tuple[str, str]]:
    time = ""
    for line in text.splitlines():
        time = time_of(line, now) or time
        yield time, line
