"""Networks of pods for tests: real namespaces, where the kernel lets this user make them."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubeskew.apimachinery.process.network_agent import NetworkAgent
from kubeskew.kubelet.containers.host.network import keeper_process


@pytest.fixture
def socket_path() -> Iterator[Path]:
    """Unix paths are short."""
    with tempfile.TemporaryDirectory(prefix="kn-") as directory:
        yield Path(directory, "network.sock")


@pytest.fixture(scope="session")
def namespaces() -> None:
    done = subprocess.run(["unshare", "-Urn", "true"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"this kernel refuses user namespaces: {done.stderr.strip()}")


@pytest.fixture
def network(namespaces: None, socket_path: Path) -> Iterator[NetworkAgent]:
    """The network of a cluster without pods."""
    pid = keeper_process.start(socket_path)
    agent = NetworkAgent(socket_path)
    try:
        yield agent
    finally:
        agent.end()
        os.waitpid(pid, 0)
