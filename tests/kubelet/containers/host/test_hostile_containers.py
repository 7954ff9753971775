"""Programs that mean harm to the kubelet or to other pods."""

import asyncio
import os
from contextlib import suppress
from pathlib import Path

from host_node import PYTHON, HostNode, NodeMaker
from until import until

from kubeskew.kubelet.containers.host import log_writer


async def test_a_fork_bomb(make_node: NodeMaker):
    """A program that forks without end reaches a limit of its own; others start, and it can be killed."""
    node = await make_node(processes=100)
    sandbox, other = await node.pod("one"), await node.pod("two")
    script = (
        "import os, time\nwhile True:\n try: os.fork()\n"
        " except OSError: print('limit', flush=True); time.sleep(999)"
    )
    bomb = await node.start(sandbox, PYTHON, "-c", script)
    await node.says(sandbox, bomb, "limit")
    assert await node.output(other, "echo fine") == "fine\n"
    node.runtime.stop_container(sandbox, bomb, 0)
    await node.ended(bomb)


ZOMBIES = """
import ctypes, os, time
ctypes.CDLL(None).prctl(15, b"{name}")  # the name goes to children as well
for _ in range(5):
    if not os.fork():
        os.fork()
        os._exit(0)
print("made", flush=True)
time.sleep(999)
"""


def _states(name: str) -> list[str]:
    """Of all processes of the machine with that name."""
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            before, _, after = file.read_text().rpartition(")")
            if before.endswith(f"({name}"):
                found.append(after.split()[0])
    return sorted(found)


async def test_zombies(node: HostNode):
    """Children that nobody waits for are there as long as their container, and go with it."""
    sandbox, name = await node.pod(), f"zombie-{os.getpid()}"
    container = await node.start(sandbox, PYTHON, "-c", ZOMBIES.format(name=name))
    await node.says(sandbox, container, "made")
    await until(lambda: _states(name).count("Z") >= 5)
    node.runtime.stop_container(sandbox, container, 0)
    await node.ended(container)
    await until(lambda: not _states(name))


async def test_closed_outputs(node: HostNode):
    """A program that closes its outputs runs on until it ends."""
    sandbox = await node.pod()
    container = await node.shell(
        sandbox, "echo before; exec >&- 2>&-; trap 'exit 4' TERM; while :; do sleep 0.01; done"
    )
    await node.says(sandbox, container, "before")
    result = await node.runtime.exec_sync(sandbox, container, ["/bin/sh", "-c", "echo alive"], 60)
    assert result.stdout == b"alive\n"
    node.runtime.stop_container(sandbox, container, 60)
    assert await node.ended(container) == 4


async def test_output_without_end(node: HostNode):
    """Output without end fills a bounded number of files, and others are served meanwhile."""
    sandbox, other = await node.pod("one"), await node.pod("two")
    container = await node.shell(sandbox, "while :; do head -c 1000000 /dev/zero | tr '\\0' 'x'; done")
    log = node.directory / "logs" / "one" / "main"
    while len([*log.glob("0.log*")]) < log_writer.FILES:
        assert await node.output(other, "echo fine") == "fine\n"
    files = [*log.glob("0.log*")]
    assert sum(file.stat().st_size for file in files) < (log_writer.FILES + 1) * log_writer.FILE_BYTES
    node.runtime.stop_container(sandbox, container, 0)
    await node.ended(container)


async def test_much_output_of_a_command(node: HostNode):
    """A command's output is kept up to a limit; the rest is dropped."""
    sandbox = await node.pod()
    container = await node.shell(sandbox, "exec sleep 1000")
    command = ["head", "-c", "30000000", "/dev/zero"]
    result = await node.runtime.exec_sync(sandbox, container, command, 60)
    assert (result.exit_code, len(result.stdout)) == (0, 16 * 1024 * 1024)


async def test_many_at_once(node: HostNode):
    """Pods that start at the same time do not mix up what is theirs."""

    async def one(number: int) -> str:
        return await node.output(await node.pod(f"uid-{number}"), f"echo {number}; hostname")

    outputs = await asyncio.gather(*[one(number) for number in range(12)])
    assert outputs == [f"{number}\npod-uid-{number}\n" for number in range(12)]
