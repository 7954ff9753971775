"""A server process that is killed under writers has every write that it acknowledged."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import aiohttp
import pytest
from server_in_process import MAPS, config_map

pytestmark = pytest.mark.cluster


async def started(directory: Path, port: int) -> tuple[asyncio.subprocess.Process, int]:
    """A server process over plain HTTP, and its port, once it is ready."""
    tokens = directory / "tokens.csv"
    tokens.write_text('secret,alice,1,"system:masters"\n')
    url = f"sqlite+aiosqlite:///{directory}/log.db"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "apiserver.cli", "--storage-url", url, "--secure-port", str(port),
        "--token-auth-file", str(tokens), stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    async for line in process.stderr:
        if b"serving on" in line:
            return process, int(line.rsplit(b":", 1)[1])
    raise AssertionError("the server ended before it was ready")


def session(port: int) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(f"http://127.0.0.1:{port}", headers={"Authorization": "Bearer secret"})


async def test_kill_under_writers(tmp_path):
    """Eight writers create and update until SIGKILL; after a restart all that was answered is there."""
    process, port = await started(tmp_path, 0)
    acknowledged: dict[str, str] = {}
    enough = asyncio.Event()

    async def write(http: aiohttp.ClientSession, writer: int) -> None:
        for number in range(10**6):
            name = f"w{writer}-{number}"
            for method, target in (("post", MAPS), ("put", f"{MAPS}/{name}")):
                body = config_map(name, data={"by": method})
                async with getattr(http, method)(target, json=body) as answer:
                    assert answer.status in {200, 201}
                    await answer.read()
                acknowledged[name] = method
            if len(acknowledged) >= 60:
                enough.set()

    async with session(port) as http:
        writers = [asyncio.create_task(write(http, writer)) for writer in range(8)]
        await enough.wait()
        os.kill(process.pid, signal.SIGKILL)
        results = await asyncio.gather(*writers, return_exceptions=True)
        assert all(isinstance(result, aiohttp.ClientError) for result in results)
        await process.wait()

    process, port = await started(tmp_path, 0)
    try:
        async with session(port) as http, http.get(MAPS) as answer:
            listed = (await answer.json())["items"]
    finally:
        process.send_signal(signal.SIGTERM)
        await process.communicate()
    found = {item["metadata"]["name"]: item["data"]["by"] for item in listed}
    for name, method in acknowledged.items():
        assert name in found
        assert found[name] == "put" or method == "post"
    assert process.returncode == 0
