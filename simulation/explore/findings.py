"""A finding is a failure in a run, with all that it takes to run it again.

Findings differ by their signature: the invariant, and the message without chance parts.
"""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from kubeskew.apimachinery.clock import SUFFIX_ALPHABET
from kubeskew.simulation.explore.classes import Verdict
from kubeskew.simulation.explore.timelines import Pair

_DRAWN = rf"-[{SUFFIX_ALPHABET}]{{5}}(?![a-z0-9])"
# Each with what stands for it; the order matters.
_RULES = (
    (re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"), "<uid>"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)?"), "<time>"),
    (re.compile(r"\b0x[0-9a-f]+\b"), "<address>"),
    (re.compile(rf"-[{SUFFIX_ALPHABET}]{{8,10}}(?={_DRAWN})"), "-#"),  # the template's hash of a ReplicaSet
    (re.compile(_DRAWN), "-#"),
    # the kind and the name of an object: which of them it happened to is chance
    (re.compile(r"\b([A-Z][A-Za-z]+) [a-z0-9.-]+/[A-Za-z0-9.:#<>-]+"), r"\1 <name>"),
    (re.compile(r"\b(kubelet|driver|driver-controller)/[A-Za-z0-9.-]+"), r"\1/<name>"),
    (re.compile(r"\d+(?:\.\d+)*"), "N"),
)
FORMAT_VERSION = 1  # of a finding's file
_BUILD_SHOWN = 12


@dataclass(frozen=True, slots=True, order=True)
class Signature:
    invariant: str
    message: str

    def __str__(self) -> str:
        return f"{self.invariant} {self.message}"


def signature(invariant: str, message: str) -> Signature:
    """Drawn names, uids, times, numbers and the names of the objects are left out of the message."""
    text = " ".join(message.split())
    for pattern, stands_for in _RULES:
        text = pattern.sub(stands_for, text)
    return Signature(invariant, text)


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure in a run: an invariant, a step of the scenario, or an exception."""

    invariant: str
    message: str
    revision: int = 0  # of the log, where it came about
    step: str = ""  # of the scenario, where it is one
    mark: Verdict | None = None  # the scenario's own mark, if it expects the failure

    @property
    def signature(self) -> Signature:
        return signature(self.invariant, f"{self.step}: {self.message}" if self.step else self.message)


@dataclass(frozen=True, slots=True)
class Origin:
    """Sources of a run: the same ones give the same log.

    `build` is the digest of kubeskew's own files, `digest` that of these and the scenario; `bugs` are the
    known bugs that the command line switched.
    """

    cell: str
    source: str  # the scenario's name, or its file
    build: str
    digest: str
    bugs: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finding:
    """A failure, its run and its class.

    `plan` is the plan of the faults as JSON; `steps`, if not None, how many of the scenario's steps it takes.
    """

    origin: Origin
    seed: int
    failure: Failure
    verdict: Verdict
    plan: Mapping[str, Any]
    faults: tuple[str, ...]  # of the plan, each in a line
    log_hash: str
    steps: int | None = None
    minimized: bool = False
    trials: int = 0
    seen: int = 1  # runs that had a finding of this signature
    events: tuple[Pair, ...] = ()

    @property
    def id(self) -> str:
        """Names a file; it is the same for all findings of one signature."""
        digest = sha256(str(self.failure.signature).encode()).hexdigest()
        return f"{self.failure.invariant}-{digest[:8]}"

    @property
    def command(self) -> str:
        seed = f"{self.seed}@{self.origin.build[:_BUILD_SHOWN]}"
        bugs = ",".join(f"{name}={'on' if there else 'off'}" for name, there in self.origin.bugs.items())
        switched = ["--bugs", bugs] if bugs else []
        return shlex.join(["kubeskew", "explore", self.origin.cell, "--seed", seed, *switched])

    @property
    def title(self) -> str:
        step = f"{self.failure.step}: " if self.failure.step else ""
        message = " ".join(f"{step}{self.failure.message}".split())
        return f"[{self.verdict.class_}] {self.failure.invariant}: {message}"

    @property
    def size(self) -> str:
        faults = f"{len(self.faults)} fault{'' if len(self.faults) == 1 else 's'}"
        steps = "" if self.steps is None else f", the first {self.steps} steps"
        return f"{faults}{steps}, after {self.trials} trials"

    def again(self, other: "Finding") -> "Finding":
        """The newer run counts if somebody has to look at it, and did not have to so far. The same failure
        may be known in one cell, and not in another."""
        chosen = other if other.verdict.fails and not self.verdict.fails else self
        return replace(chosen, seen=self.seen + 1)

    def as_json(self) -> dict[str, Any]:
        return {
            "formatVersion": FORMAT_VERSION,
            "id": self.id,
            "seed": self.seed,
            "cell": self.origin.cell,
            "invariant": self.failure.invariant,
            "class": self.verdict.class_,
            "title": self.title,
            "message": self.failure.message,
            "signature": self.failure.signature.message,
            "known": {
                "id": self.verdict.entry,
                "reason": self.verdict.reason,
                "source": self.verdict.source,
            },
            "revision": self.failure.revision,
            "step": self.failure.step,
            "faults": list(self.faults),
            "plan": self.plan,
            "steps": self.steps,
            "minimized": self.minimized,
            "trials": self.trials,
            "seen": self.seen,
            "logHash": self.log_hash,
            "scenario": self.origin.source,
            "build": self.origin.build,
            "digest": self.origin.digest,
            "bugs": dict(self.origin.bugs),
            "command": self.command,
            "events": [
                {"with": one.as_json() if one else None, "without": two.as_json() if two else None}
                for one, two in self.events
            ],
        }
