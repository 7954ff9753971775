"""Programs of a node's containers, and commands that are run in them."""

from kubeskew.kubelet.containers.container_process import run_program
from kubeskew.kubelet.containers.execution.driving import drive
from kubeskew.kubelet.containers.execution.process import BytesInput


def container(script, name="main", **more):
    return {"name": name, "image": "busybox", "command": ["sh", "-c", script], **more}


def container_process(node, name="main"):
    runtime = node.agent._runtime
    [sandbox] = runtime.sandboxes()
    return runtime.container_process(sandbox, sandbox.latest(name))


async def execute(node, script, name="main"):
    """(exit code, output) of a script run as `kubectl exec` does."""
    looked_into, written = container_process(node, name), bytearray()
    files = node.agent._runtime.recording(looked_into)
    process = looked_into.process(BytesInput(), written.extend, written.extend, tty=False, files=files)

    async def flush():
        node.agent._runtime.keep_files(looked_into)

    async def receive():
        return b""

    code = await drive(run_program(process, ["sh", "-c", script]), node.clock, receive, flush)
    return code, written.decode()
