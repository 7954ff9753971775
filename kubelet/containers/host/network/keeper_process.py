"""Starts the process that keeps a cluster's namespaces, and gives it back those that an earlier one kept."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path

import kubeskew
from kubeskew.apimachinery.process.network_agent import SERVICE_RANGE, NetworkAgent, NetworkAgentError

_MODULE = "kubeskew.kubelet.containers.host.network.keeper"


class KeeperError(Exception):
    """The process cannot start; the text says why."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Descriptors of the namespaces of a cluster. They outlive the process that kept them."""

    user: int
    network: int
    pods: dict[str, tuple[int, str]]  # namespace and address by UID

    @property
    def descriptors(self) -> list[int]:
        return [self.user, self.network, *(descriptor for descriptor, _ in self.pods.values())]

    def as_json(self) -> str:
        return json.dumps({"user": self.user, "network": self.network, "pods": self.pods})

    def close(self) -> None:
        for descriptor in self.descriptors:
            os.close(descriptor)


def kept_by(agent: NetworkAgent, known: Kept | None = None) -> Kept:
    """Descriptors of all that the process keeps at the moment. `known` is what it kept before, and is used
    up. Raises NetworkAgentError.
    """
    if known is None:
        user, network = agent.namespaces()
        known = Kept(user, network, {})
    pods = agent.pods()
    for uid in sorted(known.pods):
        if uid not in pods or known.pods[uid][1] != pods[uid].address:
            os.close(known.pods.pop(uid)[0])
    for uid in sorted(pods.keys() - known.pods.keys()):
        try:
            namespace = agent.pod(uid)
        except NetworkAgentError:
            continue  # it has just gone
        os.close(namespace.user)
        known.pods[uid] = namespace.network, pods[uid].address
    return known


def start(path: Path, services: IPv4Network = SERVICE_RANGE, kept: Kept | None = None) -> int:
    """The process serves at the Unix socket `path`, and outlives this one; its pid. With `kept` it goes on
    where another one ended. Raises KeeperError.
    """
    adopted = [] if kept is None else ["--adopt", kept.as_json()]
    process = subprocess.Popen(  # noqa: S603 - a module of ours
        [
            *(sys.executable, "-P", "-m", _MODULE, "--socket", str(path), "--services", str(services)),
            *adopted,
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
        pass_fds=[] if kept is None else kept.descriptors,
        env={**os.environ, "PYTHONPATH": str(Path(kubeskew.__file__).parent.parent)},
        umask=0o077,
        text=True,
    )
    with process.stdout as output:  # type: ignore[union-attr]
        line = output.readline()
    if line == "\n":
        process.returncode = 0  # it outlives this process on purpose: keep Popen from warning about it
        return process.pid
    process.wait()
    raise KeeperError(line.strip() or "the process that keeps the cluster's namespaces does not start")


def ensure(agent: NetworkAgent, services: IPv4Network = SERVICE_RANGE) -> None:
    """Starts the process if it is not there. Raises KeeperError."""
    if not agent.is_there():
        start(Path(agent.path), services)
