"""Tests the files of faults: a plan that is read again, journals that hold over the end of a process."""

import orjson
import pytest
from loop_clock import LoopClock

from kubeskew.apimachinery.faults.fault import Call
from kubeskew.apimachinery.faults.injector import ProcessFaults
from kubeskew.apimachinery.faults.journal import journal_path, load_plan, read_account

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

POD = Call("create", "pods", "", "", "ns", "p")


def write(path, revision, *faults):
    """Write a plan of (revision at which it was set, fault)."""
    entries = [{"set": at, "fault": {"component": "scheduler", **fault}} for at, fault in faults]
    (path / "plan.json").write_bytes(orjson.dumps({"revision": revision, "faults": entries}))


async def crash(_fault, _detail):
    raise AssertionError("nothing crashes here")


def started(path):
    """A scheduler's process as it starts."""
    process = ProcessFaults(path, LoopClock())
    return process, process.injector("scheduler", crash, lambda what, detail: None)


async def numbers(injector, calls=3):
    """Returns which of the next calls are answered with an error."""
    found = []

    async def send():
        return "sent"

    async def discard(_answer):
        pass

    for number in range(1, calls + 1):
        try:
            await injector.inject(POD, send, discard)
        except Exception as error:
            found.append((number, type(error).__name__))
    return [number for number, _ in found]


async def test_a_process_without_a_plan_has_no_faults(tmp_path):
    """While nothing is planned the injector has nothing to ask, and says that it is up to date."""
    _, injector = started(tmp_path)

    assert injector.decider is None
    assert await numbers(injector) == []
    assert read_account(journal_path(tmp_path, "scheduler")).applied == 0


async def test_a_plan_takes_effect_when_it_is_read_again(tmp_path):
    """A reloaded plan starts its new faults and ends the removed ones; the others keep their counters."""
    process, injector = started(tmp_path)
    write(tmp_path, 1, (1, {"id": "a", "nth": 4, "answer": 500}))
    process.reload()
    assert await numbers(injector) == []

    write(tmp_path, 2, (1, {"id": "a", "nth": 4, "answer": 500}), (2, {"id": "b", "nth": 2, "answer": 409}))
    process.reload()
    assert await numbers(injector) == [1, 2]

    write(tmp_path, 3)
    process.reload()
    assert injector.decider is None
    account = read_account(journal_path(tmp_path, "scheduler"))
    assert (account.applied, account.seen) == (3, {"create pods": 6})


async def test_a_restart_goes_on_counting(tmp_path):
    """A process that is started again has the plan at once, and counts on where the last one was."""
    write(tmp_path, 1, (1, {"id": "a", "nth": 5, "answer": 500}))
    _, before = started(tmp_path)
    assert await numbers(before) == []

    _, after = started(tmp_path)
    assert await numbers(after) == [2]
    _, last = started(tmp_path)
    assert await numbers(last) == []


async def test_an_id_that_is_used_again_starts_over(tmp_path):
    """The counters of a fault that was cleared are not those of the next one of that name."""
    write(tmp_path, 1, (1, {"id": "a", "nth": 1, "answer": 500}))
    process, injector = started(tmp_path)
    assert await numbers(injector) == [1]

    write(tmp_path, 3, (3, {"id": "a", "nth": 1, "answer": 500}))
    process.reload()
    assert await numbers(injector) == [1]


async def test_faults_are_of_one_component(tmp_path):
    """A process with several components gives each its own faults and counters."""
    write(tmp_path, 1, (1, {"id": "a", "component": "kubelet/n1", "answer": 500}))
    process = ProcessFaults(tmp_path, LoopClock())
    first, second = (process.injector(f"kubelet/{n}", crash, lambda *_: None) for n in ("n1", "n2"))

    assert await numbers(first) == [1, 2, 3]
    assert await numbers(second) == []
    assert journal_path(tmp_path, "kubelet/n1").name == "kubelet%2Fn1.jsonl"


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"revision": 2, "faults": [{"set": 1, "fault": {}}]}'])
async def test_a_plan_that_cannot_be_read_changes_nothing(tmp_path, caplog, content):
    """A damaged plan is logged, and all stays as it is."""
    write(tmp_path, 1, (1, {"id": "a", "answer": 500}))
    process, injector = started(tmp_path)
    (tmp_path / "plan.json").write_bytes(content)
    process.reload()

    assert await numbers(injector) == [1, 2, 3]
    assert "faults stay as they are" in caplog.text


async def test_a_line_cut_short_is_left_out(tmp_path):
    """A journal whose process died in the middle of a line counts without it."""
    write(tmp_path, 1, (1, {"id": "a", "nth": 2, "answer": 500}))
    _, injector = started(tmp_path)
    await numbers(injector, 1)
    path = journal_path(tmp_path, "scheduler")
    path.write_bytes(path.read_bytes() + b'{"id": "a", "se')

    assert read_account(path).progress["a", 1].matched == 1
    assert load_plan(tmp_path).of("scheduler")[0].fault.id == "a"


async def test_a_fault_of_a_driver_is_one_of_both_its_processes(tmp_path):
    """Each of a driver's processes counts its own calls; a fault of its plugins is none of its controller."""
    pods = {"verb": "create", "resource": "pods", "answer": 500}
    faults = [("driver/d", {"nth": 2}), ("driver-plugin/d", {"nth": 1}), ("driver-controller/d", {"nth": 3})]
    write(tmp_path, 1, *((1, {"component": name, **when, **pods}) for name, when in faults))
    process = ProcessFaults(tmp_path, LoopClock())
    plugins, controller, other = (
        process.injector(name, crash, lambda what, detail: None)
        for name in ("driver/d", "driver-controller/d", "driver/dd")
    )

    assert await numbers(plugins) == [1, 2]
    assert await numbers(controller) == [2, 3]
    assert other.decider is None
