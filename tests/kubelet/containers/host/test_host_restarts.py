"""Containers and their parent process while kubelets come, go and are killed."""

import asyncio
import errno
import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
from host_node import HostNode, NodeMaker
from until import until

from kubeskew.apimachinery.clock import SystemClock
from kubeskew.kubelet.containers.host import shim_client
from kubeskew.kubelet.containers.host.cgroups import Cgroups
from kubeskew.kubelet.containers.host.cleanup import cleanup
from kubeskew.kubelet.containers.host.shim import Shim, ShimOptions
from kubeskew.kubelet.containers.host.shim_client import ShimClient, ShimError, ShimGoneError
from kubeskew.kubelet.containers.host.shim_record import CONTAINERS, RECORD
from kubeskew.kubelet.containers.runtime_service import ContainerRuntimeError
from kubeskew.kubelet.files import UNJOURNALLED

WAITS = "trap 'exit 9' TERM; echo ready; while :; do sleep 0.01; done"


def shim_of(node: HostNode) -> int:
    return int(json.loads((node.state / "node" / RECORD).read_text())["pid"])


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


async def test_containers_outlive_the_kubelet(node: HostNode):
    """A runtime that is made again has the containers that still run, and those that ended meanwhile."""
    sandbox = await node.pod()
    running = await node.shell(sandbox, WAITS, name="running")
    ending = await node.shell(sandbox, "read word; echo $word; exit 5", name="ending", stdin=True)
    await node.says(sandbox, running, "ready")
    parent = shim_of(node)
    await node.leave()
    os.kill(signal_child(parent, "read word"), signal.SIGKILL)
    exits = node.state / "node" / "exits"
    await until(lambda: [*exits.glob("*.json")])
    await node.again()
    assert shim_of(node) == parent
    sandbox = node.runtime.sandboxes()[0]
    assert sandbox.ready
    again = {container.name: container for container in sandbox.containers}
    assert (again["running"].id, again["running"].ends_at) == (running.id, None)
    assert (again["ending"].id, again["ending"].exit_code) == (ending.id, 128 + signal.SIGKILL)
    assert [*exits.iterdir()] == []
    node.runtime.stop_container(sandbox, again["running"], 60)
    assert await node.ended(again["running"]) == 9


def signal_child(parent: int, words: str) -> int:
    """The child of a shim with these words in its command."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return next(int(pid) for pid in children if words in Path(f"/proc/{pid}/cmdline").read_text())


async def test_containers_end_with_their_parent(node: HostNode):
    """All containers end when their parent process is killed; the runtime says so and starts another one."""
    sandbox = await node.pod()
    container = await node.shell(sandbox, "setsid sleep 7654 & echo ready; exec sleep 7654")
    await node.says(sandbox, container, "ready")
    node.changed.clear()
    parent = shim_of(node)
    os.kill(parent, signal.SIGKILL)
    await until(lambda: container.ends_at is not None)
    assert (container.exit_code, container.reason, sandbox.ready) == (255, "Unknown", False)
    assert node.changed == ["uid-1"]
    await until(lambda: not sleepers("7654"))
    assert shim_of(node) != parent
    sandbox = await node.pod()
    assert await node.ended(await node.shell(sandbox, "exit 2")) == 2


def cgroups_of(name: str) -> list[Path]:
    return [*Path("/sys/fs/cgroup").glob(f"*/**/{name}")]


def sleepers(seconds: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes() == f"sleep\0{seconds}\0".encode():
                found.append(path.parent.name)
        except OSError:
            continue
    return found


async def test_nothing_is_left(node: HostNode):
    """A cleanup ends the parent process with all containers, whoever was killed before."""
    sandbox = await node.pod()
    container = await node.shell(sandbox, "exec sleep 6543")
    await until(lambda: sleepers("6543"))
    parent = shim_of(node)
    await node.leave()
    await asyncio.to_thread(cleanup, node.state)
    assert not is_there(parent)
    assert sleepers("6543") == []
    assert cgroups_of(container.id) == []


async def test_nothing_is_left_without_namespaces(make_node: NodeMaker):
    """A cleanup ends processes that have no namespace to end with, also after their parent was killed."""
    node = await make_node(plain=True)
    sandbox = await node.pod()
    container = await node.shell(sandbox, "setsid sleep 8765 & exec sleep 8765")
    await until(lambda: len(sleepers("8765")) == 2)
    await node.leave()
    os.kill(shim_of(node), signal.SIGKILL)
    await asyncio.to_thread(cleanup, node.state)
    assert sleepers("8765") == []
    assert container.ends_at is None
    await node.again()
    assert node.runtime.sandboxes()[0].containers[0].reason == "Unknown"


async def test_a_request_to_a_parent_that_has_gone(node: HostNode):
    """A runtime that finds its containers' parent gone by a request makes another one."""
    sandbox = await node.pod()
    client = node.runtime._client()
    connection = client._connection._socket
    connection.shutdown(socket.SHUT_WR)
    asyncio.get_running_loop().remove_reader(connection.fileno())
    with pytest.raises(ShimGoneError):
        client.post("hello")
    await until(lambda: node.runtime._client() is not client and sandbox.ready)
    assert await node.ended(await node.shell(sandbox, "exit 2")) == 2


