"""A real kubelet of one's own on `kubeskew cri --runtime host`: containers are processes; it needs root."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from asking import Local, eventually

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.cluster.pki import Authority, KeyPair, RandomKeys
from kubeskew.cluster.programs import kubelets
from kubeskew.kubelet.containers.host.cleanup import cleanup
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.node.config import NodeLayout, node_config
from kubeskew.shim import mount_namespace

pytestmark = [pytest.mark.real, pytest.mark.cluster, pytest.mark.timeout(300)]

NODE = node_config({"name": "node-1", "capacity": {"cpu": "4", "memory": "8Gi"}})
# The kubelet's mounts, such as tokens, are to reach the containers (mount_namespaces(7)).
SHARED = 'mount --make-rshared / && exec "$@"'
# Starts the kubelet again whenever it ends.
LOOP = 'while "$@"; do :; done & echo $$ > "$PIDS"; wait'
SCENARIO = """
apiVersion: chainsaw.kyverno.io/v1alpha1
kind: Test
metadata: {name: processes}
spec:
  timeouts: {assert: 60s, error: 30s, delete: 60s}
  steps:
  - name: a pod runs
    try:
    - create:
        resource:
          apiVersion: v1
          kind: Pod
          metadata: {name: app}
          spec:
            terminationGracePeriodSeconds: 2
            volumes: [{name: shared, emptyDir: {}}]
            initContainers:
            - name: first
              image: busybox
              command: [sh, -c, "echo made > /shared/made; echo first was here"]
              volumeMounts: &mounts [{name: shared, mountPath: /shared}]
            containers:
            - name: main
              image: busybox
              command: [sh, -c, "touch /tmp/ready; echo main is here; while true; do sleep 1; done"]
              env: [{name: WHO, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
              volumeMounts: *mounts
              readinessProbe: {exec: {command: [test, -e, /tmp/ready]}, periodSeconds: 1}
    - assert: &ready
        resource:
          apiVersion: v1
          kind: Pod
          metadata: {name: app}
          status: {phase: Running, "(containerStatuses[0].ready)": true}
        outputs: [{name: id, value: "(status.containerStatuses[0].containerID)"}]
  - name: it can be looked into
    try:
    - podLogs: {name: app, container: first, matches: ^first was here$}
    - podLogs: {name: app, container: main, matches: ^main is here$}
    - exec: &look
        name: app
        container: main
        command: [sh, -c, 'echo $WHO $(cat /shared/made)']
        matches: ^app made$
    - exec: {<<: *look, command: [ls, /var/run/secrets/kubernetes.io/serviceaccount], matches: token}
    - exec: {name: app, container: main, command: [sh, -c, exit 3], exitCode: 3}
  - name: a probe fails
    try:
    - exec: {name: app, container: main, command: [rm, /tmp/ready]}
    - assert:
        resource:
          apiVersion: v1
          kind: Pod
          metadata: {name: app}
          status: {"(containerStatuses[0].ready)": false}
    - exec: {name: app, container: main, command: [touch, /tmp/ready]}
    - assert: *ready
  - name: the kubelet restarts
    try:
    - script: {content: 'kill $(pgrep -P $(cat "$PIDS"))', env: [{name: PIDS, value: PID-FILE}]}
    - description: it takes pods again
      create:
        resource:
          apiVersion: v1
          kind: Pod
          metadata: {name: next}
          spec: {restartPolicy: Never, containers: [{name: c, image: busybox, command: [sh, -c, exit 0]}]}
    - assert: {resource: {apiVersion: v1, kind: Pod, metadata: {name: next}, status: {phase: Succeeded}}}
    - exec: *look
    - assert:
        resource:
          apiVersion: v1
          kind: Pod
          metadata: {name: app}
          status:
            phase: Running
            (containerStatuses[0].containerID == $id): true
            (containerStatuses[0].restartCount): 0
  - name: the pods go
    try:
    - delete: {ref: {apiVersion: v1, kind: Pod}}
"""


@pytest.fixture
def directory() -> Iterator[Path]:
    """A short one, for sockets."""
    with tempfile.TemporaryDirectory(prefix="ks-") as found:
        yield Path(found)


@pytest.mark.parametrize("minor", ["1.31", "1.36"])
def test_a_kubelet_of_ones_own_runs_pods_that_are_processes(minor: str, binaries: Path, directory: Path):
    """A pod with an init container, a probe and a volume runs, can be looked into, and lives over a restart
    of the kubelet; when it has been deleted, and the runtime has ended, nothing is left."""
    program, busybox = binaries / minor / "kubelet", shutil.which("busybox")
    if not program.exists():
        pytest.skip(f"there is no {program}")
    if busybox is None:
        pytest.skip("there is no busybox for the pods: install it, statically linked")
    if obstacle := kubelets.obstacle():
        pytest.skip(obstacle)
    local = Local(directory / "state")
    local.run("up", "--version", minor, "--nodes", "0")
    try:
        with runtime(directory, busybox) as process, kubelet(minor, program, directory, process):
            scenario = directory / "processes.yaml"
            scenario.write_text(SCENARIO.replace("PID-FILE", str(directory / "pids")))
            local.run("run", str(scenario), "--kubeconfig", str(local.state / "kubeconfig"), seconds=200)
        eventually(lambda: not processes(directory / "nodes"))
    finally:
        cleanup(directory / "nodes")
        local.run("down", "--purge")
    assert not [line for line in Path("/proc/mounts").read_text().splitlines() if str(directory) in line]


@contextmanager
def runtime(directory: Path, busybox: str) -> Iterator["subprocess.Popen[bytes]"]:
    """`kubeskew cri`, in the mount namespace that the kubelet is to have, too."""
    root, logs, nodes, listening = (directory / name for name in ("kubelet", "log", "nodes", "cri.sock"))
    for each in (root, logs, nodes):
        each.mkdir()
    machine = kubelets.write_machine(NodeLayout.under(directory, "machine-of"), NODE)
    wrapper = [*mount_namespace.command(root, logs, machine), str(os.getpid())]
    command = [sys.executable, "-m", "kubeskew", "cri", f"--listen=unix://{listening}"]
    options = [f"--root-dir={nodes}", "--node-name=node-1", "--runtime=host", f"--image=busybox*={busybox}"]
    with (directory / "cri.log").open("wb") as log:
        process = subprocess.Popen(
            [*wrapper, "/bin/sh", "-c", SHARED, "sh", *command, *options], stdout=log, stderr=log
        )
        try:
            eventually(lambda: listening.exists() or process.poll() is not None)
            assert process.poll() is None, (directory / "cri.log").read_text()
            yield process
        finally:
            process.terminate()
            process.wait(30)


@contextmanager
def kubelet(minor: str, program: Path, directory: Path, beside: "subprocess.Popen[bytes]") -> Iterator[None]:
    """A kubelet that is started as somebody would who has the cluster's kubeconfig and authority."""
    state, address = directory / "state", kubelets.machine_address()
    pair = KeyPair((state / "ca.crt").read_bytes(), (state / "pki" / "ca.key").read_bytes())
    serving = Authority(pair, datetime.now(UTC), RandomKeys()).node_serving([address])
    (directory / "kubelet.crt").write_bytes(serving.certificate)
    (directory / "kubelet.key").write_bytes(serving.key)
    features = KubeletFeatures.of(FeatureGates(Version.parse(minor))).configuration
    config = kubelets.configuration(NODE, free_port(), features, str(directory / "cri.sock"))
    config["authentication"]["x509"] = {"clientCAFile": str(state / "ca.crt")}
    config |= {
        f"tls{name}File": str(directory / f"kubelet.{end}")
        for name, end in (("Cert", "crt"), ("PrivateKey", "key"))
    }
    (directory / "config.yaml").write_text(yaml.safe_dump(config))
    arguments = kubelets.arguments(NODE, directory / "config.yaml", state / "kubeconfig")
    command = ["nsenter", f"--target={beside.pid}", "--mount", "--", str(program), *arguments]
    with (directory / "kubelet.log").open("wb") as log:
        process = subprocess.Popen(
            ["sh", "-c", LOOP, "kubelet", *command],
            env={**os.environ, "PIDS": str(directory / "pids")},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            yield
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def processes(directory: Path) -> list[str]:
    """The processes of a runtime's containers, and those that started them."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (
                str(directory).encode()
                in (entry / "cmdline").read_bytes() + (entry / "mountinfo").read_bytes()
            ):
                found.append(entry.name)
    return found
