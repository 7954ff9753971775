"""Sockets and namespaces of a cluster whose pods have a network of their own.

The process that keeps the namespaces (`kubelet/containers/host/network/keeper.py`) passes descriptors over a
Unix socket: length-prefixed JSON with SCM_RIGHTS. It only makes sockets in a namespace. Who asked for one
connects, binds and listens itself, in its own time.
"""

import asyncio
import os
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any, NamedTuple

from kubeskew.apimachinery.process.descriptor_messages import receive_message, send_message

POD_RANGE = IPv4Network("10.244.0.0/16")
SERVICE_RANGE = IPv4Network("10.96.0.0/16")
DNS_ADDRESS = "10.96.0.10"
SOCKET_NAME = "network.sock"  # in the cluster's directory of sockets
_MACHINE = IPv4Network("127.0.0.0/16")  # of each namespace alone; nodes have other addresses of 127.0.0.0/8
_NODE_GATEWAY = "169.254.1.1"
_SECONDS = 30.0
_BACKLOG = 128


class NetworkAgentError(OSError):
    """The agent cannot be reached, or it refused."""


class PodNamespace(NamedTuple):
    """The network namespace of a pod, and the user namespace that owns it, which a process without root
    enters first. The descriptors are the caller's to close; `path` holds while the agent's process runs.
    """

    user: int
    network: int
    path: str

    def close(self) -> None:
        os.close(self.user)
        os.close(self.network)


class PodAddress(NamedTuple):
    address: str
    path: str


