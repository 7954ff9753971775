"""A real cluster: every component a process of its own, kubectl from Debian's packages."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from asking import Local

ROOT = Path(__file__).parents[2]
KUBECTLS = ("1.20", "1.32", "1.36")
# kubectl 1.30 to 1.33 may read what a command says before it has made the streams for it, and drop it:
# https://github.com/kubernetes/kubernetes/pull/131203
CLIENTS_RACE = "Unknown stream id"
TRIES, RERUN = 5, {"exec", "cp"}


@pytest.hookimpl(tryfirst=True)  # before those that are not asked for are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Has the older versions of kubectl be tried among the long tests."""
    for item in items:
        if getattr(item, "callspec", None) and item.callspec.params.get("kubectl") in KUBECTLS[:-1]:
            item.add_marker(pytest.mark.slow)


def kubeskew(state: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run the command line as a user would."""
    result = subprocess.run(
        [sys.executable, "-m", "kubeskew", "--state-dir", str(state), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
    )
    if check:
        assert result.returncode == 0, result.stderr + result.stdout
    return result


@dataclass(frozen=True)
class Cluster:
    """A running cluster of a test session."""

    state: Path

    @property
    def kubeconfig(self) -> Path:
        return self.state / "kubeconfig"

    def run(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return kubeskew(self.state, *arguments, check=check)


CLUSTER_FILE = """
version: "1.36"
nodes:
- name: node-1
- name: gpu-node
  labels: {zone: a}
  drivers: [{name: gpu.example.com, devices: 8}]
"""


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster at 1.36 with two nodes, one of them with devices."""
    root = tmp_path_factory.mktemp("cluster")
    (root / "cluster.yaml").write_text(CLUSTER_FILE)
    state = root / "state"
    kubeskew(state, "up", "--config", str(root / "cluster.yaml"))
    yield Cluster(state)
    kubeskew(state, "down", "--purge")


@pytest.fixture(scope="session")
def unscheduled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """API server and controllers: no node, and no scheduler that would say so."""
    root = tmp_path_factory.mktemp("unscheduled")
    (root / "cluster.yaml").write_text('{version: "1.36", nodes: []}')
    state = root / "state"
    kubeskew(state, "up", "--config", str(root / "cluster.yaml"))
    kubeskew(state, "kill", "scheduler")
    yield Cluster(state)
    kubeskew(state, "down", "--purge")


@pytest.fixture(scope="session")
def find_kubectl() -> Callable[[str], Path]:
    """The binary of a version; the test is skipped where it is not there."""

    def find(version: str) -> Path:
        binary = Path(os.environ.get("KUBECTL_DIR", ROOT / ".kubectl")) / version / "kubectl"
        if not binary.exists():
            pytest.skip(f"kubectl {version} is not in {binary.parent.parent}: run `make kubectl`")
        return binary

    return find


Kubectl = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(params=KUBECTLS)
def kubectl(
    request: pytest.FixtureRequest, cluster: Cluster, find_kubectl: Callable[[str], Path], tmp_path: Path
) -> Iterator[Kubectl]:
    """Runs one of the kubectl versions in a namespace of the test's own."""
    binary = find_kubectl(request.param)
    namespace = f"t-{abs(hash(request.node.name)) % 10**8}"

    def run(
        *arguments: str, stdin: str | None = None, code: int = 0, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "KUBECONFIG": str(tmp_path / "config"),
            **(env or {}),
        }
        for _ in range(TRIES):
            result = subprocess.run(
                [str(binary), *arguments],
                input=stdin,
                capture_output=True,
                text=True,
                timeout=150,
                cwd=tmp_path,
                env=environment,
            )
            if request.param != "1.32" or CLIENTS_RACE not in result.stderr or arguments[0] not in RERUN:
                break
        assert result.returncode == code, f"{arguments}\n{result.stdout}\n{result.stderr}"
        return result

    (tmp_path / "config").write_text(cluster.kubeconfig.read_text())
    run("create", "namespace", namespace)
    run("config", "set-context", "--current", f"--namespace={namespace}")
    yield run
    run("delete", "namespace", namespace, "--wait=false")


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Local]:
    """A directory for a cluster of the test's own."""
    local = Local(tmp_path / "state")
    yield local
    if local.state.exists():
        local.run("down", "--purge")
    assert not local.state.exists()
