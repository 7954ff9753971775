"""The process that keeps the namespaces of a cluster's pods, and makes sockets in them for others.

It has a network namespace of its own, which is the cluster's; without root a user namespace, too. Each pod
has a network namespace that a veth pair joins to it, with its address as the only one (as kind's CNI plugin,
ptp, does): packets between pods pass through the cluster's namespace, which is where services and policies
act. Nothing leads to the machine's network. Whoever holds the socket's file has the right to all of this.

The process ends when it is asked to, or when its socket's file is gone (the cluster was taken down).
"""

import argparse
import errno
import hashlib
import json
import os
import selectors
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any, NamedTuple

from kubeskew.apimachinery.process.descriptor_messages import receive_message, send_message
from kubeskew.kubelet.containers.host.network.namespaces import (
    enter_new_user_namespace,
    inside_network,
    new_network,
    open_namespace,
)
from kubeskew.kubelet.containers.host.network.netlink import FORWARDING, ROUTE_LOCALNET, RP_FILTER, Netlink
from kubeskew.kubelet.containers.host.syscalls import CLONE_NEWNET, CLONE_NEWUSER, setns, unshare

_LOOK_SECONDS = 1.0  # between two looks for the socket's file
_LOOPBACK = IPv4Address("127.0.0.1")
_POD_LINK = "eth0"
_BACKLOG = 64
_RULES_SECONDS = 20.0
# A container may listen at any port and send pings, as containerd has it by default.
_DEFAULT_SYSCTLS = {"net.ipv4.ip_unprivileged_port_start": "0", "net.ipv4.ping_group_range": "0 2147483647"}


class Answer(NamedTuple):
    content: Mapping[str, Any]
    files: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Pod:
    network: int
    address: str


