"""Programs that mean harm to the kubelet or to other pods."""

import asyncio

from host_node import PYTHON, HostNode, NodeMaker

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


async def test_zombies(node: HostNode):
    """Children that nobody waits for go with their container."""
    script = "for i in 1 2 3 4 5; do (sleep 0 & exec sleep 0) & done; exec sleep 0.01"
    sandbox = await node.pod()
    assert await node.ended(await node.shell(sandbox, script)) == 0


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
