"""The work that a server does beside answering requests."""

import asyncio

import pytest

from kubeskew.apiserver import background
from kubeskew.apiserver.background import Background


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