async def test_an_end_that_cannot_be_recorded(node: HostNode, monkeypatch: pytest.MonkeyPatch):
    """The end of a container is kept until a record has it."""
    sandbox = await node.pod()
    container = await node.shell(sandbox, "read word; exit 7", stdin=True)

    def full(*_arguments: object, **_options: object) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(type(UNJOURNALLED), "write", full)
        node.runtime.stop_container(sandbox, container, 0)
        assert await node.ended(container) == 128 + signal.SIGKILL
    await node.again()
    again = node.runtime.sandboxes()[0].containers[0]
    assert (again.exit_code, again.reason) == (128 + signal.SIGKILL, "")


@pytest.mark.parametrize("plain", [True, False])
async def test_the_parent_writes_its_record(tmp_path: Path, node: HostNode, plain: bool):
    """A parent process whose kubelet ended while it started is in the record by which it is found."""
    answer = await asyncio.to_thread(shim_client._start, {"directory": str(tmp_path), "plain": plain})
    record = json.loads((tmp_path / RECORD).read_text())
    assert (record["pid"], bool(record["birth"])) == (answer["pid"], True)
    await asyncio.to_thread(cleanup, tmp_path)
    assert not is_there(answer["pid"])


async def test_a_parent_that_does_not_start_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A parent process that takes too long fails the start as another one that cannot start."""
    monkeypatch.setattr(shim_client, "_CONNECT_SECONDS", 0)
    with pytest.raises(ContainerRuntimeError, match="was not there after 0 s"):
        await shim_client.start(tmp_path, plain=True)
    await asyncio.to_thread(cleanup, tmp_path)


async def test_a_container_that_cannot_be_created_leaves_no_files(
    node: HostNode, monkeypatch: pytest.MonkeyPatch
):
    """A start that the parent process refuses leaves no files of the container."""
    sandbox = await node.pod()

    async def refused(*_arguments: object, spec: dict[str, str], **_body: object) -> None:
        os.makedirs(spec["layer"])  # noqa: PTH103 - of an asynchronous function
        raise ShimError("refused")

    with monkeypatch.context() as patched:
        patched.setattr(ShimClient, "call", refused)
        with pytest.raises(ContainerRuntimeError, match="refused"):
            await node.shell(sandbox, "exit 0")
    assert [*(node.state / "node" / CONTAINERS).glob("*")] == []


async def test_hidden_processes_without_namespaces(make_node: NodeMaker):
    """A cleanup ends also a process that has neither parent nor variables of its container."""
    node = await make_node(plain=True)
    sandbox = await node.pod()
    await node.shell(sandbox, "(env -i setsid sleep 9876 &); exec sleep 9876")
    await until(lambda: len(sleepers("9876")) == 2)
    await node.leave()
    await asyncio.to_thread(cleanup, node.state)
    assert sleepers("9876") == []
    await node.again()


class SlowShim(Shim):
    """A parent process whose starts last until they are let go."""

    def __init__(self, directory: Path, pid: int) -> None:
        options = ShimOptions(directory, plain=True)
        super().__init__(options, SystemClock(), Cgroups({}), rootless=False, own_pid=False)
        self.pid, self.goes_on = pid, asyncio.Event()

    async def _spawn(self, child: Callable[[int], NoReturn]) -> int:
        await self.goes_on.wait()
        return self.pid


async def test_a_start_in_a_sandbox_that_is_removed(tmp_path: Path):
    """A container whose sandbox is removed while it starts is killed, and its start fails."""
    with subprocess.Popen(["/bin/sleep", "1000"]) as process:  # noqa: ASYNC220 - the fork alone
        shim = SlowShim(tmp_path, process.pid)
        await shim.do_sandbox({"sandbox": "s"}, [], [])
        spec = {"tty": False, "env": {}, "argv": [], "layer": str(tmp_path)}
        body = {"container": "c", "sandbox": "s", "spec": spec, "limits": {}}
        body |= {"log": str(tmp_path / "log"), "log_bytes": 0}
        start = asyncio.ensure_future(shim.do_start({**body, "stdin": False, "stdin_once": False}, [], []))
        await asyncio.sleep(0)
        await shim.do_remove_sandbox({"sandbox": "s"}, [], [])
        shim.goes_on.set()
        with pytest.raises(Exception, match='failed to find sandbox id "s": not found'):
            await start
        assert process.wait() == -signal.SIGKILL
    shim._process_ended(process.pid, signal.SIGKILL)
    await asyncio.gather(*shim._tasks)
