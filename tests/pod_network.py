"""Networks of pods for tests: real namespaces, where the kernel lets this user make them."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kubeskew.apimachinery.process.network_agent import NetworkAgent
from kubeskew.kubelet.containers.host.network import keeper_process


def require_namespaces() -> None:
    done = subprocess.run(["unshare", "-Urn", "true"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"this kernel refuses user namespaces: {done.stderr.strip()}")


@contextmanager
def short_path() -> Iterator[Path]:
    """The path of a Unix socket has at most 108 bytes."""
    with tempfile.TemporaryDirectory(prefix="kn-") as directory:
        yield Path(directory, "network.sock")


@contextmanager
def pod_network() -> Iterator[NetworkAgent]:
    """The network of a cluster without pods."""
    require_namespaces()
    with short_path() as path:
        pid = keeper_process.start(path)
        agent = NetworkAgent(path)
        try:
            yield agent
        finally:
            agent.end()
            os.waitpid(pid, 0)
