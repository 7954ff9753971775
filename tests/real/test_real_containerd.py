"""A cluster whose pods run on a containerd of the test's own.

It needs root, containerd, runc, CNI's plugins and busybox.
"""

import hashlib
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kubeskew.kubelet.containers.host.images.store import ImageSource, ImageStore

ROOT = Path(__file__).parents[2]
KUBECTL = Path(os.environ.get("KUBECTL_DIR", ROOT / ".kubectl")) / "1.36" / "kubectl"
BUSYBOX, PAUSE = "docker.io/library/busybox:1.36", "kubeskew.example/pause:1"
PLUGINS = [Path("/opt/cni/bin"), Path("/usr/lib/cni")]
CONFIG = """
version = 2
root = "{root}/root"
state = "{root}/state"
[grpc]
  address = "{root}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{root}/cni"
"""
NETWORK = {
    "cniVersion": "0.4.0",
    "name": "kubeskew-test",
    "plugins": [
        {
            "type": "ptp",
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": "10.213.71.0/24"}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        },
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ],
}
POD = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 5
  initContainers:
  - name: first
    image: busybox:1.36
    command: [sh, -c, "echo made by first >/data/index.html"]
    volumeMounts: [{name: data, mountPath: /data}]
  containers:
  - name: main
    image: busybox:1.36
    command:
    - sh
    - -c
    - "trap 'echo bye >/dev/termination-log; exit 7' TERM; echo started; httpd -p 8080 -h /data;
      while true; do sleep 0.2; done"
    readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
    livenessProbe: {exec: {command: [test, -f, /data/index.html]}, periodSeconds: 1, failureThreshold: 1}
    volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, emptyDir: {}}]
"""

pytestmark = [pytest.mark.real, pytest.mark.cluster, pytest.mark.timeout(300)]


def archive(root: Path, name: str, entrypoint: list[str]) -> bytes:
    """An OCI archive of a root file system."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as files:
        files.add(root, ".")
    blobs = {}

    def blob(content: bytes, kind: str) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        media_type = f"application/vnd.oci.image.{kind}"
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    packed = blob(layer.getvalue(), "layer.v1.tar")
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"], "Entrypoint": entrypoint},
        "rootfs": {"type": "layers", "diff_ids": [packed["digest"]]},
    }
    described = blob(json.dumps(config).encode(), "config.v1+json")
    manifest = {"schemaVersion": 2, "config": described, "layers": [packed]}
    entry = blob(json.dumps(manifest).encode(), "manifest.v1+json")
    index = {"schemaVersion": 2, "manifests": [entry | {"annotations": {"io.containerd.image.name": name}}]}
    found = io.BytesIO()
    with tarfile.open(fileobj=found, mode="w") as files:
        written = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}', "index.json": json.dumps(index).encode()}
        for path, content in {**written, **blobs}.items():
            member = tarfile.TarInfo(path)
            member.size = len(content)
            files.addfile(member, io.BytesIO(content))
    return found.getvalue()


@dataclass
class Containerd:
    """A containerd with its own directories."""

    root: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def socket(self) -> Path:
        return self.root / "containerd.sock"

    def start(self) -> None:
        with (self.root / "containerd.log").open("ab") as log:
            self.process = subprocess.Popen(["containerd", "--config", self.root / "config.toml"], stderr=log)
        self.eventually(lambda: self.ctr("version", check=False).returncode == 0)

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def ctr(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        command = ["ctr", "--address", str(self.socket), "--namespace", "k8s.io", *arguments]
        return subprocess.run(command, text=True, capture_output=True, check=check)

    @staticmethod
    def eventually(check: Callable[[], Any], seconds: float = 60) -> Any:
        end = time.monotonic() + seconds
        while not (found := check()):
            assert time.monotonic() < end
            time.sleep(0.2)
        return found


@pytest.fixture(scope="module")
def containerd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containerd]:
    busybox, plugins = shutil.which("busybox"), next((each for each in PLUGINS if each.is_dir()), None)
    missing = [name for name in ("containerd", "runc", "ctr") if shutil.which(name) is None]
    missing += [] if busybox else ["busybox"]
    missing += [] if plugins else ["plugins of CNI"]
    if missing or os.geteuid() != 0 or not KUBECTL.exists():
        lacks = [*missing, *(["root"] if os.geteuid() else []), *([] if KUBECTL.exists() else ["kubectl"])]
        pytest.skip(f"pods on containerd need {', '.join(lacks)}")
    root = tmp_path_factory.mktemp("c")
    (root / "cni").mkdir()
    (root / "cni" / "10-test.conflist").write_text(json.dumps(NETWORK))
    (root / "config.toml").write_text(CONFIG.format(root=root, pause=PAUSE, plugins=plugins))
    found = Containerd(root)
    found.start()
    try:
        files = ImageStore(root / "images").unpack(ImageSource(program=Path(str(busybox))), ["busybox"]).root
        for name, entrypoint in ((BUSYBOX, []), (PAUSE, ["sleep", "infinity"])):
            (root / "image.tar").write_bytes(archive(files, name, entrypoint))
            found.ctr("images", "import", "--snapshotter", "native", str(root / "image.tar"))
        yield found
    finally:
        found.process.terminate()
        found.process.wait()
        for mount in [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()][::-1]:
            if mount.startswith(f"{root}/"):
                subprocess.run(["umount", "--lazy", mount], check=False)


