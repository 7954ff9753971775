"""Asks a real program for its version, its flags and its feature gates, before it is started.

Programs of Kubernetes print `Kubernetes v1.36.3` for --version. Their --help has every flag, and every gate
that is neither GA nor locked, as `Name=true|false (BETA - default=true)`; since 1.32 some have a prefix
`kube:`. Source: k8s.io/component-base/{version/verflag,featuregate}, 1.36.
"""

import errno
import os
import re
import signal
import subprocess
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from kubeskew.cluster.failures import UserError

SECONDS = 20.0  # a program of 100 MB from a cold disk takes some
_VERSION = re.compile(r"^Kubernetes (v\S+)", re.MULTILINE)
_MINOR = re.compile(r"^v(\d+)\.(\d+)(?:\.(\d+))?")
_FLAG = re.compile(r"^\s+(?:-\w, )?--([\w-]+)", re.MULTILINE)
_GATE = re.compile(r"(?:^|\s|=|:)(\w+)=true\|false \((\w+) - default=(?:true|false)\)", re.MULTILINE)
_SHOWN = 160


@dataclass(frozen=True, slots=True)
class Program:
    """A program of this machine. `version` is empty for one that is not asked; `gates` have their stages."""

    path: Path
    version: str = ""
    flags: frozenset[str] = frozenset()
    gates: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return " ".join(filter(None, (self.path.name, self.version)))

    @property
    def minor(self) -> int | None:
        """None for a build without a stamp (v0.0.0)."""
        found = _MINOR.match(self.version)
        return int(found[2]) if found and int(found[1]) else None

    @property
    def patch(self) -> int | None:
        found = _MINOR.match(self.version)
        return int(found[3]) if found and found[3] else None


Inspect = Callable[[Path, bool], Program]


def inspect(path: Path, asked: bool = True) -> Program:
    """Raises UserError, in one line, for a file that is no program of this machine or cannot be asked.

    The answers are kept as long as the file does not change. Unless it is `asked`, it need only be a file
    that can be executed.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise UserError(f"there is no program {path}: {error.strerror}") from None
    if not path.is_file():
        raise UserError(f"{path} is no program, but a directory")
    if not os.access(path, os.X_OK):
        raise UserError(f"{path} cannot be executed: make it so with `chmod +x {path}`")
    identity = status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size
    return _answers(path, identity) if asked else Program(path)


@cache
def _answers(path: Path, _identity: tuple[int, ...]) -> Program:
    with ThreadPoolExecutor(2) as pool:
        version, usage = pool.map(lambda flag: _output(path, flag), ("--version", "--help"))
    found = _VERSION.search(version)
    if found is None:
        said = " ".join(version.split())[:_SHOWN] or "nothing"
        raise UserError(f"{path} is no program of Kubernetes: for --version it prints {said}")
    gates = {name: stage.capitalize() for name, stage in _GATE.findall(usage)}
    return Program(path, found[1], frozenset(_FLAG.findall(usage)), gates)


def _output(path: Path, flag: str) -> str:
    try:
        running = subprocess.Popen(  # noqa: S603 - the user's program
            [str(path), flag],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
    except OSError as error:
        hint = ": it is of another architecture, or no program" if error.errno == errno.ENOEXEC else ""
        raise UserError(f"{path} cannot be executed: {error.strerror}{hint}") from None
    with running:
        try:
            output, _ = running.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            raise UserError(f"{path} {flag} does not end: it ran for {SECONDS:.0f} s") from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)  # what a wrapper has started goes with it
    text = output.decode(errors="replace")
    if running.returncode:
        last = (text.strip().splitlines() or ["it prints nothing"])[-1][:_SHOWN]
        raise UserError(f"{path} {flag} fails (exit status {running.returncode}): {last}")
    return text
