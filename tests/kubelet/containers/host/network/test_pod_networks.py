import asyncio
import errno
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from pod_network import pod_network

import kubeskew
from kubeskew.apimachinery.process.descriptor_messages import receive_message, send_message
from kubeskew.apimachinery.process.network_agent import NetworkAgent, NetworkAgentError, node_uid
from kubeskew.kubelet.containers.host.network import keeper_process
from kubeskew.kubelet.containers.host.syscalls import setns


async def _peer(listener: socket.socket, dialed: socket.socket) -> str:
    """The address from which a connection came; it ends."""
    accepted, (host, _) = await asyncio.get_running_loop().sock_accept(listener)
    accepted.close()
    dialed.close()
    return str(host)


def _kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    _wait(pid)


def _wait(pid: int) -> None:
    os.waitpid(pid, 0)


PLACES = {"a": "10.244.1.2", "b": "10.244.2.2", node_uid("node-1"): "127.9.8.7"}


@pytest.fixture
def pods(network: NetworkAgent) -> NetworkAgent:
    """Two pods on different nodes, and one of the nodes."""
    for uid, address in PLACES.items():
        network.add_pod(uid, address).close()
    return network


@pytest.mark.parametrize("target", PLACES)
@pytest.mark.parametrize("source", PLACES)
async def test_pods_and_nodes_reach_each_other(pods: NetworkAgent, source: str, target: str) -> None:
    """A pod is reached at its address from every pod and node, and sees the address of who dials."""
    with pods.listen(target, PLACES[target], 80) as listener:
        assert await _peer(listener, await pods.dial(source, PLACES[target], 80)) == PLACES[source]


async def test_pods_reached_from_outside(pods: NetworkAgent) -> None:
    """A holder of the agent's socket reaches pods through the cluster's namespace, which has the gateway's
    address.
    """
    with pods.listen("b", "", 80) as listener:
        assert await _peer(listener, await pods.dial(None, PLACES["b"], 80)) == "10.244.2.1"


async def test_same_port_in_two_pods(pods: NetworkAgent) -> None:
    """Each pod has ports of its own, also on its loopback."""
    with pods.listen("a", "127.0.0.1", 80), pods.listen("b", "", 80):
        (await pods.dial("a", "127.0.0.1", 80)).close()
        with pytest.raises(ConnectionRefusedError):
            await pods.dial(node_uid("node-1"), "127.0.0.1", 80)


async def test_machine_is_not_reached(pods: NetworkAgent) -> None:
    """A pod reaches neither the loopback of the machine nor what the machine has routes to."""
    for host in ("127.0.0.1", "127.9.8.7"):
        with socket.create_server((host, 0)) as server, pytest.raises(ConnectionRefusedError):
            await pods.dial("a", host, server.getsockname()[1])
    for source in ("a", None):
        with pytest.raises(OSError, match=r".*") as failure:
            await pods.dial(source, "192.0.2.1", 80)
        assert failure.value.errno == errno.ENETUNREACH


async def test_service_addresses_are_local(pods: NetworkAgent) -> None:
    """Addresses of services are taken in the cluster's namespace; where nobody listens, the connection is
    refused.
    """
    with pods.listen(None, "10.96.0.10", 53) as listener:
        assert await _peer(listener, await pods.dial("a", "10.96.0.10", 53)) == PLACES["a"]
    with pytest.raises(ConnectionRefusedError):
        await pods.dial("a", "10.96.0.10", 53)


async def test_datagrams(pods: NetworkAgent) -> None:
    """Sockets of datagrams are passed as well."""
    loop = asyncio.get_running_loop()
    with pods.listen("a", "", 53, socket.SOCK_DGRAM) as receiver:
        sender = await pods.dial("b", PLACES["a"], 53, socket.SOCK_DGRAM)
        await loop.sock_sendall(sender, b"question")
        data, (host, _) = await loop.sock_recvfrom(receiver, 100)
        sender.close()
    assert (data, host) == (b"question", PLACES["b"])


