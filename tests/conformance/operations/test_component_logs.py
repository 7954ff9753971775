"""The operation `logs`: lines of components' logs are awaited, counted and ruled out, in virtual time."""

import asyncio

import pytest
from cell_in_memory import Control, run
from loop_clock import LoopClock

from kubeskew.apimachinery.clock import micro_timestamp

pytestmark = pytest.mark.looptime


def line(text: str) -> str:
    """A line as a component logs it now."""
    return f"{micro_timestamp(LoopClock().now())[:23]}Z I kubeskew: {text}\n"


async def outcome(body: str, *later: str) -> str:
    """The failure of an operation on a log that had a line before the step; `later` come half a second on."""
    control = Control()
    control.logged["scheduler"] = line("old news")
    await asyncio.sleep(1)

    async def write() -> None:
        await asyncio.sleep(0.5)
        control.logged["scheduler"] += "".join(line(text) for text in later)

    writing = asyncio.ensure_future(write())
    result = await run(f"\n  - name: one\n    try: [{{logs: {{component: scheduler, {body}}}}}]\n", control)
    await writing
    return result.error or result.failure.removeprefix("one: logs: ")


@pytest.mark.parametrize(
    ("body", "later"),
    [
        ("match: ^.* good news$", ["good news"]),
        ("match: old, since: start", []),
        ("match: news, count: 2", ["news", "more news"]),
        ("match: '^  File', since: step", ["Traceback:\n  File x"]),
        ("absent: old", []),
        ("match: good, absent: old", ["good"]),
        ('match: "(`null`)", absent: old', ["bad"]),
        ('match: good, absent: "(`null`)"', ["good"]),
    ],
)
async def test_lines_are_awaited(body: str, later: list[str]):
    """A line of the step's time matches, or of any time; lines without a time go with the one before."""
    assert await outcome(body, *later) == ""


async def test_lines_of_both_processes_of_a_driver_count():
    """A driver's name stands for two logs, each read from where it was: lines from before do not count."""
    control = Control()
    control.logged = {"driver/d": line("x old"), "driver-controller/d": line("x old")}
    await asyncio.sleep(1)

    async def write() -> None:
        for _ in range(2):
            await asyncio.sleep(0.5)
            for name in control.logged:
                control.logged[name] += line("x new")

    writing = asyncio.ensure_future(write())
    found = await run("\n  - name: a\n    try: [{logs: {component: driver, match: x, count: 4}}]\n", control)
    await writing
    assert (found.error or "", found.failure) == ("", "")


@pytest.mark.parametrize(
    ("body", "later", "failure"),
    [
        ("match: old", [], "expected a line of scheduler's log to match old; found no line"),
        (
            "match: bad",
            ["good"],
            "expected a line of scheduler's log to match bad; found none; the last are ",
        ),
        (
            "match: news, count: 1",
            ["news", "news"],
            "expected 1 lines of scheduler's log to match news; found 2: ",
        ),
        ("absent: old, since: start", [], "expected no line of scheduler's log to match old; found "),
        (
            "match: good, absent: bad",
            ["bad", "good"],
            "expected no line of scheduler's log to match bad; found ",
        ),
        ("match: '('", [], "no regular expression"),
        ("match: x, since: yesterday", [], "logs.since: expected step or start"),
        ("since: step", [], "logs: expected `match` or `absent`"),
        ('match: "(`null`)"', [], "logs: expected `match` or `absent`"),
    ],
)
async def test_what_is_not_in_the_log_fails(body: str, later: list[str], failure: str):
    """The failure shows the lines that there are."""
    assert failure in await outcome(body, *later)


async def test_lines_of_a_real_program_count_by_their_own_times():
    """JSON is matched in the form of text; lines from before the step do not count, whatever their form."""
    control, clock = Control(), LoopClock()

    def written(message: str) -> str:
        stamp = clock.now().timestamp() * 1000
        reference = '{"name":"a","namespace":"ns"}'
        return f'{{"ts":{stamp},"caller":"s.go:1","msg":"{message}","v":5,"pod":{reference}}}\n'

    control.logged["scheduler"] = written("old news")
    await asyncio.sleep(1)
    control.logged["scheduler"] += "not of this form\n"

    async def write() -> None:
        await asyncio.sleep(0.5)
        control.logged["scheduler"] += written("good news")

    writing = asyncio.ensure_future(write())
    pattern = """'^"good news" pod="ns/a"$', absent: old"""
    steps = f"\n  - name: one\n    try: [{{logs: {{component: scheduler, match: {pattern}}}}}]\n"
    assert (await run(steps, control)).failure == ""
    await writing
