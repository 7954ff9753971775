"""Containers and their parent process while kubelets come, go and are killed."""

import asyncio
import json
import os
import signal
from pathlib import Path

from host_node import HostNode, NodeMaker
from until import until

from kubeskew.kubelet.containers.host.cleanup import cleanup
from kubeskew.kubelet.containers.host.shim_record import RECORD

WAITS = "trap 'exit 9' TERM; echo ready; while :; do sleep 0.01; done"


def shim_of(node: HostNode) -> int:
    return int(json.loads((node.state / "node" / RECORD).read_text())["pid"])


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
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