def test_other_processes_enter(pods: NetworkAgent) -> None:
    """A process enters the namespace of a pod by its descriptors: first the user's unless it is its own, then
    the network's.
    """
    namespace = pods.pod("a")
    is_own = os.fstat(namespace.user).st_ino == Path("/proc/self/ns/user").stat().st_ino
    with pods.listen("a", PLACES["a"], 8080):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                if not is_own:
                    setns(namespace.user)
                setns(namespace.network)
                socket.create_connection((PLACES["a"], 8080)).close()
                status = 0
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
    namespace.close()
    assert status == 0


def test_pods_are_added_once(pods: NetworkAgent) -> None:
    """A pod that is added again keeps its namespace; another address, or one that is taken, is refused."""
    again = pods.add_pod("a", PLACES["a"])
    assert os.fstat(again.network).st_ino == Path(again.path).stat().st_ino
    again.close()
    for uid, address, number in (
        ("a", "10.244.1.9", errno.EEXIST),
        ("c", PLACES["a"], errno.EADDRINUSE),
        ("c", "10.244.1.1", errno.EINVAL),
    ):
        with pytest.raises(NetworkAgentError) as failure:
            pods.add_pod(uid, address)
        assert failure.value.errno == number


async def test_removed_pods(pods: NetworkAgent) -> None:
    """A pod that was removed is unknown and reached no longer; its address can be given to another."""
    listener = pods.listen("b", "", 80)
    pods.remove_pod("b")
    pods.remove_pod("b")
    assert pods.pods().keys() == {"a", node_uid("node-1")}
    with pytest.raises(NetworkAgentError, match="no pod b has a network here"):
        pods.open_socket("b")
    pods.add_pod("c", PLACES["b"]).close()
    with pytest.raises(ConnectionRefusedError):
        await pods.dial("a", PLACES["b"], 80)
    listener.close()


SYSCTLS = {
    "net.ipv4.ip_local_port_range": ("40000 40001", ""),
    "net/ipv4/tcp_syncookies": ("0", ""),
    "net.ipv4.no_such": ("1", "sysctl net.ipv4.no_such: No such file or directory"),
    "kernel.shm_rmid_forced": ("1", "sysctl kernel.shm_rmid_forced is not of a network"),
    "net.../..": ("1", "sysctl net.../.. is not of a network"),
}


@pytest.mark.parametrize("name", SYSCTLS)
async def test_sysctls(network: NetworkAgent, name: str) -> None:
    """Sysctls of a pod are set in its namespace; those that cannot be set are refused, and leave no pod."""
    value, refusal = SYSCTLS[name]
    if refusal:
        with pytest.raises(NetworkAgentError, match=refusal):
            network.add_pod("a", "10.244.1.2", {name: value})
        assert not network.pods()
    else:
        network.add_pod("a", "10.244.1.2", {name: value}).close()
        assert network.pods().keys() == {"a"}


async def test_any_port_without_privileges(pods: NetworkAgent) -> None:
    """Ports below 1024 need no capability in a pod: sockets are bound from outside its user namespace."""
    for port in (1, 80, 1023):
        pods.listen("a", "", port).close()


async def test_agent_that_was_killed(namespaces: None, socket_path: Path) -> None:
    """Another process takes up the namespaces of one that was killed: pods stay connected, and new ones
    join.
    """
    first = keeper_process.start(socket_path)
    agent = NetworkAgent(socket_path)
    agent.add_pod("a", PLACES["a"]).close()
    listener = agent.listen("a", "", 80)
    kept = keeper_process.kept_by(agent)
    _kill(first)
    assert not agent.is_there()
    second = keeper_process.start(socket_path, kept=kept)
    assert agent.pods().keys() == {"a"}
    agent.add_pod("b", PLACES["b"]).close()
    assert await _peer(listener, await agent.dial("b", PLACES["a"], 80)) == PLACES["b"]
    kept = keeper_process.kept_by(agent, kept)
    assert kept.pods.keys() == {"a", "b"}
    agent.remove_pod("b")
    kept = keeper_process.kept_by(agent, kept)
    assert kept.pods.keys() == {"a"}
    listener.close()
    kept.close()
    agent.end()
    _wait(second)


