"""`kubeskew etcd` as a process of its own."""

import asyncio
import signal
import sys

import pytest
from etcd_calls import GRPCClient

from kubeskew.apiserver.storage.etcd.messages import rpc_pb2 as pb

pytestmark = pytest.mark.cluster


async def test_a_process_serves_until_it_is_stopped():
    """It prints where it serves, takes many calls at once, and ends with 0 at SIGTERM, watches or not."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kubeskew", "etcd", "--listen-client-urls", "http://127.0.0.1:0",
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    line = (await asyncio.wait_for(process.stdout.readline(), 60)).decode()
    assert line.startswith("serving etcd's API at http://127.0.0.1:")
    client = GRPCClient(line.split("//")[1].strip())
    stream = client.watch()
    stream.send(pb.WatchRequest(create_request=pb.WatchCreateRequest(key=b"k", range_end=b"l")))
    assert (await stream.next()).created
    puts = [pb.PutRequest(key=b"k%03d" % number, value=bytes(20_000)) for number in range(200)]
    answers = await asyncio.gather(*map(client.call, puts))
    assert sorted(answer.header.revision for answer in answers) == list(range(2, 202))
    found = await client.call(pb.RangeRequest(key=b"k", range_end=b"l"))
    assert found.count == len(found.kvs) == 200
    events: list[pb.Event] = []
    while len(events) < 200:
        events += (await stream.next()).events
    assert [event.kv.mod_revision for event in events] == list(range(2, 202))
    process.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(process.wait(), 20) == 0
    await stream.close()
    await client.close()
