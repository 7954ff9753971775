"""The time of admission plugins: only where they wait, by the clock of the server."""

import asyncio
from typing import Any

import pytest
from loop_clock import LoopClock

from kubeskew.apimachinery.catalogue import catalogue_for
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.metrics.series import unseen_families
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.admission import CREATE, AdmissionChain, Attributes, Plugin
from kubeskew.apiserver.metrics import AdmissionMetrics
from kubeskew.apiserver.user import User

PODS = catalogue_for(Version(36)).resource("", "v1", "pods")


class Waits(Plugin):
    """Waits twice, and is refused if a deadline comes in between."""

    waits = True

    async def validate(self, attributes: Attributes) -> None:
        await asyncio.sleep(1)
        try:
            async with asyncio.timeout(1 if attributes.name == "late" else None):
                await asyncio.sleep(2)
        except TimeoutError:
            raise attributes.refuse("too late") from None


class Ready(Plugin):
    """May wait, and does not."""

    waits = True

    async def validate(self, attributes: Attributes) -> None:
        attributes.warnings.append("seen")


def attributes(name: str) -> Attributes:
    assert PODS is not None
    obj: dict[str, Any] = {"metadata": {"name": name}}
    return Attributes(CREATE, PODS, "", "default", name, obj, None, User("somebody"))


@pytest.mark.looptime
async def test_a_plugin_takes_the_time_that_it_waits():
    """A plugin that waits is timed over all its waits, one that does not takes no time."""
    metrics = AdmissionMetrics(unseen_families())
    chain, written = AdmissionChain([Ready(), Waits()], metrics, LoopClock()), attributes("a")

    await chain.validate(written)

    assert written.warnings == ["seen"]
    assert metrics.plugin("Waits", "validate", CREATE).total == pytest.approx(3)
    ready = metrics.plugin("Ready", "validate", CREATE)
    assert (ready.total, ready.count) == (0, 1)


@pytest.mark.looptime
async def test_errors_reach_a_plugin_that_waits():
    """An error that ends a wait is thrown into the plugin, whose refusal counts with its time."""
    metrics = AdmissionMetrics(unseen_families())
    chain = AdmissionChain([Waits()], metrics, LoopClock())

    with pytest.raises(StatusError, match="too late"):
        await chain.validate(attributes("late"))

    assert metrics.plugin("Waits", "validate", CREATE, rejected=True).total == pytest.approx(2)


@pytest.mark.looptime
async def test_a_write_that_is_broken_off_ends_its_plugin():
    """A cancelled write ends while its plugin waits."""
    task = asyncio.create_task(AdmissionChain([Waits()], None, LoopClock()).validate(attributes("a")))
    await asyncio.sleep(0.5)

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
