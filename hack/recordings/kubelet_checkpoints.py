"""Make `tests/data/kubelet-files/checkpoints.jsonl`: which kubelet reads the checkpoints of which other one.

    kubelet_checkpoints.py --binaries DIR --kubeskew .venv/bin/kubeskew --output FILE

DIR has kubelets by minor, as for `kubeskew up --binaries`. Each real kubelet, and that of kubeskew's newest
release, runs two pods on a node with static policies, a driver and a device plugin; its files are kept. Then
each real kubelet is started, without an API server, on the files of each: a file that it refuses is noted and
taken away, and it is started again. A line of the output is one file of one kubelet:

    writer    its minor, with a plus and a gate where one is on that such files do not need
    file      its name
    text      what it had
    readers   for each kubelet, named so, the exit code with which it ended, or null, and what it said of it

What the machine has to have for real kubelets is in docs/how-to/real.md.
"""

import argparse
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from kubeskew.apimachinery.clock import SystemClock
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.cluster.platform import Platform
from kubeskew.cluster.processes import ExecutedProcesses
from kubeskew.cluster.programs import kubelets
from kubeskew.cluster.state import StateDir
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.node.config import NodeLayout, node_config
from kubeskew.shim import mount_namespace
from kubeskew.testing.client import Client
from kubeskew.testing.event_loop import EventLoop
from kubeskew.testing.running_cluster import RunningCluster, Surroundings

MINORS = range(31, 37)
NEWEST = 37  # of which there is no real kubelet
FILES = (
    "dra_manager_state",
    "pod_status_manager_state",
    "allocated_pods_state",
    "actuated_pods_state",
    "cpu_manager_state",
    "memory_manager_state",
    "device-plugins/kubelet_internal_checkpoint",
)
NODE_NAME = "node-1"
NODE = {
    "name": NODE_NAME,
    "capacity": {"cpu": "4", "memory": "8Gi"},
    "cpuManagerPolicy": "static",
    "memoryManagerPolicy": "Static",
    "kubeReserved": {"cpu": "1", "memory": "1Gi"},
}
DRIVER, RESOURCE = "gpu.example.com", "example.com/dp"
_START_SECONDS = 60.0
_POLL_SECONDS = 0.1
# What kubelets log about a file that they refuse, or go on without.
_REFUSAL = re.compile(
    r'(?:"command failed" err="failed to run Kubelet: |"Failed to start ContainerManager" err="'
    r'|[Cc]ould not initialize [^"]*" err="|Continue after failing to read checkpoint file[^"]*" err=")'
    r'(?P<text>(?:[^"\\]|\\.)*)"'
)


@dataclass(frozen=True)
class Kubelet:
    """A release with gates in addition to those without which it would have no such files."""

    minor: int
    gates: Mapping[str, bool] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return "+".join([f"1.{self.minor}", *self.gates])

    @property
    def all_gates(self) -> dict[str, bool]:
        return {**gates_of(self.minor), **self.gates}


REAL = (*map(Kubelet, MINORS), Kubelet(36, {"PodLevelResourceManagers": True}))
WRITERS = (*REAL, Kubelet(NEWEST))


def gates_of(minor: int) -> dict[str, bool]:
    """The gates without which a kubelet has no such files, where they are off by default."""
    gates = {"DynamicResourceAllocation": True} if minor < 34 else {}
    return gates | ({"InPlacePodVerticalScaling": True} if minor < 33 else {})


def cluster_file(writer: Kubelet) -> dict[str, Any]:
    version = resource_version(writer.minor)
    return {
        "version": f"1.{writer.minor}",
        "featureGates": writer.all_gates,
        "runtimeConfig": {f"resource.k8s.io/{version}": True},
        "nodes": [
            {
                **NODE,
                "drivers": [{"name": DRIVER, "devices": 2}],
                "devicePlugins": [{"resource": RESOURCE, "devices": 2}],
            }
        ],
    }


