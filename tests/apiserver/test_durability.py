"""A server process that is killed under writers has every write that it acknowledged."""

import asyncio
import os
import signal
import ssl
import sys
from pathlib import Path

import aiohttp
import pytest
from server_in_process import MAPS, config_map

from kubeskew.apimachinery.clock import SystemClock
from kubeskew.apiserver.storage.projection import digest, fold
from kubeskew.apiserver.storage.sql_log import SQLLog

pytestmark = pytest.mark.cluster


async def started(directory: Path, url: str) -> tuple[asyncio.subprocess.Process, int]:
    """A server process with a certificate of its own, and its port, once it is ready."""
    tokens = directory / "tokens.csv"
    tokens.write_text('secret,alice,1,"system:masters"\n')
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kubeskew.apiserver.cli", "--storage-url", url, "--secure-port", "0",
        "--token-auth-file", str(tokens), "--cert-dir", str(directory), stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    said = []
    async for line in process.stderr:
        if b"serving on" in line:
            return process, int(line.rsplit(b":", 1)[1])
        said.append(line.decode())
    raise AssertionError(f"the server ended before it was ready: {''.join(said)}")


def url_in(directory: Path) -> str:
    return f"sqlite+aiosqlite:///{directory}/log.db"


def trusting(directory: Path) -> ssl.SSLContext:
    """Returns TLS that trusts the server's own certificate."""
    return ssl.create_default_context(cafile=directory / "apiserver.crt")


def session(directory: Path, port: int) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        f"https://127.0.0.1:{port}",
        headers={"Authorization": "Bearer secret"},
        connector=aiohttp.TCPConnector(ssl=trusting(directory)),
    )


async def written_until_killed(
    process: asyncio.subprocess.Process, http: aiohttp.ClientSession, run: int
) -> dict[str, str]:
    """Eight writers create and update until SIGKILL: what was acknowledged, and by which verb last."""
    acknowledged: dict[str, str] = {}
    enough = asyncio.Event()

    async def write(http: aiohttp.ClientSession, writer: int) -> None:
        for number in range(10**6):
            name = f"r{run}-w{writer}-{number}"
            for method, target in (("post", MAPS), ("put", f"{MAPS}/{name}")):
                body = config_map(name, data={"by": method})
                async with getattr(http, method)(target, json=body) as answer:
                    assert answer.status in {200, 201}
                    await answer.read()
                acknowledged[name] = method
            if len(acknowledged) >= 60:
                enough.set()

    async with http:
        writers = [asyncio.create_task(write(http, writer)) for writer in range(8)]
        reached = asyncio.create_task(enough.wait())
        await asyncio.wait([reached, *writers], return_when=asyncio.FIRST_COMPLETED)
        alive = reached.done()  # else a writer has failed while the server was still there
        reached.cancel()
        os.kill(process.pid, signal.SIGKILL)
        results = await asyncio.gather(*writers, return_exceptions=True)
        await process.wait()
    assert [result for result in results if not isinstance(result, aiohttp.ClientError)] == []
    assert alive, results
    return acknowledged


async def listed(session: aiohttp.ClientSession) -> dict[str, str]:
    """The verb that last wrote each config map."""
    async with session as http, http.get(MAPS) as answer:
        items = (await answer.json())["items"]
    return {item["metadata"]["name"]: item["data"]["by"] for item in items if "by" in item.get("data", {})}


def check(acknowledged: dict[str, str], found: dict[str, str]) -> None:
    for name, method in acknowledged.items():
        assert name in found
        assert found[name] == "put" or method == "post"


async def killed_again_and_again(directory: Path, url: str, times: int) -> None:
    """One log, and a server on it that is killed so often; then one that stops in order."""
    acknowledged: dict[str, str] = {}
    for run in range(times):
        process, port = await started(directory, url)
        check(acknowledged, await listed(session(directory, port)))
        acknowledged |= await written_until_killed(process, session(directory, port), run)
    process, port = await started(directory, url)
    try:
        check(acknowledged, await listed(session(directory, port)))
    finally:
        process.send_signal(signal.SIGTERM)
        await process.communicate()
    assert process.returncode == 0
    log = await SQLLog.open(url, SystemClock())
    try:
        _, entries = await log.entries()
        assert digest(fold(await log.after(0, 10**7)).values()) == digest(entries)
    finally:
        await log.close()


async def test_kill_under_writers(tmp_path):
    """After SIGKILL under eight writers all that was answered is there."""
    await killed_again_and_again(tmp_path, url_in(tmp_path), 1)


@pytest.mark.postgresql
async def test_kill_under_writers_over_postgresql(tmp_path, postgresql):
    """After SIGKILL under eight writers all that was answered is in the database."""
    await killed_again_and_again(tmp_path, postgresql.fresh(), 2)


@pytest.mark.slow
@pytest.mark.timeout(900)  # 150 s on an idle machine: as many servers start
async def test_a_hundred_kills(tmp_path):
    """After a hundred kills nothing acknowledged is lost, and the log replays to what is stored."""
    await killed_again_and_again(tmp_path, url_in(tmp_path), 100)
