"""Commands in running containers, and attached clients."""

import asyncio
from collections.abc import Sequence

import pytest
from host_node import HostNode, NodeMaker
from until import until

from kubeskew.kubelet.containers.runtime_service import CommandTimeoutError, ContainerRuntimeError, Mount
from kubeskew.kubelet.containers.sandbox import Container, Sandbox

WAITS = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done"


class Streams:
    """A client that sends some input, ends it or not, and keeps what it gets."""

    def __init__(self, *data: bytes, ends: bool = True, size: tuple[int, int] | None = None) -> None:
        self._data, self._ends, self._size = [*data], ends, size
        self.stdout = self.stderr = b""

    async def read(self) -> bytes:
        if self._data:
            return self._data.pop(0)
        if not self._ends:
            await asyncio.Event().wait()
        return b""

    async def write_stdout(self, data: bytes) -> None:
        self.stdout += data

    async def write_stderr(self, data: bytes) -> None:
        self.stderr += data

    async def resized(self) -> tuple[int, int]:
        if self._size is None:
            await asyncio.Event().wait()
        size, self._size = self._size, None
        return size or (0, 0)


async def waiting(node: HostNode, **options: object) -> tuple[Sandbox, Container]:
    sandbox = await node.pod()
    container = await node.shell(sandbox, WAITS, **options)
    await node.says(sandbox, container, "ready")
    return sandbox, container


@pytest.mark.parametrize("plain", [False, True])
async def test_a_command_runs_to_its_end(make_node: NodeMaker, plain: bool):
    """A command has the container's variables, its output and exit code are returned."""
    node = await make_node(plain=plain)
    sandbox, container = await waiting(node, env={"GREETING": "hello"})
    command = ["/bin/sh", "-c", 'echo "$GREETING"; echo error >&2; exit 4']
    assert await node.runtime.exec_sync(sandbox, container, command, 60) == (4, b"hello\n", b"error\n")


async def test_a_command_is_within_the_container(node: HostNode):
    """A command sees the container's processes and files."""
    sandbox, container = await waiting(node)
    command = ["/bin/sh", "-c", "hostname; echo mine >/file; cat /proc/1/cmdline | tr '\\0' ' '"]
    result = await node.runtime.exec_sync(sandbox, container, command, 60)
    assert result.stdout.decode() == f"pod-uid-1\n/bin/sh -c {WAITS} "
    assert (await node.runtime.exec_sync(sandbox, container, ["cat", "/file"], 60)).stdout == b"mine\n"


async def test_a_command_without_end(node: HostNode):
    """A command that takes too long is killed; the container goes on."""
    sandbox, container = await waiting(node)
    with pytest.raises(CommandTimeoutError, match=r"timeout 0.05s exceeded: context deadline exceeded"):
        await node.runtime.exec_sync(sandbox, container, ["/bin/sh", "-c", "exec sleep 4321"], 0.05)
    script = "while grep -q 4321 /proc/[0-9]*/cmdline 2>/dev/null; do sleep 0.01; done"
    # The shell that looks has the number among its own words.
    result = await node.runtime.exec_sync(
        sandbox, container, ["/bin/sh", "-c", script.replace("4321", "43[2]1")], 60
    )
    assert result.exit_code == 0
    assert container.ends_at is None


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["nothing-here"], 'exec: "nothing-here": executable file not found in $PATH'),
        (["/nothing"], 'exec: "/nothing": stat /nothing: no such file or directory'),
    ],
)
async def test_commands_that_cannot_start(node: HostNode, command: Sequence[str], why: str):
    """A command that is not in the image is refused with the text of containerd and runc."""
    sandbox, container = await waiting(node)
    with pytest.raises(ContainerRuntimeError) as refused:
        await node.runtime.exec_sync(sandbox, container, command, 60)
    assert str(refused.value) == (
        "failed to exec in container: failed to start exec: OCI runtime exec failed: exec failed: "
        f"unable to start container process: {why}: unknown"
    )


async def test_a_command_in_an_ended_container(node: HostNode):
    """Nothing runs in a container that has ended."""
    sandbox, container = await waiting(node)
    node.runtime.stop_container(sandbox, container, 60)
    await node.ended(container)
    with pytest.raises(ContainerRuntimeError, match="is not running"):
        await node.runtime.exec_sync(sandbox, container, ["true"], 60)


async def test_streams_of_a_command(node: HostNode):
    """A command reads what the client sends to its end, and both of its outputs come back."""
    sandbox, container = await waiting(node)
    streams = Streams(b"one\n", b"two\n")
    command = ["/bin/sh", "-c", "cat; echo error >&2; exit 6"]
    code = await node.runtime.exec(sandbox, container, command, streams, stdin=True, tty=False)
    assert (code, streams.stdout, streams.stderr) == (6, b"one\ntwo\n", b"error\n")


