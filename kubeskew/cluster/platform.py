"""Holds what a cluster runs on: the processes, ports, credentials and storage of a machine."""

from collections.abc import Callable
from dataclasses import dataclass, field

from kubeskew.apimachinery.client.rest import Dial, dial
from kubeskew.apimachinery.clock import Clock
from kubeskew.apiserver.storage.opening import SQLStorage, Storage
from kubeskew.cluster import runtime_dir
from kubeskew.cluster.creation import Credentials
from kubeskew.cluster.credentials import write_credentials
from kubeskew.cluster.ports import HeldPorts, Ports
from kubeskew.cluster.probes import HTTPTransport, Transport
from kubeskew.cluster.processes import Processes
from kubeskew.cluster.state import StateDir


@dataclass(frozen=True, slots=True)
class Platform:
    """Holds the parts of one machine. Its components are run by `processes` and asked over what `connect`
    gives; without more they are this machine's own.
    """

    clock: Clock
    processes: Processes
    connect: Callable[[StateDir], Transport] = HTTPTransport
    storage: Storage = field(default_factory=SQLStorage)
    ports: Callable[[], Ports] = HeldPorts
    credentials: Credentials = write_credentials
    dial: Dial = dial
    new_runtime_dir: Callable[[], str] = runtime_dir.new