class NetworkAgent:
    """One connection, made when it is first needed and again when it is lost; threads may share it."""

    def __init__(self, path: Path | str) -> None:
        self.path = str(path)
        self._connection: socket.socket | None = None
        self._lock = threading.Lock()

    def close(self) -> None:
        with self._lock:
            self._drop()

    # -- pods

    def add_pod(
        self, uid: str, address: str, sysctls: Mapping[str, str] | None = None, gateway: str = ""
    ) -> PodNamespace:
        """A pod that has its namespace already keeps it. Without `gateway` it is the first address of the
        pod's /24. Raises NetworkAgentError.
        """
        wanted = IPv4Address(address)
        via = gateway or (
            _NODE_GATEWAY if wanted.is_loopback else str(IPv4Network(f"{address}/24", strict=False)[1])
        )
        answer, (user, network) = self._ask(
            {
                "verb": "add-pod",
                "pod": uid,
                "address": address,
                "gateway": via,
                "sysctls": dict(sysctls or {}),
            },
            descriptors=2,
        )
        return PodNamespace(user, network, answer["path"])

    def add_node(self, name: str, address: str) -> PodNamespace:
        """The namespace for pods in the host's network of that node. Raises NetworkAgentError."""
        return self.add_pod(node_uid(name), address)

    def remove_pod(self, uid: str) -> None:
        """One that is not there is no error. Raises NetworkAgentError."""
        self._ask({"verb": "remove-pod", "pod": uid})

    def pods(self) -> dict[str, PodAddress]:
        """By UID. Raises NetworkAgentError."""
        answer, _ = self._ask({"verb": "pods"})
        return {uid: PodAddress(*found) for uid, found in answer["pods"].items()}

    def namespaces(self) -> tuple[int, int]:
        """Descriptors of the cluster's user and network namespace. Raises NetworkAgentError."""
        _, (user, network) = self._ask({"verb": "namespaces"}, descriptors=2)
        return user, network

    def pod(self, uid: str) -> PodNamespace:
        """Raises NetworkAgentError if the pod has none."""
        answer, (user, network) = self._ask({"verb": "pod", "pod": uid}, descriptors=2)
        return PodNamespace(user, network, answer["path"])

    # -- sockets

    def open_socket(
        self, pod: str | None = None, kind: socket.SocketKind = socket.SOCK_STREAM
    ) -> socket.socket:
        """A socket in the namespace of a pod, by its UID, or of the cluster; it does not block. Raises
        NetworkAgentError.
        """
        _, (descriptor,) = self._ask({"verb": "socket", "pod": pod, "kind": int(kind)}, descriptors=1)
        made = socket.socket(fileno=descriptor)
        made.setblocking(False)
        return made

    async def dial(
        self, pod: str | None, host: str, port: int, kind: socket.SocketKind = socket.SOCK_STREAM
    ) -> socket.socket:
        """A connected socket. Raises OSError as connect(2), and NetworkAgentError."""
        loop = asyncio.get_running_loop()
        opening = loop.run_in_executor(None, self.open_socket, pod, kind)
        try:
            made = await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_opened)
            raise
        try:
            await loop.sock_connect(made, (host, port))
        except BaseException:
            made.close()
            raise
        return made

    def listen(
        self, pod: str | None, host: str, port: int, kind: socket.SocketKind = socket.SOCK_STREAM
    ) -> socket.socket:
        """A bound socket, which listens if it is a stream's. Raises OSError as bind(2), and
        NetworkAgentError.
        """
        made = self.open_socket(pod, kind)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, kind == socket.SOCK_STREAM)
            made.bind((host, port))
            if kind == socket.SOCK_STREAM:
                made.listen(_BACKLOG)
        except BaseException:
            made.close()
            raise
        return made

    # -- the agent itself

    def pid(self) -> int:
        """Raises NetworkAgentError if the agent is not there."""
        answer, _ = self._ask({"verb": "ping"})
        return int(answer["pid"])

    def is_there(self) -> bool:
        try:
            self.pid()
        except NetworkAgentError:
            return False
        return True

    def add_address(self, address: str) -> None:
        """The cluster's namespace has the address from now on, for those who listen at it. Raises
        NetworkAgentError.
        """
        self._ask({"verb": "add-address", "address": address})

    def remove_address(self, address: str) -> None:
        """Raises NetworkAgentError, also if it was not added."""
        self._ask({"verb": "remove-address", "address": address})

    def load_rules(self, text: str) -> None:
        """Has `nft` read rules in the cluster's namespace, which may take its time: others ask meanwhile.
        Raises NetworkAgentError.
        """
        another = NetworkAgent(self.path)
        try:
            another._ask({"verb": "rules", "text": text})
        finally:
            another.close()

    def end(self) -> None:
        """Ends the agent's process and the networks of pods with it. One that is not there is no error."""
        with suppress(OSError):
            self._ask({"verb": "end"})
            if self._connection is not None:
                self._connection.recv(1)  # which comes to its end with the process
        self.close()

    def _ask(self, request: Mapping[str, Any], descriptors: int = 0) -> tuple[dict[str, Any], list[int]]:
        """An answer with another number of descriptors closes them all. Raises NetworkAgentError."""
        with self._lock:
            answer, found = self._exchange(request)
        error = answer.get("error")
        if error is None and len(found) == descriptors:
            return answer, found
        for descriptor in found:
            os.close(descriptor)
        if error is None:
            raise NetworkAgentError(f"the network agent passed {len(found)} descriptors, not {descriptors}")
        raise NetworkAgentError(error["number"], error["text"])

    def _exchange(self, request: Mapping[str, Any]) -> tuple[dict[str, Any], list[int]]:
        for is_last in (self._connection is None, True):
            try:
                if self._connection is None:
                    self._connection = _connect(self.path)
                send_message(self._connection, request)
                answer, found = receive_message(self._connection)
            except (OSError, ValueError) as error:
                self._drop()
                if is_last:
                    raise NetworkAgentError(f"the network agent at {self.path}: {error}") from error
                continue
            if answer is not None:
                return answer, found
            self._drop()
            if is_last:
                break
        raise NetworkAgentError(f"the network agent at {self.path} ended")

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def pod_cidr(number: int) -> str:
    """The addresses of pods of a node, of which there are 256 at most with addresses of their own."""
    networks = [*POD_RANGE.subnets(new_prefix=24)]
    return str(networks[number % len(networks)])


def node_uid(name: str) -> str:
    """A node's namespace goes by this instead of a pod's UID."""
    return f"node:{name}"


def is_of_cluster(host: str) -> bool:
    """The address is one of pods, or of services."""
    try:
        address = IPv4Address(host)
    except ValueError:
        return False
    return address in POD_RANGE or address in SERVICE_RANGE


def is_of_node(host: str) -> bool:
    """The address is one that only a node has, among those that begin with 127."""
    try:
        address = IPv4Address(host)
    except ValueError:
        return False
    return address.is_loopback and address not in _MACHINE


def _close_opened(opening: "asyncio.Future[socket.socket]") -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def _connect(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(_SECONDS)
        connection.connect(path)
    except BaseException:
        connection.close()
        raise
    return connection
