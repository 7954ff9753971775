"""The scheduling queue, in virtual time."""

import asyncio

import pytest

from kubeskew.apimachinery.clock import SystemClock
from kubeskew.scheduler.framework.events import Action, ClusterEvent, EventHint, EventResource, Topics
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.profile import Profile
from kubeskew.scheduler.framework.status import SUCCESS, unresolvable
from kubeskew.scheduler.plugins.priority_sort import PrioritySort
from kubeskew.scheduler.plugins.scheduling_gates import SchedulingGates
from kubeskew.scheduler.queue import SchedulingQueue
from kubeskew.scheduler.settings import Backoff

pytestmark = pytest.mark.looptime

NODE_ADDED = ClusterEvent(EventResource.NODE, Action.ADD, "NodeAdd")
NODE_TAINTED = ClusterEvent(EventResource.NODE, Action.UPDATE_NODE_TAINT, "NodeTaint")
POD_DELETED = ClusterEvent(EventResource.ASSIGNED_POD, Action.DELETE, "AssignedPodDelete")
GATES_GONE = ClusterEvent(EventResource.UNSCHEDULED_POD, Action.UPDATE_POD_GATES_ELIMINATED, "GatesGone")


class _Picky:
    """Asks for added nodes that carry a label; binds nothing."""

    name = "Picky"

    def events_to_register(self):
        return (EventHint(ClusterEvent(EventResource.NODE, Action.ADD), lambda pod, old, new: new["good"]),)

    def pre_enqueue(self, pod):
        return unresolvable("no") if pod.spec.get("held") else SUCCESS

    async def bind(self, state, pod, node):
        return SUCCESS


def _pod(name, priority=0, **spec):
    return PodInfo(
        {
            "metadata": {"namespace": "default", "name": name, "uid": f"uid-{name}"},
            "spec": {"priority": priority, "containers": [], **spec},
        }
    )


def _queue():
    return SchedulingQueue(SystemClock(), [Profile([PrioritySort(), SchedulingGates(), _Picky()])])


async def _rejected(queue, name="a", by="Picky"):
    """A pod that has been tried once and was rejected."""
    queue.add(_pod(name))
    queued = await queue.pop()
    queued.rejected_by = {by}
    queue.add_unschedulable_if_not_present(queued)
    return queued


async def test_order_is_priority_then_age():
    """The more important pod comes first; equals come in the order of arrival."""
    queue = _queue()
    for name, priority in (("low", 0), ("high", 10), ("later", 0)):
        queue.add(_pod(name, priority))
        await asyncio.sleep(0.1)

    assert [(await queue.pop()).info.name for _ in range(3)] == ["high", "low", "later"]


@pytest.mark.parametrize(("failures", "seconds"), [(0, 0), (1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (99, 10)])
async def test_backoff_grows_to_ten_seconds(failures, seconds):
    """Each failure doubles the wait, from one second to ten."""
    assert Backoff().seconds(failures) == seconds


@pytest.mark.parametrize(("loses", "tried_again"), [(False, True), (True, False)])
@pytest.mark.parametrize("earlier", [True, False])
async def test_events_during_an_attempt_count(loses, tried_again, earlier):
    """A pod is tried again if something helped during its attempt; with 120413 not, if an event was kept as
    the attempt began and nobody needs that one any more."""
    profile = Profile([PrioritySort(), SchedulingGates(), _Picky()])
    queue = SchedulingQueue(SystemClock(), [profile], backoff=Backoff(0.0), loses_events=loses)
    queue.add(_pod("first"))
    first = await queue.pop()
    if earlier:
        queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, {"good": False})
    queue.add(_pod("second"))
    second = await queue.pop()
    queue.done(first.uid)
    queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, {"good": True})
    second.rejected_by = {"Picky"}
    queue.add_unschedulable_if_not_present(second)

    waits = queue.sizes["unschedulable"] == 1
    assert waits is not (tried_again or not earlier)


async def test_error_is_retried_after_backoff(looptime):
    """A pod that nobody rejected failed by accident, and comes back by itself."""
    queue = _queue()
    queue.add(_pod("a"))
    queue.add_unschedulable_if_not_present(await queue.pop())

    assert (await queue.pop()).info.name == "a"
    assert looptime == pytest.approx(1, abs=0.01)


async def test_rejected_pod_waits_for_its_event():
    """Only an event that the rejecting plugin asked for, and whose hint agrees, brings the pod back."""
    queue = _queue()
    await _rejected(queue)

    queue.move_all_to_active_or_backoff_queue(POD_DELETED, {}, None)
    queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, {"good": False})
    assert queue.sizes["unschedulable"] == 1
    queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, {"good": True})
    assert queue.sizes == {"active": 0, "backoff": 1, "unschedulable": 0, "gated": 0}


async def test_requeued_pod_skips_a_finished_backoff(looptime):
    """After the backoff has passed, an event makes the pod active at once."""
    queue = _queue()
    await _rejected(queue)
    await asyncio.sleep(2)

    queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, {"good": True})
    assert queue.sizes["active"] == 1
    await queue.pop()
    assert looptime == pytest.approx(2, abs=0.01)


async def test_event_during_the_attempt_counts():
    """An event during a pod's attempt counts: the pod goes to the backoff queue."""
    queue = _queue()
    queue.add(_pod("a"))
    queued = await queue.pop()
    queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, {"good": True})
    queued.rejected_by = {"Picky"}

    queue.add_unschedulable_if_not_present(queued)
    assert queue.sizes["backoff"] == 1


