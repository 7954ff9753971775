"""Files of faults: the plan of a cluster, and per component a journal of how far its faults have come.

`plan.json` is written by the cluster's commands. Each component appends to a journal of its own, before a
fault has any effect: so the journal outlives a SIGKILL, and has the progress of a component that died. Its
lines:

    {"applied": 7, "seen": {"update pods/status": 3}}             the plan of revision 7 is in effect
    {"id": "lost", "set": 6, "matched": 4, "fired": 1, "since": 1764000000.0}
"""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson

from kubeskew.apimachinery.faults.decisions import Progress
from kubeskew.apimachinery.faults.fault import Fault
from kubeskew.apimachinery.faults.syntax import read
from kubeskew.apimachinery.known_names import names_of

PLAN = "plan.json"


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault of the plan. `generation` is the revision of the plan at which it was set."""

    generation: int
    fault: Fault
    body: dict[str, Any]  # as it was written

    def as_json(self) -> dict[str, Any]:
        return {"set": self.generation, "fault": self.body}


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """All faults of a cluster. `revision` grows with each change."""

    revision: int = 0
    entries: tuple[PlannedFault, ...] = ()

    def of(self, component: str) -> Sequence[PlannedFault]:
        """Includes faults that were put into the component together with another."""
        names = names_of(component)
        return [entry for entry in self.entries if entry.fault.component in names]

    def as_json(self) -> dict[str, Any]:
        return {"revision": self.revision, "faults": [entry.as_json() for entry in self.entries]}


def load_plan(directory: Path) -> FaultPlan:
    """Empty if there is no plan in the directory. Raises OSError, FaultError, KeyError."""
    try:
        value = orjson.loads((directory / PLAN).read_bytes())
    except FileNotFoundError:
        return FaultPlan()
    entries = [PlannedFault(entry["set"], read(entry["fault"]), entry["fault"]) for entry in value["faults"]]
    return FaultPlan(value["revision"], tuple(entries))


@dataclass(slots=True)
class Account:
    """Contents of a journal: the plan in effect, the calls seen until then, the progress of each fault."""

    applied: int = 0
    seen: Counter[str] = field(default_factory=Counter)
    progress: dict[tuple[str, int], Progress] = field(default_factory=dict)  # by id and generation


def journal_path(directory: Path, component: str) -> Path:
    return directory / f"{quote(component, safe='')}.jsonl"


def read_account(path: Path) -> Account:
    """Empty if there is no journal. A line cut short by a crash is left out."""
    account = Account()
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return account
    for line in lines:
        try:
            entry = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        if "applied" in entry:
            account.applied, account.seen = entry["applied"], Counter(entry["seen"])
        else:
            progress = Progress(entry["matched"], entry["fired"], entry["since"])
            account.progress[entry["id"], entry["set"]] = progress
    return account


class FileJournal:
    def __init__(self, directory: Path, component: str) -> None:
        self._path = journal_path(directory, component)
        self._entries: dict[str, PlannedFault] = {}
        self._file = -1

    def take_up(self, entries: Sequence[PlannedFault], account: Account) -> list[tuple[Fault, Progress]]:
        """Pairs the plan's faults with their counters; later notes are about these entries."""
        self._entries = {entry.fault.id: entry for entry in entries}
        known = account.progress
        return [(e.fault, known.get((e.fault.id, e.generation)) or Progress()) for e in entries]

    def account(self) -> Account:
        return read_account(self._path)

    def applied(self, revision: int, seen: Counter[str]) -> None:
        """Notes that the plan of a revision is in effect, and the calls until now."""
        self._append({"applied": revision, "seen": dict(seen)})
        self.close()  # most components have no fault, and a process may have hundreds of them

    def note(self, fault: Fault, progress: Progress) -> None:
        entry = self._entries[fault.id]
        counters = {"matched": progress.matched, "fired": progress.fired, "since": progress.since}
        self._append({"id": fault.id, "set": entry.generation, **counters})

    def _append(self, entry: dict[str, Any]) -> None:
        if self._file < 0:
            self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(self._file, orjson.dumps(entry) + b"\n")

    def close(self) -> None:
        """Closes the file; the next entry opens it again."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