@pytest.mark.parametrize("plain", [False, True])
async def test_a_command_on_a_terminal(make_node: NodeMaker, plain: bool):
    """A command with a terminal knows its size, and reads what is typed."""
    node = await make_node(plain=plain)
    sandbox, container = await waiting(node)
    streams = Streams(b"typed\n", ends=False, size=(120, 40))
    size = "until test \"$(stty size)\" = '40 120'; do sleep 0.01; done"
    script = f'{size}; read word; echo "got $word"; tty; exit 5'
    code = await node.runtime.exec(
        sandbox, container, ["/bin/sh", "-c", script], streams, stdin=True, tty=True
    )
    assert code == 5
    assert b"got typed\r\n" in streams.stdout
    assert b"/dev/pts/" in streams.stdout


async def test_a_client_that_goes(node: HostNode):
    """A command ends when its client goes."""
    sandbox, container = await waiting(node)
    streams = Streams(ends=False)
    command = ["/bin/sh", "-c", "echo $$; exec sleep 1000"]
    running = asyncio.ensure_future(
        node.runtime.exec(sandbox, container, command, streams, stdin=True, tty=False)
    )
    await until(lambda: streams.stdout)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    pid = streams.stdout.decode().strip()
    gone = ["/bin/sh", "-c", f"while test -e /proc/{pid}; do sleep 0.01; done"]
    assert (await node.runtime.exec_sync(sandbox, container, gone, 60)).exit_code == 0


async def test_attached_clients(node: HostNode):
    """A client that attaches gets the output from then on; with stdinOnce one client's input is all."""
    sandbox = await node.pod()
    container = await node.shell(sandbox, "echo ready; cat; echo end >&2", stdin=True, stdin_once=True)
    await node.says(sandbox, container, "ready")
    streams = Streams(b"one\n", b"two\n")
    await node.runtime.attach(sandbox, container, streams, stdin=True)
    assert (streams.stdout, streams.stderr) == (b"one\ntwo\n", b"end\n")
    assert await node.ended(container) == 0
    assert node.log(sandbox, container) == "ready\none\ntwo\nend\n"


async def test_an_attached_client_without_input(node: HostNode):
    """Clients that only look on all get the output; the input stays open without stdinOnce."""
    sandbox = await node.pod()
    container = await node.shell(sandbox, "read one; echo got $one; read two; echo got $two", stdin=True)
    looking, first = Streams(), Streams(b"1\n")
    watch = asyncio.ensure_future(node.runtime.attach(sandbox, container, looking, stdin=False))
    feed = asyncio.ensure_future(node.runtime.attach(sandbox, container, first, stdin=True))
    await node.says(sandbox, container, "got 1")
    await node.runtime.attach(sandbox, container, Streams(b"2\n"), stdin=True)
    await asyncio.gather(watch, feed)
    assert looking.stdout == b"got 1\ngot 2\n"
    assert await node.ended(container) == 0


async def test_attached_to_a_terminal(node: HostNode):
    """A container with a terminal shows what is typed, and gets the size of the client's window."""
    sandbox = await node.pod()
    size = "until test \"$(stty size)\" = '30 90'; do sleep 0.01; done"
    script = f'{size}; read word; echo "got $word"; exit 3'
    container = await node.shell(sandbox, script, stdin=True, tty=True)
    streams = Streams(b"typed\n", ends=False, size=(90, 30))
    await node.runtime.attach(sandbox, container, streams, stdin=True)
    assert await node.ended(container) == 3
    assert streams.stdout.endswith(b"got typed\r\n")


async def test_commands_that_were_given_up(node: HostNode):
    """The end of a command that nobody waits for any longer is that of no other command."""
    sandbox, container = await waiting(node)
    with pytest.raises(CommandTimeoutError):
        await node.runtime.exec_sync(sandbox, container, ["/bin/sh", "-c", "exec sleep 4322"], 0.05)
    for code in (3, 0):
        command = ["/bin/sh", "-c", f"exit {code}"]
        assert (await node.runtime.exec_sync(sandbox, container, command, 60)).exit_code == code
    assert node.runtime._commands._ends == {}


async def test_followed_logs(node: HostNode):
    """A follower of a log gets what comes from then on, up to the container's end."""
    sandbox = await node.pod()
    container = await node.shell(sandbox, "echo before; read word; echo after; printf rest", stdin=True)
    await node.says(sandbox, container, "before")
    following = node.runtime.follow_logs(sandbox, container)
    await node.runtime.attach(sandbox, container, Streams(b"go\n"), stdin=True)
    lines = [line async for line in following]
    assert [line.data for line in lines] == [b"after\n", b"rest"]


async def test_mounts_of_commands_without_namespaces(make_node: NodeMaker):
    """A command's paths lead to the pod's volumes where there are no namespaces."""
    node = await make_node(plain=True)
    (node.directory / "volume").mkdir()
    sandbox, container = await waiting(node, mounts=[Mount("/data", node.directory / "volume")])
    await node.runtime.exec_sync(sandbox, container, ["/bin/sh", "-c", "echo mine >/data/file"], 60)
    assert (node.directory / "volume" / "file").read_text() == "mine\n"
