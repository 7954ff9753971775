"""`kubeskew cri`: what it refuses, and what a client finds at its socket."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kubeskew.kubelet.cri_cli import cri
from kubeskew.kubelet.protocols import cri as protocol
from kubeskew.kubelet.protocols.grpc_calls import RpcError, Unary, channel_to
from kubeskew.kubelet.protocols.messages import cri_v1_pb2 as messages

ROOT = Path(__file__).parents[2]
VERSION = protocol.RUNTIME_METHODS["Version"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--listen", "tcp://127.0.0.1:1"], "is no URL such as unix:///run/kubeskew/cri.sock"),
        (["--listen", "unix://cri.sock"], "the path has to be absolute"),
        (["--listen", "unix:///none/cri.sock"], "there is no directory /none"),
        (["--listen", f"unix:///{'x' * 107}"], "the path is longer than 107 bytes"),
        (["--listen", "unix:///dev/null"], "/dev/null is there and no socket"),
        (["--root-dir", "/none"], "'/none' does not exist"),
        (["--root-dir", "/proc"], "--root-dir: cannot make /proc/node:"),
        (["--node-name", "../a"], "'../a' is no name of a node"),
        (["--image", "busybox"], "busybox is not NAME=PATH"),
        (["--runtime", "host", "--image", "busybox=/none"], "there is no /none"),
        (["--image", "busybox=/dev/null"], "only --runtime host has images"),
        (["--runtime", "docker"], "'docker' is not one of"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path, arguments, said):
    """Each with a line that says why, and exit status 2."""
    given = ["--listen", f"unix://{tmp_path}/cri.sock", "--root-dir", str(tmp_path), *arguments]
    done = CliRunner().invoke(cri, given)
    assert done.exit_code == 2
    assert said in done.output


async def test_a_client_finds_the_runtime(tmp_path):
    """CRI v1 is served until the end, another version is not; a socket that is left over is no obstacle."""
    socket = tmp_path / "cri.sock"
    arguments = ["-m", "kubeskew", "cri", "--listen", f"unix://{socket}", "--root-dir", str(tmp_path)]
    for ending in (signal.SIGKILL, signal.SIGTERM):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, *arguments),
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            line = await asyncio.wait_for(process.stdout.readline(), 30)
            assert line.decode().strip() == f"serving CRI v1 at unix://{socket}"
            channel = channel_to(socket)
            answer = await VERSION.call(channel, messages.VersionRequest(), timeout=10)
            assert answer.runtime_api_version == "v1"
            older = Unary("runtime.v1alpha2.RuntimeService", "Version", VERSION.request, VERSION.response)
            with pytest.raises(RpcError, match="Unimplemented"):
                await older.call(channel, messages.VersionRequest(), timeout=10)
            await channel.close()
        finally:
            process.send_signal(ending)
            assert await process.wait() == (0 if ending is signal.SIGTERM else -ending)