class Networks:
    """The namespaces of one cluster. All methods raise OSError."""

    def __init__(self, user: int, home: int, pods: Mapping[str, Pod] | None = None) -> None:
        """`home` is the cluster's network, in which the process is."""
        self._user, self._home = user, home
        self._pods = dict(pods or {})

    @classmethod
    def create(cls, services: IPv4Network) -> "Networks":
        try:
            # The processes of root own what belongs to a user namespace of root's, and could change their
            # networks without NET_ADMIN.
            unshare(CLONE_NEWNET)
        except PermissionError:
            enter_new_user_namespace()
            unshare(CLONE_NEWNET)
        user, home = open_namespace("user"), open_namespace("net")
        with Netlink() as netlink:
            _start_loopback(netlink, {ROUTE_LOCALNET: 1})
            loopback = socket.if_nametoindex("lo")
            netlink.add_local_range(loopback, services.network_address, services.prefixlen)
        _write_sysctls(_DEFAULT_SYSCTLS, must=False)
        return cls(user, home)

    @classmethod
    def adopt(cls, content: Mapping[str, Any]) -> "Networks":
        """Takes up what another process of this kind kept, by descriptors that were inherited."""
        user, home = content["user"], content["network"]
        if os.fstat(user).st_ino != Path("/proc/self/ns/user").stat().st_ino:
            setns(user, CLONE_NEWUSER)
        setns(home, CLONE_NEWNET)
        pods = {uid: Pod(network, address) for uid, (network, address) in content["pods"].items()}
        for descriptor in (user, home, *(pod.network for pod in pods.values())):
            os.set_inheritable(descriptor, False)
        return cls(user, home, pods)

    def add_pod(self, request: Mapping[str, Any]) -> Answer:
        uid, address = request["pod"], request["address"]
        pod = self._pods.get(uid)
        if pod is None:
            pod = self._new_pod(
                uid, IPv4Address(address), IPv4Address(request["gateway"]), request["sysctls"]
            )
            self._pods[uid] = pod
        elif pod.address != address:
            raise OSError(errno.EEXIST, f"the pod has the address {pod.address}")
        return self._answer(pod)

    def _new_pod(
        self, uid: str, address: IPv4Address, gateway: IPv4Address, sysctls: Mapping[str, str]
    ) -> Pod:
        if address == gateway:
            raise OSError(errno.EINVAL, f"{address} is the gateway's address")
        if any(pod.address == str(address) for pod in self._pods.values()):
            raise OSError(errno.EADDRINUSE, f"another pod has the address {address}")
        network, link = new_network(self._home), _link_of(uid)
        try:
            with Netlink() as netlink:
                netlink.delete_link(link)
                netlink.add_veth(link, _POD_LINK, network)
                index = socket.if_nametoindex(link)
                netlink.set_up(index, {FORWARDING: 1, ROUTE_LOCALNET: 1, RP_FILTER: 0})
                netlink.add_address(index, gateway)
                netlink.add_route(index, address, source=gateway)
            with inside_network(network, self._home), Netlink() as netlink:
                _start_loopback(netlink, {})
                index = socket.if_nametoindex(_POD_LINK)
                netlink.set_up(index, {ROUTE_LOCALNET: 1, RP_FILTER: 0})
                netlink.add_address(index, address)
                netlink.add_route(index, gateway, source=address)
                netlink.add_route(index, gateway=gateway, source=address)
                _write_sysctls(_DEFAULT_SYSCTLS, must=False)
                _write_sysctls(sysctls, must=True)
        except BaseException:
            os.close(network)
            raise
        return Pod(network, str(address))

    def remove_pod(self, request: Mapping[str, Any]) -> Answer:
        """The kernel deletes link and namespace by itself, in its own time, once no process is in it: it
        would take 35 ms here.
        """
        pod = self._pods.pop(request["pod"], None)
        if pod is not None:
            os.close(pod.network)
            with suppress(OSError), Netlink() as netlink:
                netlink.set_down(socket.if_nametoindex(_link_of(request["pod"])))
        return Answer({})

    def pods(self, _request: Mapping[str, Any]) -> Answer:
        return Answer({"pods": {uid: (pod.address, _path(pod)) for uid, pod in self._pods.items()}})

    def pod(self, request: Mapping[str, Any]) -> Answer:
        return self._answer(self._named(request["pod"]))

    def namespaces(self, _request: Mapping[str, Any]) -> Answer:
        return Answer({}, (self._user, self._home))

    def open_socket(self, request: Mapping[str, Any]) -> Answer:
        """The answer's descriptor is to be closed once it is sent."""
        if request["pod"] is None:
            return Answer({}, (self._make(request["kind"]),))
        with inside_network(self._named(request["pod"]).network, self._home):
            return Answer({}, (self._make(request["kind"]),))

    def _make(self, kind: int) -> int:
        return socket.socket(socket.AF_INET, kind).detach()

    def add_address(self, request: Mapping[str, Any]) -> Answer:
        """Takes an address of no range, such as an external IP of a service, for the cluster's namespace."""
        with Netlink() as netlink:
            netlink.add_local_range(socket.if_nametoindex("lo"), IPv4Address(request["address"]), 32)
        return Answer({})

    def remove_address(self, request: Mapping[str, Any]) -> Answer:
        with Netlink() as netlink:
            netlink.delete_local_range(socket.if_nametoindex("lo"), IPv4Address(request["address"]), 32)
        return Answer({})

    def rules(self, request: Mapping[str, Any]) -> Answer:
        import shutil  # 3 MB with the next, of which most clusters need none
        import subprocess

        program = shutil.which("nft", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
        if program is None:
            raise OSError(errno.ENOENT, "nft is not installed")
        try:
            done = subprocess.run(  # noqa: S603 - nft reads rules of ours
                [program, "-f", "-"],
                input=request["text"],
                capture_output=True,
                text=True,
                timeout=_RULES_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise OSError(errno.ETIMEDOUT, "nft takes too long") from None
        if done.returncode != 0:
            raise OSError(errno.EINVAL, done.stderr.strip())
        return Answer({})

    def _named(self, uid: str) -> Pod:
        pod = self._pods.get(uid)
        if pod is None:
            raise OSError(errno.ENOENT, f"no pod {uid} has a network here")
        return pod

    def _answer(self, pod: Pod) -> Answer:
        return Answer({"path": _path(pod)}, (self._user, pod.network))


def _path(pod: Pod) -> str:
    return f"/proc/{os.getpid()}/fd/{pod.network}"


def _link_of(uid: str) -> str:
    """The name of a pod's link in the cluster's namespace, where names have 15 characters at most."""
    return f"veth{hashlib.sha256(uid.encode()).hexdigest()[:8]}"


def _start_loopback(netlink: Netlink, settings: Mapping[int, int]) -> None:
    """The kernel gives it all of 127.0.0.0/8, where nodes are: it keeps a part."""
    index = socket.if_nametoindex("lo")
    netlink.set_up(index, settings)
    netlink.delete_address(index, _LOOPBACK, 8)
    netlink.add_address(index, _LOOPBACK, 16)


def _write_sysctls(sysctls: Mapping[str, str], *, must: bool) -> None:
    """Those of networks, in the namespace that the thread is in."""
    for name, value in sysctls.items():
        try:
            Path("/proc/sys", *_sysctl_path(name)).write_text(value)
        except OSError as error:
            if must:
                raise OSError(error.errno, f"sysctl {name}: {error.strerror}") from error


def _sysctl_path(name: str) -> list[str]:
    """Names with slashes keep their dots, as sysctl(8) has it."""
    parts = name.split("/") if "/" in name.split(".")[0] else name.replace("/", "\0").split(".")
    parts = [part.replace("\0", ".") for part in parts]
    if parts[0] != "net" or ".." in parts or "" in parts:
        raise OSError(errno.EINVAL, f"sysctl {name} is not of a network")
    return parts


class Server:
    """Answers requests one after the other. None takes longer than some milliseconds, but for rules, which
    are loaded in a thread.
    """

    def __init__(self, networks: Networks, path: Path) -> None:
        """Raises OSError."""
        self._networks = networks
        self._path = path
        self._selector = selectors.DefaultSelector()
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        path.chmod(0o600)
        self._listener.listen(_BACKLOG)
        self._file = path.stat().st_ino
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._ends = False
        self._verbs: dict[str, Callable[[Mapping[str, Any]], Answer]] = {
            "add-pod": networks.add_pod,
            "remove-pod": networks.remove_pod,
            "pod": networks.pod,
            "pods": networks.pods,
            "namespaces": networks.namespaces,
            "socket": networks.open_socket,
            "add-address": networks.add_address,
            "remove-address": networks.remove_address,
            "rules": networks.rules,
            "ping": lambda _: Answer({"pid": os.getpid()}),
            "end": self._end,
        }

    def run(self) -> None:
        """Returns when the process is to end."""
        while not self._ends and self._is_there():
            for key, _ in self._selector.select(_LOOK_SECONDS):
                connection = key.fileobj
                if not isinstance(connection, socket.socket):
                    continue
                if connection is self._listener:
                    accepted, _ = connection.accept()
                    accepted.settimeout(_LOOK_SECONDS)
                    self._selector.register(accepted, selectors.EVENT_READ)
                elif not self._serve(connection):
                    self._selector.unregister(connection)
                    connection.close()
        if self._is_there():
            self._path.unlink(missing_ok=True)

    def _is_there(self) -> bool:
        try:
            return self._path.stat().st_ino == self._file
        except OSError:
            return False

    def _serve(self, connection: socket.socket) -> bool:
        """False once the client is gone, sent what is no request, or is served by a thread."""
        try:
            request, files = receive_message(connection)
            for descriptor in files:
                os.close(descriptor)
            if request is None:
                return False
            verb = request.get("verb")
            if verb == "rules":
                threading.Thread(
                    target=self._serve_once, args=(connection.dup(), request), daemon=True
                ).start()
                return False
            answer = self._answer(request)
            send_message(connection, answer.content, answer.files)
        except (OSError, ValueError):
            return False
        if verb == "socket":
            for descriptor in answer.files:
                os.close(descriptor)
        return True

    def _serve_once(self, connection: socket.socket, request: Mapping[str, Any]) -> None:
        with connection, suppress(OSError):
            send_message(connection, self._answer(request).content)

    def _answer(self, request: Mapping[str, Any]) -> Answer:
        try:
            return self._verbs[request["verb"]](request)
        except OSError as error:
            return _refusal(error.errno or errno.EIO, error.strerror or str(error))
        except (KeyError, TypeError, ValueError) as error:
            return _refusal(errno.EINVAL, f"{type(error).__name__}: {error}")

    def _end(self, _request: Mapping[str, Any]) -> Answer:
        self._ends = True
        return Answer({})


def _refusal(number: int, text: str) -> Answer:
    return Answer({"error": {"number": number, "text": text}})


def main() -> None:
    """`keeper_process.py` gives the arguments, and reads one line: empty, or why the process ends."""
    parser = argparse.ArgumentParser("network keeper")
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument("--services", type=IPv4Network, required=True)
    parser.add_argument("--adopt", type=json.loads, default=None)
    options = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    try:
        networks = (
            Networks.create(options.services) if options.adopt is None else Networks.adopt(options.adopt)
        )
        server = Server(networks, options.socket)
    except OSError as error:
        sys.stdout.write(f"{error.strerror or error}\n")
        sys.exit(1)
    sys.stdout.write("\n")
    sys.stdout.flush()
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    os.close(nothing)
    server.run()


if __name__ == "__main__":
    main()
