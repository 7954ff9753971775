"""Our controllers do with workloads, services and volumes as recorded ones of 1.20 and 1.36.3 did."""

import asyncio
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from recorded import DATA
from transcript_answers import differing
from transcripts import Run, load

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("sessions"), pytest.mark.timeout(600)]

FILES = [
    DATA / "workloads-1.20" / "workloads.golden.json",
    *sorted((DATA / "real-1.36").glob("strict-*.golden.json")),
]
RECORDED = {name: value for file in FILES for name, value in load(file).items()}
_HASHES = "hashes of pod templates come from Go's print of the struct, which docs/fidelity.md leaves out"
# Sequences that are not answered alike, with the reason. One of them that comes to pass fails.
_NOT_ALIKE = {
    "deployment-creates-replicaset-and-pods": _HASHES,
    "deployment-rollout": _HASHES,
    "service-defaults": "addresses and ports of services are random",
    "scale-of-nothing": "since 1.33 a 404 for a missing Scale names the resource itself",
    "nodes": "the controller that annotates nodes has its turn earlier or later",
}
SIDE_BY_SIDE = 6


async def _run_all(state: Path, server: str) -> dict[str, Run]:
    headers = {"Authorization": f"Bearer {(state / 'admin.token').read_text().strip()}"}
    unchecked = ssl.create_default_context()
    unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
    gate = asyncio.Semaphore(SIDE_BY_SIDE)
    async with aiohttp.ClientSession(
        headers=headers, connector=aiohttp.TCPConnector(ssl=unchecked), max_line_size=2**16
    ) as http:

        async def run(name: str) -> tuple[str, Run]:
            async with gate:
                return name, await Run(http, server, RECORDED[name]).go()

        return dict(await asyncio.gather(*map(run, RECORDED)))


@pytest.fixture(scope="module")
def runs(unscheduled: Any) -> dict[str, Run]:
    """Every sequence run once, some side by side."""
    kubeconfig = yaml.safe_load(unscheduled.kubeconfig.read_text())
    return asyncio.run(_run_all(unscheduled.state, kubeconfig["clusters"][0]["cluster"]["server"]))


@pytest.mark.parametrize("name", RECORDED)
def test_the_controllers_do_as_recorded(runs: dict[str, Run], name: str):
    """Controllers make, adopt, release, count and delete objects in the recorded order."""
    found = differing(runs[name])

    assert name in _NOT_ALIKE or not found, found