class Cluster:
    """A cluster of one node on that containerd."""

    def __init__(self, directory: Path, endpoint: str) -> None:
        self.directory, self.endpoint = directory, endpoint
        self.environment = {
            **os.environ, "PYTHONPATH": str(ROOT), "KUBECONFIG": str(directory / "kubeconfig")
        }  # fmt: skip

    def kubeskew(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "kubeskew", *arguments, "--state-dir", str(self.directory)]
        done = subprocess.run(command, env=self.environment, text=True, capture_output=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def kubectl(self, *arguments: str, stdin: str = "", code: int = 0) -> str:
        done = subprocess.run(
            [KUBECTL, *arguments],
            env=self.environment, input=stdin, text=True, capture_output=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        return done.stdout

    def pod(self) -> Any:
        return json.loads(self.kubectl("get", "pod", "web", "-o", "json"))


@pytest.fixture(scope="module")
def cluster(containerd: Containerd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    found = Cluster(tmp_path_factory.mktemp("s") / "state", f"unix://{containerd.socket}")
    found.kubeskew("up", "--nodes", "1", "--container-runtime-endpoint", found.endpoint)
    try:
        containerd.eventually(lambda: found.kubectl("get", "serviceaccounts", "-o", "name"))
        found.kubectl("apply", "-f", "-", stdin=POD)
        found.kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=60s")
        yield found
    finally:
        found.kubeskew("down", "--purge")
        assert containerd.ctr("containers", "list", "--quiet").stdout == ""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def test_people_reach_a_pod(cluster: Cluster, containerd: Containerd):
    """Logs, commands with input and exit codes, forwarded ports and the API server's proxy are the pod's."""
    assert cluster.kubectl("logs", "web", "-c", "main") == "started\n"
    assert cluster.kubectl("exec", "-i", "web", "-c", "main", "--", "cat", stdin="said") == "said"
    assert (
        cluster.kubectl("exec", "web", "-c", "main", "--", "sh", "-c", "echo out; exit 3", code=3) == "out\n"
    )
    proxied = cluster.kubectl("get", "--raw", "/api/v1/namespaces/default/pods/web:8080/proxy/")
    assert proxied == "made by first\n"
    port = free_port()
    command = [str(KUBECTL), "port-forward", "pod/web", f"{port}:8080"]
    with subprocess.Popen(command, env=cluster.environment, stdout=subprocess.PIPE, text=True) as forwarding:
        try:
            assert forwarding.stdout is not None
            assert "Forwarding from" in forwarding.stdout.readline()
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10) as answer:
                assert answer.read() == b"made by first\n"
        finally:
            forwarding.terminate()
    node = json.loads(cluster.kubectl("get", "nodes", "-o", "json"))["items"][0]
    assert node["status"]["nodeInfo"]["containerRuntimeVersion"].startswith("containerd://")


def test_a_restart_of_the_kubelet(cluster: Cluster):
    """The next kubelet takes the pod up: the same containers run, and none has restarted."""
    before = cluster.pod()["status"]["containerStatuses"][0]
    cluster.kubeskew("restart", "kubelet/node-1")
    cluster.kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=60s")
    after = cluster.pod()["status"]["containerStatuses"][0]
    assert (after["containerID"], after["restartCount"]) == (before["containerID"], 0)


def test_a_runtime_that_goes_and_comes_back(cluster: Cluster, containerd: Containerd):
    """The node is not ready without its runtime, and the pod goes on."""

    def ready() -> Any:
        conditions = json.loads(cluster.kubectl("get", "node", "node-1", "-o", "json"))["status"][
            "conditions"
        ]
        return next(each for each in conditions if each["type"] == "Ready")

    before = cluster.pod()["status"]["containerStatuses"][0]
    containerd.kill()
    containerd.eventually(lambda: ready()["status"] == "False", 90)
    assert ready()["message"] == "container runtime is down"
    containerd.start()
    containerd.eventually(lambda: ready()["status"] == "True", 90)
    assert cluster.kubectl("exec", "web", "-c", "main", "--", "echo", "fine") == "fine\n"
    assert cluster.pod()["status"]["containerStatuses"][0]["containerID"] == before["containerID"]


def test_a_failing_probe(cluster: Cluster, containerd: Containerd):
    """A container whose probe fails ends with its own exit code and message, and starts again."""
    cluster.kubectl("exec", "web", "-c", "main", "--", "rm", "/data/index.html")

    def ended() -> Any:
        status = cluster.pod()["status"]["containerStatuses"][0]
        return (status.get("lastState") or {}).get("terminated")

    found = containerd.eventually(ended)
    assert (found["exitCode"], found["reason"], found["message"]) == (7, "Error", "bye\n")
    cluster.kubectl("delete", "pod", "web", "--wait=true")
    containerd.eventually(lambda: containerd.ctr("containers", "list", "--quiet").stdout == "")
