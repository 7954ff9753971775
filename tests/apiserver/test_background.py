"""The work that a server does next to answering requests."""

import asyncio

import pytest
from loop_clock import LoopClock
from prometheus_client import CollectorRegistry

from kubeskew.apimachinery.metrics.series import QueueMeter, QueueMetrics
from kubeskew.apiserver import background
from kubeskew.apiserver.background import Background, Wakeups
from kubeskew.apiserver.storage.records import Key


async def test_a_duty_that_fails_begins_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The failure of a duty is logged, and the duty is done in the end."""
    monkeypatch.setattr(background, "PAUSE_SECONDS", 0)
    begun, done = [], asyncio.Event()

    async def duty() -> None:
        begun.append(1)
        if len(begun) < 3:
            raise RuntimeError("not yet")
        done.set()

    duties = Background()
    duties.add("the duty", duty)
    duties.start()
    await done.wait()
    await duties.stop()

    assert len(begun) == 3
    assert caplog.messages == ["the duty has failed, and begins again"] * 2


async def test_duties_end_with_the_server() -> None:
    """A stop cancels what is under way and waits for it; a second stop changes nothing."""
    begun, ended = asyncio.Event(), []

    async def duty() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(1)

    duties = Background()
    duties.add("the duty", duty)
    duties.start()
    await begun.wait()
    await duties.stop()
    await duties.stop()

    assert ended == [1]


async def test_changed_objects_are_counted_as_items_of_a_queue() -> None:
    """An object that changes before a look is one item of it; a look that fails is a retry."""
    metrics = QueueMetrics(CollectorRegistry(), LoopClock())
    meter = QueueMeter(metrics, "autoregister")
    wakeups = Wakeups(meter)
    for name in ("v1.", "v1.apps", "v1."):
        wakeups.changed(Key("apiservices", "", name))
    assert meter.depth == 2

    wakeups.begin()
    assert (meter.depth, len(meter.ages())) == (0, 2)
    wakeups.fail()
    wakeups.wake()
    await wakeups.wait()

    assert meter.ages() == []
    assert metrics.adds.labels("autoregister").value == 2
    assert metrics.retries.labels("autoregister").value == 1
    assert metrics.worked.labels("autoregister").count == 2
