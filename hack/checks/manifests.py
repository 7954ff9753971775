#!/usr/bin/env python3
"""Apply manifests as vendors publish them, each to a cluster of its own, and see that all pods become ready.

    hack/checks/manifests.py FILE… [--version V] [--nodes N] [--seconds S] [--kubectl PATH]

FILE is a YAML file; `A.yaml+B.yaml` applies B after A, `A.yaml@argo` in a namespace that is made first. Where
a kind is not served yet, because its definition stands in the same file, the file is applied again, as
vendors say. A pod that ended with success counts as ready, and a workload has to have all the pods it asks
for. Nothing of the manifests runs: images have no entries. Prints a line for each, and below it what is not
ready and what the API server refused. Exits 1 if there is any of that.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_TRIES = 4  # to apply a file whose definitions have to be served first
_WORKLOADS = "deployments,statefulsets,daemonsets,replicasets,jobs"
_SHOWN = 12  # lines of what is wrong


class Tried:
    """One set of manifests on one cluster."""

    def __init__(self, text: str, options: argparse.Namespace) -> None:
        files, _, self._namespace = text.partition("@")
        self._files = [Path(name) for name in files.split("+")]
        self.name = self._files[-1].stem
        self.refused: list[str] = []
        self.waiting: list[str] = []
        self.pods = 0
        self.seconds = 0.0
        self._options = options

    def run(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            state = Path(directory) / "state"
            self._kubeskew(state, "up", "--version", self._options.version, "--nodes", self._options.nodes)
            try:
                begins = time.monotonic()
                if self._namespace:
                    self._kubectl(state, "create", "namespace", self._namespace)
                for file in self._files:
                    self.refused += self._apply(state, file)
                while True:
                    self.waiting = [*self._unready(state)]
                    self.seconds = time.monotonic() - begins
                    if not self.waiting or self.seconds > self._options.seconds:
                        break
                    time.sleep(0.5)
                if self.waiting:
                    self.waiting += self._warnings(state)
            finally:
                self._kubeskew(state, "down", "--purge")

    def _apply(self, state: Path, file: Path) -> list[str]:
        """The errors of the last try."""
        errors: list[str] = []
        for _try in range(_TRIES):
            command = ["apply", "--server-side", "--force-conflicts", "-f", str(file)]
            applied = self._kubectl(state, *command, *(["-n", self._namespace] if self._namespace else []))
            errors = [line for line in applied.stderr.splitlines() if not line.startswith("Warning:")]
            if not any("no matches for kind" in line or "ensure CRDs" in line for line in errors):
                break
            time.sleep(1)
        return errors

    def _unready(self, state: Path) -> Iterator[str]:
        pods = self._items(state, "pods")
        self.pods = len(pods)
        for pod in pods:
            if reason := _why_not_ready(pod):
                yield f"pod {_name(pod)}: {reason}"
        for workload in self._items(state, _WORKLOADS):
            wanted, there = _replicas(workload)
            if there < wanted:
                yield f"{workload['kind']} {_name(workload)}: {there} of {wanted}"

    def _warnings(self, state: Path) -> list[str]:
        events = self._items(state, "events")
        found = [
            f"event {event['involvedObject'].get('name')}: {event.get('message', '')[:300]}"
            for event in events
            if event.get("type") == "Warning"
        ]
        return [*dict.fromkeys(found)]

    def _items(self, state: Path, resource: str) -> list[dict[str, Any]]:
        listed = self._kubectl(state, "get", resource, "-A", "-o", "json")
        items: list[dict[str, Any]] = json.loads(listed.stdout)["items"] if listed.stdout else []
        return items

    def _kubectl(self, state: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [self._options.kubectl, "--kubeconfig", str(state / "kubeconfig"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def _kubeskew(self, state: Path, *arguments: str) -> None:
        command = [sys.executable, "-m", "kubeskew", "--state-dir", str(state), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"kubeskew {' '.join(arguments)}: {done.stderr}")


def _name(found: Mapping[str, Any]) -> str:
    return f"{found['metadata']['namespace']}/{found['metadata']['name']}"


def _replicas(workload: Mapping[str, Any]) -> tuple[int, int]:
    """Counts the pods that a workload wants, and those that are ready or have ended with success."""
    spec, status = workload["spec"], workload.get("status") or {}
    if workload["kind"] == "Job":
        wanted = spec.get("completions") or spec.get("parallelism", 1)
        return (0, 0) if spec.get("suspend") else (wanted, status.get("succeeded", 0))
    if workload["kind"] == "DaemonSet":
        return status.get("desiredNumberScheduled", 1), status.get("numberReady", 0)
    return spec.get("replicas", 1), status.get("readyReplicas", 0)


def _why_not_ready(pod: Mapping[str, Any]) -> str:
    """Empty for a pod that is ready or has ended with success."""
    status = pod.get("status") or {}
    conditions = {condition["type"]: condition for condition in status.get("conditions") or ()}
    if status.get("phase") == "Succeeded" or conditions.get("Ready", {}).get("status") == "True":
        return ""
    for entry in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        state = entry.get("state") or {}
        if reason := (state.get("waiting") or {}).get("reason"):
            return f"{entry['name']} waits: {reason}"
        if state.get("running") and not entry.get("ready"):
            return f"{entry['name']} is not ready"
    scheduled = conditions.get("PodScheduled", {})
    return str(scheduled.get("message") or status.get("phase") or "no status")


def main() -> int:
    """Tries all files; 1 if a pod is not ready or an object was refused."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--version", default="1.36")
    parser.add_argument("--nodes", default="2")
    parser.add_argument("--seconds", type=float, default=120.0, help="for all pods of a file")
    parser.add_argument("--kubectl", default=str(ROOT / ".kubectl" / "1.36" / "kubectl"))
    options = parser.parse_args()
    failed = 0
    for text in options.files:
        tried = Tried(text, options)
        tried.run()
        wrong = [*tried.refused, *tried.waiting]
        failed += bool(wrong)
        print(
            f"{'not ready' if wrong else 'ready':9} {tried.name}: {tried.pods} pods, {tried.seconds:.1f} s",
            flush=True,
        )
        for line in wrong[:_SHOWN]:
            print(f"    {line[:400]}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
