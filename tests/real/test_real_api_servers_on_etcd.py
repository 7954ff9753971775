"""A real kube-apiserver answers alike above etcd and above `kubeskew etcd`, at each minor.

It needs an `etcd` on PATH, or its path in the environment as ETCD. `python test_real_api_servers_on_etcd.py
MINOR FIRST COUNT` runs other mixes than the test, and reports.
"""

import asyncio
import json
import os
import re
import sys
from base64 import b64decode
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest
from recorded import DATA
from request_mixes import compacted, expiring, listed_by_watch, mix
from transcript_answers import apart
from transcripts import SIDE_BY_SIDE, Run, filled, load

from benchmarks.real_servers import ETCD, STORES, TOKEN, RealServer, real_server
from kubeskew.apiserver.storage.etcd.messages import rpc_pb2 as pb

MINORS = ("1.31", "1.32", "1.33", "1.34", "1.35", "1.36")
RECORDED = ("real-1.36", "machinery-1.36", "requests-1.20")
MIXES = 20
ALLOCATED = ["**.clusterIP", "**.clusterIPs", "**.nodePort"]  # at random
POINTER = re.compile(r"\(0x[0-9a-f]+\)")  # of the process, in errors of 1.31 to 1.33
BLUEPRINT = re.compile(r'("kubernetes.io/initial-events-list-blueprint": )"([^"]+)"')  # names the run
TRIES = 3  # steps of some sequences race with each other on any server

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]


class StoredRun(Run):
    """A run that can reach below its server, and send several requests at once."""

    server: RealServer

    async def _step(self, step: dict[str, Any]) -> Any:
        if "compact" in step:
            return await self._compact()
        if "together" in step:
            requests = [self._request(filled(each, self._names)) for each in step["together"]]
            statuses = sorted(answer["status"] for answer in await asyncio.gather(*requests))
            return {"status": 0, "type": "", "body": {"statuses": statuses}}
        answer = await super()._step({**step, "within": min(step.get("within", 2), 30)})
        # A process of Go shows differences with one kind of space or the other, by chance.
        text = POINTER.sub("(0x0)", json.dumps(answer)).replace("\\u00a0", " ")
        return json.loads(BLUEPRINT.sub(lambda found: found[1] + json.dumps(str(b64decode(found[2]))), text))

    async def _compact(self) -> None:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{self.server.store_port}") as channel:
            ranged = channel.unary_unary(
                "/etcdserverpb.KV/Range", pb.RangeRequest.SerializeToString, pb.RangeResponse.FromString
            )
            compact = channel.unary_unary(
                "/etcdserverpb.KV/Compact",
                pb.CompactionRequest.SerializeToString,
                pb.CompactionResponse.FromString,
            )
            newest = (await ranged(pb.RangeRequest(key=b"none"))).header.revision
            await compact(pb.CompactionRequest(revision=newest, physical=True))


async def runs(server: RealServer, sequences: dict[str, Any], gate: asyncio.Semaphore) -> dict[str, Run]:
    async with aiohttp.ClientSession(
        headers={"Authorization": f"Bearer {TOKEN}"},
        connector=aiohttp.TCPConnector(ssl=False, limit=0),
        max_line_size=2**16,
        max_field_size=2**16,
    ) as http:

        async def run(name: str) -> tuple[str, Run]:
            async with gate:
                one = StoredRun(http, f"https://127.0.0.1:{server.port}", sequences[name])
                one.server = server
                return name, await one.go()

        return dict(await asyncio.gather(*map(run, sequences)))


async def differences(servers: list[RealServer], sequences: dict[str, Any]) -> dict[str, list[str]]:
    """The sequences that came out apart in every one of some tries, the later ones one at a time."""
    found: dict[str, list[str]] = {}
    for attempt in range(TRIES):
        gates = [asyncio.Semaphore(1 if attempt else SIDE_BY_SIDE) for _ in servers]
        one, other = await asyncio.gather(
            *(runs(server, sequences, gate) for server, gate in zip(servers, gates, strict=True))
        )
        found = {name: what for name in sequences if (what := apart(one[name], other[name]))}
        sequences = {name: sequences[name] for name in found}
    return found


def recorded() -> dict[str, Any]:
    files = [file for folder in RECORDED for file in sorted((DATA / folder).glob("*.golden.json"))]
    return {
        f"{file.stem}/{name}": {**one, "ignore": [*one["ignore"], *ALLOCATED]}
        for file in files
        for name, one in load(file).items()
    }


async def compare(binaries: Path, minor: str, parts: list[dict[str, Any]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    async with AsyncExitStack() as stack:
        starting = [stack.enter_async_context(real_server(binaries, minor, store)) for store in STORES]
        servers = [await each for each in starting]
        for part in parts:
            found |= await differences(servers, part)
    return found


def generated(first: int, count: int) -> dict[str, Any]:
    return {f"mix-{seed}": mix(seed) for seed in range(first, first + count)}


def fixed() -> list[dict[str, Any]]:
    """Those with expiry or compaction, which reaches all of a store: one part after the other."""
    return [{one["name"]: one} for one in (listed_by_watch(), expiring(), compacted())]


@pytest.mark.skipif(ETCD is None, reason="needs etcd: on PATH, or its path in the environment as ETCD")
@pytest.mark.parametrize("minor", MINORS)
async def test_answers_are_those_above_etcd(binaries: Path, minor: str):
    """Recorded sequences, seeded mixes, expiry and compaction are answered alike above both stores."""
    assert await compare(binaries, minor, [recorded(), generated(0, MIXES), *fixed()]) == {}


async def _report(binaries: Path, minor: str, first: int, count: int) -> None:
    parts = [generated(first, count), *fixed()] + ([recorded()] if not first else [])
    found = await compare(binaries, minor, parts)
    steps = sum(len(one["steps"]) for part in parts for one in part.values())
    for name, what in found.items():
        sys.stdout.write("\n    ".join([f"{minor} {name}", *what[:4]]) + "\n")
    sys.stdout.write(f"{minor}: {sum(map(len, parts))} sequences, {steps} steps, {len(found)} apart\n")


if __name__ == "__main__":
    folder = Path(os.environ["KUBESKEW_BINARIES"]).absolute()
    asyncio.run(_report(folder, sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
