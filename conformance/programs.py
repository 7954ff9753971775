"""Real programs in the slots of a cluster: which slots take them, and what cannot be done to them.

The record of a process names the program that runs in its slot; the time line says at which version it began.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from kubeskew.apimachinery.faults.fault import Fault
from kubeskew.apimachinery.known_bugs import known_bugs
from kubeskew.cluster.programs.interception import obstacle
from kubeskew.cluster.programs.selection import PROGRAMS
from kubeskew.cluster.state import Process
from kubeskew.conformance.errors import ImpossibleError

_STARTED = re.compile(r"(\S+ \S*), /")  # as a shim announces a program: name, version, path
_SAMPLE = 1 << 16  # bytes of a program that its digest covers, at each end: builds are named there


@dataclass(frozen=True, slots=True)
class Programs:
    """The folder of programs, and the slots that take theirs; with `both_ways`, emulated ones run, too."""

    binaries: str
    real: tuple[str, ...]
    both_ways: bool = False

    def as_cluster(self) -> dict[str, object]:
        """The keys of a cluster file."""
        return {"binaries": self.binaries, "real": list(self.real)}

    def digest(self) -> bytes:
        """SHA-256 of the slots and their programs, wherever the folder is."""
        digest = sha256(repr((self.real, self.both_ways)).encode())
        for slot in self.real:
            for path in sorted(Path(self.binaries).glob(f"*/{PROGRAMS[slot]}")):
                status = path.stat()
                digest.update(f"{path.parent.name}/{path.name}".encode())
                digest.update(_sampled(str(path), status.st_size, status.st_mtime_ns))
        return digest.digest()


@cache
def _sampled(path: str, size: int, _changed: int) -> bytes:
    """Programs are large, and a linker writes the digest of a build near the beginning of its file."""
    with Path(path).open("rb") as file:
        head = file.read(_SAMPLE)
        file.seek(max(size - _SAMPLE, 0))
        return sha256(f"{size}".encode() + head + file.read(_SAMPLE)).digest()


def program_of(process: Process) -> str:
    """Name and version, such as `kube-scheduler v1.36.3`; empty for an emulated component."""
    return str(process.program or "")


def announced(detail: str) -> str:
    """Reads name and version of a real program in the announcement of a start; empty for an emulated one."""
    found = _STARTED.match(detail)
    return found[1].strip() if found else ""


def check_emulated(processes: Iterable[Process], what: str) -> None:
    """Raises ImpossibleError if one of them is a real program; `what` says what it cannot do."""
    for process in processes:
        if program := program_of(process):
            raise ImpossibleError(f"{program} runs here, and {what}")


def check_bugs(processes: Iterable[Process]) -> None:
    """Raises ImpossibleError if a known bug is switched that a real program has or lacks by itself."""
    for process in processes:
        program = program_of(process)
        for name in process.bugs if program else ():
            if known_bugs()[name].is_of(process.kind):
                raise ImpossibleError(f"{program} runs here, and no switch of ours changes its bug {name}")


def check_fault(processes: Sequence[Process], fault: Fault) -> None:
    """Raises ImpossibleError for a fault that a real program cannot be given."""
    for process in processes:
        if reason := obstacle(process, fault):
            raise ImpossibleError(f"{program_of(process)} runs here, and {reason}")