def resource_version(minor: int) -> str:
    """Names the version of resource.k8s.io that a release's kubelet asks for."""
    return {31: "v1alpha3", 32: "v1beta1", 33: "v1beta1"}.get(minor, "v1")


def objects(minor: int) -> Iterator[dict[str, Any]]:
    """One pod has CPUs, memory and a device of its own, the other one a claim."""
    version = f"resource.k8s.io/{resource_version(minor)}"
    named = {"deviceClassName": "gpu"}
    request = {"name": "r", **({"exactly": named} if minor >= 34 else named)}
    amounts = {"cpu": "1", "memory": "64Mi", RESOURCE: "1"}
    selector = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}
    yield {
        "apiVersion": version,
        "kind": "DeviceClass",
        "metadata": {"name": "gpu"},
        "spec": {"selectors": [selector]},
    }
    yield {
        "apiVersion": version,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "gpu"},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }
    yield pod("exclusive", {"limits": amounts, "requests": amounts})
    some = {"requests": {"cpu": "100m"}, "claims": [{"name": "d"}]}
    yield pod("claimed", some, resourceClaims=[{"name": "d", "resourceClaimTemplateName": "gpu"}])


def pod(name: str, resources: Mapping[str, Any], **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "busybox", "resources": resources}
    metadata = {"name": name}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], **spec},
    }


# -- writing


def written(writer: Kubelet, binaries: Path, kubeskew: str, directory: Path) -> dict[str, str]:
    """Runs a cluster until its pods run, and returns the node's files by name."""
    file, state = directory / "cluster.yaml", directory / "state"
    file.write_text(yaml.safe_dump(cluster_file(writer)))
    real = [f"--binaries={binaries}", "--real=kubelet"] if writer.minor in MINORS else []
    command = [kubeskew, "--state-dir", str(state)]
    run([*command, "up", "--config", str(file), *real])
    try:
        with client_of(state) as client:
            for each in objects(writer.minor):
                client.create(each)
            names = ("exclusive", "claimed")
            await_that(
                lambda: all(
                    client.get("v1", "Pod", name).get("status", {}).get("phase") == "Running"
                    for name in names
                )
            )
        root = NodeLayout.under(StateDir(state).kubelet_root(), NODE_NAME).kubelet
        return {name: (root / name).read_text() for name in FILES if (root / name).exists()}
    finally:
        run([*command, "down", "--purge"])


@contextmanager
def client_of(state: Path) -> Iterator[Client]:
    loop = EventLoop()
    surroundings = Surroundings(loop, Platform(SystemClock(), ExecutedProcesses()))
    running = RunningCluster(state, surroundings, "default")
    try:
        yield running.client
    finally:
        running.close()
        loop.close()


def run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")


def await_that(holds: Any, seconds: float = _START_SECONDS) -> None:
    ends = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > ends:
            sys.exit("gave up")
        time.sleep(_POLL_SECONDS)


# -- reading


