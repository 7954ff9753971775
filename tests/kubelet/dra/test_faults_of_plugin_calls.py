"""Faults of a kubelet's calls of drivers, regardless of what service a driver speaks."""

import pytest
from faulty_clients import Notes

from kubeskew.apimachinery.faults.decisions import Progress
from kubeskew.apimachinery.faults.injector import Injector
from kubeskew.apimachinery.faults.syntax import read
from kubeskew.kubelet.dra.socket_plugin import FaultyChannel
from kubeskew.kubelet.protocols.grpc_calls import RpcError

pytestmark = pytest.mark.looptime


class _Channel:
    """Answers every call and keeps its path."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    async def call(self, path: str, request: bytes, timeout: float | None) -> bytes:
        self.paths.append(path)
        return request


def faulty(clock, **body) -> tuple[FaultyChannel, _Channel]:
    """Returns a channel to the driver `d` with one fault, and what is behind it."""
    notes, channel = Notes(), _Channel()
    injector = Injector("kubelet/n", clock, notes, notes.crash, notes.record)
    injector.apply([(read({"component": "kubelet/n", "id": "f", **body}), Progress())])
    return FaultyChannel(channel, "d", injector), channel


@pytest.mark.parametrize(
    "path",
    [
        "/v1.DRAPlugin/NodePrepareResources",
        "/v1alpha2.Node/NodePrepareResource",
        "/v1alpha1.Node/NodePrepareResource",
    ],
)
async def test_a_call_of_any_service_is_lost(clock, path):
    """The first call to prepare never reaches the driver, in each of the services, and the second does."""
    channel, behind = faulty(clock, verb="NodePrepareResources", nth=1, drop="request")
    with pytest.raises(RpcError, match="Unavailable"):
        await channel.call(path, b"x", 1.0)
    assert behind.paths == []
    assert await channel.call(path, b"x", 1.0) == b"x"


async def test_an_answer_is_lost_after_the_driver_did_its_work(clock):
    """The driver unprepares, and the kubelet does not learn it; calls that no fault is for go through."""
    channel, behind = faulty(clock, verb="NodeUnprepareResources", nth=1, drop="answer")
    assert await channel.call("/v1.DRAPlugin/NodePrepareResources", b"x", 1.0) == b"x"
    with pytest.raises(RpcError, match="Unavailable"):
        await channel.call("/v1.DRAPlugin/NodeUnprepareResources", b"x", 1.0)
    assert behind.paths == ["/v1.DRAPlugin/NodePrepareResources", "/v1.DRAPlugin/NodeUnprepareResources"]
    assert await channel.call("/v1.Registration/GetInfo", b"x", 1.0) == b"x"