def test_agent_whose_socket_is_gone(namespaces: None, socket_path: Path) -> None:
    """The process ends once its socket's file is gone: nothing is left of a cluster that was taken down."""
    pid = keeper_process.start(socket_path)
    socket_path.unlink()
    assert os.waitpid(pid, 0)[0] == pid


def test_agent_is_found(namespaces: None, socket_path: Path) -> None:
    """The process is started once; who comes later finds it."""
    agents = [NetworkAgent(socket_path) for _ in range(2)]
    for agent in agents:
        keeper_process.ensure(agent)
    agents[0].add_pod("a", PLACES["a"]).close()
    assert agents[1].pods().keys() == {"a"}
    agents[0].end()
    agents[1].close()


def test_malformed_requests(network: NetworkAgent) -> None:
    """Bytes that are no request end their connection, and wrong ones are refused; others are served on."""
    for data in (b"\xff\xff\xff\xff12", b"\0\0\0\2[]", b"\0\0\0\2no"):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(network.path)
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(100) == b""
    for address in ("no address", "::1", "10.244.1.300"):
        with pytest.raises((NetworkAgentError, ValueError)):
            network.add_pod("a", address, gateway="10.244.1.1")
    assert network.is_there()


def test_machine_that_refuses_namespaces(namespaces: None, socket_path: Path) -> None:
    """A machine that refuses user namespaces is named as the reason, with what can be had instead."""
    start = (
        "import sys; from pathlib import Path; "
        "from kubeskew.kubelet.containers.host.network import keeper_process; "
        "from kubeskew.kubelet.containers.host.syscalls import PR_CAPBSET_DROP, prctl; "
        "Path('/proc/sys/user/max_user_namespaces').write_text('0'); "
        "prctl(PR_CAPBSET_DROP, 21); "  # CAP_SYS_ADMIN, of what is started
        "keeper_process.start(Path(sys.argv[1]))"
    )
    done = subprocess.run(
        ["unshare", "-Ur", sys.executable, "-c", start, str(socket_path)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(kubeskew.__file__).parent.parent)},
    )
    text = "this machine refuses user namespaces (user.max_user_namespaces): "
    assert f"KeeperError: {text}containers of the runtime host need them" in done.stderr


def test_start_that_fails(namespaces: None, tmp_path: Path) -> None:
    """A process that cannot serve says why."""
    with pytest.raises(keeper_process.KeeperError, match="No such file or directory"):
        keeper_process.start(tmp_path / "missing" / "s")


async def test_dialling_leaves_the_event_loop_free(socket_path: Path) -> None:
    """While the agent makes a socket, the event loop of who dials does other things, as to be the agent."""
    loop, client = asyncio.get_running_loop(), NetworkAgent(socket_path)
    with socket.socket(socket.AF_UNIX) as listener, socket.create_server(("127.0.0.1", 0)) as server:
        listener.bind(str(socket_path))
        listener.listen()
        listener.setblocking(False)
        dialling = asyncio.create_task(client.dial(None, *server.getsockname()))
        agent, _ = await loop.sock_accept(listener)
        with agent, socket.socket() as made:
            agent.setblocking(True)
            receive_message(agent)
            send_message(agent, {}, (made.fileno(),))
        (await dialling).close()
    client.close()


async def test_rules_that_take_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the kernel is given rules, pods get their networks."""
    program, pipe = tmp_path / "nft", tmp_path / "pipe"
    os.mkfifo(pipe)
    program.write_text(f"#!/bin/sh\nread line < {pipe}\n")
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pod_network() as agent:
        loading = asyncio.create_task(asyncio.to_thread(agent.load_rules, "rules"))
        end = await asyncio.to_thread(pipe.open, "w")  # the program reads now
        agent.add_pod("a", PLACES["a"]).close()
        with end:
            end.write("go on\n")
        await loading