@dataclass
class Reader:
    """Starts a real kubelet, without an API server, on a runtime that is served elsewhere."""

    kubelet: Kubelet
    program: Path
    directory: Path
    cri: Path

    def outcomes(self, files: Mapping[str, str]) -> dict[str, tuple[int | None, str]]:
        found: dict[str, tuple[int | None, str]] = {}
        left = dict(files)
        while True:
            code, texts = self._started(left)
            culprits = {about(text, left): text for text in texts}
            for name, text in culprits.items():
                found[name] = code, text
                left.pop(name)
            if code is None:
                return {name: found.get(name, (None, "")) for name in files}
            if not culprits:
                sys.exit(f"{self.kubelet.name} ended with {code}, see {self.directory / 'log.txt'}")

    def _started(self, files: Mapping[str, str]) -> tuple[int | None, list[str]]:
        """Returns the exit code, None if the kubelet runs, and what it says of files."""
        command = self._command(files)
        log = self.directory / "log.txt"
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
            try:
                # The managers have read their files when the device plugins' socket is there.
                ready = self.directory / "kubelet" / "device-plugins" / "kubelet.sock"
                await_that(lambda: ready.exists() or process.poll() is not None)
                code = process.poll()
            finally:
                process.kill()
                process.wait()
        texts = [json.loads(f'"{each["text"]}"') for each in _REFUSAL.finditer(log.read_text())]
        return code, list(dict.fromkeys(texts))

    def _command(self, files: Mapping[str, str]) -> list[str]:
        root, logs, machine = (self.directory / name for name in ("kubelet", "log", "machine"))
        shutil.rmtree(root, ignore_errors=True)
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        node = node_config(NODE)
        layout = NodeLayout.under(self.directory, "machine-of")
        described = kubelets.write_machine(layout, node)
        shutil.rmtree(machine, ignore_errors=True)
        described.rename(machine)
        config = self.directory / "config.yaml"
        config.write_text(yaml.safe_dump(self._configuration(node)))
        flags = [
            f"--config={config}",
            f"--root-dir={kubelets.ROOT}",
            f"--cert-dir={kubelets.ROOT}/pki",
            f"--hostname-override={node.name}",
        ]
        return [*mount_namespace.command(root, logs, machine), str(os.getpid()), str(self.program), *flags]

    def _configuration(self, node: Any) -> dict[str, Any]:
        gates = self.kubelet.all_gates
        features = KubeletFeatures.of(FeatureGates(Version(self.kubelet.minor), gates)).configuration
        config = kubelets.configuration(node, free_port(), features, str(self.cri))
        config |= {"featureGates": gates, "address": "127.0.0.1"}
        config["authentication"] = {"anonymous": {"enabled": True}, "webhook": {"enabled": False}}
        config["authorization"] = {"mode": "AlwaysAllow"}
        return config


def about(text: str, files: Mapping[str, str]) -> str:
    """Finds the file that a kubelet speaks of; of the device manager's it does not give the name."""
    return next((name for name in files if name in text), FILES[-1])


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def cri_server(kubeskew: str, directory: Path) -> Iterator[Path]:
    socket_file, nodes = directory / "cri.sock", directory / "nodes"
    nodes.mkdir()
    command = [kubeskew, "cri", f"--listen=unix://{socket_file}", f"--root-dir={nodes}"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        await_that(socket_file.exists)
        yield socket_file
    finally:
        server.terminate()
        server.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description="Record which kubelet reads whose checkpoints.")
    parser.add_argument("--binaries", type=Path, required=True)
    parser.add_argument("--kubeskew", default="kubeskew")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    obstacle = kubelets.obstacle()
    if obstacle:
        sys.exit(obstacle)
    rows = []
    with tempfile.TemporaryDirectory(prefix="ks-") as temporary:
        directory = Path(temporary)
        states = {}
        for number, writer in enumerate(WRITERS):
            place = directory / f"writer-{number}"
            place.mkdir()
            states[writer.name] = written(writer, options.binaries, options.kubeskew, place)
            print(f"{writer.name} wrote {len(states[writer.name])} files", file=sys.stderr)
        found: dict[str, dict[str, dict[str, tuple[int | None, str]]]] = {name: {} for name in states}
        with cri_server(options.kubeskew, directory) as cri:
            for number, kubelet in enumerate(REAL):
                place = directory / f"reader-{number}"
                place.mkdir()
                program = options.binaries / f"1.{kubelet.minor}" / "kubelet"
                reader = Reader(kubelet, program, place, cri)
                for name, files in states.items():
                    found[name][kubelet.name] = reader.outcomes(files)
                print(f"{kubelet.name} read all", file=sys.stderr)
    for writer in WRITERS:
        for name, text in states[writer.name].items():
            readers = {reader: list(outcomes[name]) for reader, outcomes in found[writer.name].items()}
            row = {"writer": writer.name, "file": Path(name).name}
            rows.append({**row, "text": text, "readers": readers})
    options.output.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


if __name__ == "__main__":
    main()