async def test_rejection_after_the_end_of_the_attempt():
    """A pod that is rejected once the events of its attempt are let go is tried again after a backoff."""
    queue = _queue()
    queue.add(_pod("a"))
    queued = await queue.pop()
    queue.done(queued.uid)
    queued.rejected_by = {"Picky"}

    queue.add_unschedulable_if_not_present(queued)
    assert queue.sizes["backoff"] == 1


async def test_event_before_the_attempt_does_not_count():
    """An event that came before the attempt was seen by it."""
    queue = _queue()
    queue.add(_pod("a"))
    queue.add(_pod("b"))
    first = await queue.pop()
    queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, {"good": True})
    second = await queue.pop()
    second.rejected_by = {"Picky"}

    queue.add_unschedulable_if_not_present(second)
    queue.done(first.uid)
    assert queue.sizes["unschedulable"] == 1


async def test_leftover_pod_is_tried_again(looptime):
    """After five minutes a rejected pod is tried again, regardless of what happened."""
    queue = _queue()
    await _rejected(queue)

    await queue.pop()
    assert 300 < looptime < 340


async def test_gated_pod_waits_until_its_gate_is_gone():
    """A pod with scheduling gates does not enter the active queue."""
    queue = _queue()
    gated = _pod("a", schedulingGates=[{"name": "g"}])
    queue.add(gated)
    assert queue.sizes["gated"] == 1

    queue.update(_pod("a"), gated.pod, [GATES_GONE])
    assert queue.sizes == {"active": 1, "backoff": 0, "unschedulable": 0, "gated": 0}


async def test_deleted_pod_is_not_popped():
    """A pod that is deleted while it waits is passed over."""
    queue = _queue()
    queue.add(_pod("a"))
    queue.add(_pod("b"))
    queue.delete("uid-a")

    assert (await queue.pop()).info.name == "b"


async def test_pop_waits_for_a_pod(looptime):
    """Without pods, pop waits and wakes up for the first one."""
    queue = _queue()
    popping = asyncio.create_task(queue.pop())
    await asyncio.sleep(5)
    queue.add(_pod("a"))

    assert (await popping).info.name == "a"
    assert looptime == pytest.approx(5, abs=0.01)


@pytest.mark.parametrize("taints_requeue", [True, False])
async def test_changed_taints_requeue_what_waits_for_new_nodes(taints_requeue):
    """A plugin that registered for new nodes, and not for taints, has its pods requeued by both."""
    profile = Profile([PrioritySort(), SchedulingGates(), _Picky()])
    queue = SchedulingQueue(SystemClock(), [profile], taints_requeue=taints_requeue)
    await _rejected(queue)
    queue.move_all_to_active_or_backoff_queue(NODE_TAINTED, {"good": False}, {"good": False})

    assert queue.sizes["backoff"] == taints_requeue


async def test_only_pods_that_a_change_concerns_are_asked():
    """A hint with topics is asked about the pods that share one with the change; without any, about all."""
    asked = []

    class Narrow(_Picky):
        def events_to_register(self):
            topics = Topics(lambda pod: [pod["metadata"]["name"]], lambda old, new: new["names"])
            event = ClusterEvent(EventResource.NODE, Action.ADD)
            return (EventHint(event, lambda pod, old, new: asked.append(pod["metadata"]["name"]), topics),)

    queue = SchedulingQueue(SystemClock(), [Profile([PrioritySort(), Narrow()])])
    for name in ("a", "b"):
        queue.add(_pod(name, held=True))

    queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, {"names": ["b", "c"]})
    queue.move_all_to_active_or_backoff_queue(POD_DELETED, {}, None)
    assert asked == ["b"]
    queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, {"names": None})
    assert asked == ["b", "a", "b"]


@pytest.mark.parametrize("early", [True, False])
async def test_idle_queue_does_not_wait_for_backoff(early, looptime):
    """From 1.33 on, a rejected pod that may fit now is tried at once if nobody else is there."""
    profile = Profile([PrioritySort(), SchedulingGates(), _Picky()])
    queue = SchedulingQueue(SystemClock(), [profile], pops_from_backoff=early)
    await _rejected(queue)
    queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, {"good": True})

    assert (await queue.pop()).info.name == "a"
    assert looptime == (0.0 if early else 1.0)


async def test_errors_wait_for_their_backoff(looptime):
    """An idle queue does not hasten what failed by accident."""
    profile = Profile([PrioritySort(), SchedulingGates(), _Picky()])
    queue = SchedulingQueue(SystemClock(), [profile], pops_from_backoff=True)
    queue.add(_pod("a"))
    queue.add_unschedulable_if_not_present(await queue.pop())

    assert (await queue.pop()).info.name == "a"
    assert looptime == 1.0


@pytest.mark.parametrize("late", [True, False])
async def test_a_pod_that_is_taken_before_its_attempt_has_ended_is_lost(late):
    """Whoever waits for a pod takes the one that is put back; its attempt ends a moment later."""
    profile = Profile([PrioritySort(), SchedulingGates(), _Picky()])
    queue = SchedulingQueue(
        SystemClock(), [profile], backoff=Backoff(0.0), pops_from_backoff=True, attempts_end_late=late
    )
    queue.add(_pod("a"))
    queued = await queue.pop()
    queued.rejected_by = {"Picky"}
    queue.move_all_to_active_or_backoff_queue(NODE_ADDED, None, {"good": True})

    back = asyncio.create_task(queue.put_back(queued))
    taken = asyncio.create_task(queue.pop())
    await asyncio.sleep(1)

    assert taken.done() is not late
    assert queue.sizes == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 0}
    taken.cancel()
    await back
