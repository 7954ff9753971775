"""Faults of a server of several workers are those of one server."""

import asyncio
import json
import signal
from collections import Counter
from pathlib import Path

import aiohttp
import pytest
from server_in_process import MAPS, config_map
from until import until
from worker_sets import WorkerSet, call, runs, worker_set

from kubeskew.apimachinery.faults.journal import journal_path, read_account

pytestmark = pytest.mark.cluster


async def plan(workers: WorkerSet, directory: Path, revision: int, **faults: dict) -> None:
    """Has the server take a plan up."""
    entries = [
        {"set": revision, "fault": {"component": "apiserver", "id": name, **fault}}
        for name, fault in faults.items()
    ]
    (directory / "plan.json").write_text(json.dumps({"revision": revision, "faults": entries}))
    workers.process.send_signal(signal.SIGHUP)
    await until(lambda: read_account(journal_path(directory, "apiserver")).applied == revision)


async def test_a_fault_fires_as_often_as_it_is_to_whichever_worker_answers(tmp_path):
    """Of requests over many connections as many are refused as the fault says; then all workers answer."""
    faults = tmp_path / "faults"
    faults.mkdir()
    async with worker_set(tmp_path, 3, "--faults-dir", str(faults)) as workers:
        refusal = {"verb": "create", "resource": "configmaps", "answer": 503, "times": 5}
        await plan(workers, faults, 1, refused=refusal)

        async def create(number: int) -> int:
            async with workers.session() as session:
                return (await call(session, "post", MAPS, json=config_map(f"c{number}")))[0]

        assert Counter(await asyncio.gather(*map(create, range(20)))) == {503: 5, 201: 15}
        await plan(workers, faults, 2)
        assert Counter(await asyncio.gather(*map(create, range(20, 30)))) == {201: 10}


async def test_an_outage_and_a_crash_are_the_whole_servers(tmp_path):
    """During an outage no worker takes connections, afterwards all do; a crash ends every process."""
    faults = tmp_path / "faults"
    faults.mkdir()
    async with (
        worker_set(tmp_path, 3, "--faults-dir", str(faults)) as workers,
        workers.sessions(3) as sessions,
    ):
        await plan(workers, faults, 1, away={"outage": "1s"})
        with pytest.raises(aiohttp.ClientConnectionError):
            async with workers.session() as session:
                await call(session, "get", "/version")
        for session in sessions:
            await until(lambda session=session: answers(session))
        pids = workers.children
        crash = {"verb": "create", "resource": "configmaps", "crash": "after", "nth": 1}
        await plan(workers, faults, 2, crash=crash)
        with pytest.raises(aiohttp.ClientError):
            async with workers.session() as session:
                await call(session, "post", MAPS, json=config_map("last"))
        await until(lambda: not any(map(runs, [workers.process.pid, *pids])))
        assert await workers.process.wait() == -signal.SIGKILL


async def answers(session: aiohttp.ClientSession) -> bool:
    try:
        return (await call(session, "get", "/version"))[0] == 200
    except aiohttp.ClientError:
        return False
