"""Recorded sessions of kubectl: run their commands again, and see what is said otherwise.

A golden file is `{"format": 1, "sessions": [...]}`. A session has `name`, `namespace` of its context, `files`
(name → text), `commands` and `cleanup`. A command has `run`, perhaps `in` (standard input), `until` (a
pattern that its output must come to, `within` so many seconds), `compare` (full, stdout, exit), and `expect`:
`exit`, `stdout`, `stderr`, normalised. `${run}` stands for a name that is unique per session and run.
"""

import json
import os
import re
import secrets
import shlex
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Session = Mapping[str, Any]
Outcome = dict[str, Any]  # exit, stdout, stderr

_WITHIN_SECONDS = 20.0
# `kubectl wait` fails, instead of waiting, at an object whose `conditions` are still null.
_TOO_EARLY = ".status.conditions accessor error: <nil> is of the type <nil>"
_PARTS = {"full": ("exit", "stdout", "stderr"), "stdout": ("exit", "stdout"), "exit": ("exit",)}
_SAFE = "bcdfghjklmnpqrstvwxz2456789"  # the alphabet of generated names
_HASH = rf"[{_SAFE}]{{8,10}}"
_BEFORE_HASH = (
    r"pod-template-hash[=:] ?|replicaset\.apps/[\w-]+?-|[Rr]eplica[Ss]et:? +\"?[\w-]+?-|replica set [\w-]+?-"
)

# What differs from run to run, and what stands in its place.
_CHANGING = (
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<uid>"),
    (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
    (r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "<date>"),
    (r'(resourceVersion"?: ?)"\d+"', r'\1"<rv>"'),
    (r"(Resource Version: +)\d+", r"\1<rv>"),
    (rf"-{_HASH}-[{_SAFE}]{{5}}\b", "-<hash>-<random>"),
    (rf"({_BEFORE_HASH})\"?{_HASH}\b\"?", r"\1<hash>"),
    (r"\b10\.96\.\d+\.\d+\b", "<ip>"),
    (r"(?m)^[EWI]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ (\w+\.go):\d+\]", r"<log> \1]"),
    (r"(?m)(^|(?<=\s))(?:<invalid>|(?:\d+[ydhms]){1,2})(?=\s|$)", "<age>"),
    (r"(?m)(?<=\S) {2,}", "  "),
    (r"(?m)[ \t]+$", ""),
)


def load(golden: Path) -> dict[str, Session]:
    """The sessions of a golden file by name."""
    return {session["name"]: session for session in json.loads(golden.read_text())["sessions"]}


def differences(session: Session, outcomes: list[Outcome]) -> list[str]:
    """Returns where the outcomes are not as recorded, one text for each."""
    found = []
    for command, outcome in zip(session["commands"], outcomes, strict=True):
        for part in _PARTS[command.get("compare", "full")]:
            recorded, got = command["expect"][part], outcome[part]
            if recorded != got:
                found.append(f"{command['run']}: {part}:\nrecorded:\n{recorded}\ngot:\n{got}")
    return found


@dataclass(frozen=True)
class Replayer:
    """Runs sessions with one kubectl against one server, each in a directory of its own below `root`."""

    binary: Path
    kubeconfig: str
    server: str
    root: Path

    def replay(self, session: Session) -> list[Outcome]:
        """Runs each command of the session and returns what it does now, normalised."""
        run = f"r{secrets.token_hex(4)}"
        folder = self.root / run
        folder.mkdir()
        (folder / "kubeconfig").write_text(self.kubeconfig)
        for name, text in session.get("files", {}).items():
            (folder / name).write_text(text.replace("${run}", run))
        if "namespace" in session:
            use = f"kubectl config set-context --current --namespace={session['namespace']}"
            self._run({"run": use}, run, folder)
        outcomes = [self._until(command, run, folder) for command in session["commands"]]
        for command in session.get("cleanup", ()):
            self._run({"run": command}, run, folder)
        return outcomes

    def _until(self, command: Mapping[str, Any], run: str, folder: Path) -> Outcome:
        """The command's outcome; one that waits for something is asked again until that has come."""
        wanted = re.compile(command.get("until", "").replace("${run}", run))
        deadline = time.monotonic() + command.get("within", _WITHIN_SECONDS)
        while True:
            outcome = self._run(command, run, folder)
            come = wanted.search(outcome["stdout"]) and outcome["exit"] == command["expect"]["exit"]
            too_early = _TOO_EARLY in outcome["stderr"]
            if not too_early and ("until" not in command or come):
                break
            if time.monotonic() > deadline:
                outcome["stderr"] += f"\nnever came to {wanted.pattern}"
                break
            time.sleep(0.1)
        return {name: self._normalised(value, run) for name, value in outcome.items()}

    def _run(self, command: Mapping[str, Any], run: str, folder: Path) -> Outcome:
        program, *words = shlex.split(command["run"].replace("${run}", run))
        assert program == "kubectl"
        done = subprocess.run(
            [str(self.binary), *words],
            input=command.get("in", "").replace("${run}", run),
            capture_output=True,
            text=True,
            timeout=150,
            cwd=folder,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(folder),
                "KUBECONFIG": str(folder / "kubeconfig"),
                "KUBECACHEDIR": str(folder / "cache"),
                "TZ": "UTC",
            },
        )
        return {"exit": done.returncode, "stdout": done.stdout, "stderr": done.stderr}

    def _normalised(self, value: Any, run: str) -> Any:
        if not isinstance(value, str):
            return value
        text = value.replace(run, "${run}").replace(run.capitalize(), "${Run}").replace(run.upper(), "${RUN}")
        text = text.replace(self.server, "${server}").replace(self.server.partition("//")[2], "${host}")
        for pattern, replacement in _CHANGING:
            text = re.sub(pattern, replacement, text)
        return text
