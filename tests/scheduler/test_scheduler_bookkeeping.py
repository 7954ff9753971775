"""The scheduler's books are right after events that it did not see the usual way."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from kubeskew.apimachinery.client.refs import NODES, PODS
from kubeskew.apimachinery.clock import SeededEntropy, SystemClock
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.scheduler.cache import Cache
from kubeskew.scheduler.event_handlers import ClusterInformers
from kubeskew.scheduler.features import SchedulerFeatures
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.profile import Profile
from kubeskew.scheduler.metrics import DynamicMetrics
from kubeskew.scheduler.plugins.default_binder import DefaultBinder
from kubeskew.scheduler.plugins.dynamicresources.binding import ClaimBinder
from kubeskew.scheduler.plugins.dynamicresources.claim_tracker import ClaimTracker
from kubeskew.scheduler.plugins.dynamicresources.pod_claims import (
    ClaimUsers,
    ExtendedResourceClaim,
    PodClaim,
    PodState,
)
from kubeskew.scheduler.plugins.priority_sort import PrioritySort
from kubeskew.scheduler.queue import SchedulingQueue

FEATURES = SchedulerFeatures.of(FeatureGates(Version(36)))

pytestmark = pytest.mark.looptime

POD = {"metadata": {"namespace": "default", "name": "p", "uid": "u"}, "spec": {"containers": []}}
RESULT = {"devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": "a"}]}}


class _Handlers:
    """Stands for informers: keeps what is registered."""

    def __init__(self):
        self.of = {}

    def informer(self, ref):
        self._ref = ref
        return self

    def add_handler(self, added, updated, deleted):
        self.of[self._ref] = added, updated, deleted


class _Writer:
    """Accepts every write."""

    async def bind(self, claim, result, consumer, seen):
        written = {**claim["metadata"], "resourceVersion": "5"}
        return {**claim, "metadata": written, "status": {"allocation": result}} if result else claim

    async def create(self, claim):
        return {**claim, "metadata": {**claim["metadata"], "name": "made", "uid": "made"}}

    async def announce(self, pod, claim, mappings):
        pass


async def test_a_pod_that_goes_before_it_is_seen_on_its_node_leaves_nothing_there():
    """A list after an outage may lack a pod that was bound and deleted in between."""
    cache, informers = Cache(), _Handlers()
    queue = SchedulingQueue(SystemClock(), [Profile([PrioritySort(), DefaultBinder(None)])])
    ClusterInformers(cache, queue, ["default-scheduler"], FEATURES).connect(informers)
    informers.of[NODES][0]({"metadata": {"name": "n"}, "status": {}})
    informers.of[PODS][0](POD)
    queued = await queue.pop()
    cache.assume(queued.info, "n")
    queue.done(queued.uid)

    informers.of[PODS][2](POD)

    assert not cache.knows("u")
    assert not cache.node("n").pods


class _Events:
    """Notes which events the queue gets."""

    def __init__(self):
        self.actions = []

    def move_all_to_active_or_backoff_queue(self, event, *_):
        self.actions.append(event.action.name)

    def update(self, info, old, events):
        self.actions += [event.action.name for event in events]


def _asking(cpu, *, node="", has=""):
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}
    reported = {"name": "c", "resources": {"requests": {"cpu": has}}}
    status = {"containerStatuses": [reported]} if has else {}
    metadata = {"namespace": "ns", "name": "p", "uid": "u", "resourceVersion": cpu + has}
    return {"metadata": metadata, "spec": {**spec, "nodeName": node} if node else spec, "status": status}


@pytest.mark.parametrize(
    ("old", "new", "actions"),
    [
        (_asking("2"), _asking("1"), ["UPDATE_POD_SCALE_DOWN"]),
        (_asking("1"), _asking("2"), []),
        (_asking("2", node="n"), _asking("1", node="n"), ["UPDATE_POD_SCALE_DOWN"]),
        (_asking("1", node="n"), _asking("2", node="n"), []),
        (_asking("2", node="n", has="2"), _asking("1", node="n", has="2"), []),  # it still has what it had
        (_asking("1", node="n", has="2"), _asking("1", node="n", has="1"), ["UPDATE_POD_SCALE_DOWN"]),
    ],
)
def test_pods_that_shrink_wake_others_and_those_that_grow_do_not(old, new, actions):
    """The queue learns of a pod that counts less than before, by its spec or by what its node reports."""
    informers, queue = _Handlers(), _Events()
    ClusterInformers(Cache(), queue, ["default-scheduler"], FEATURES).connect(informers)
    informers.of[NODES][0]({"metadata": {"name": "n"}, "status": {}})
    queue.actions.clear()

    informers.of[PODS][1](old, new)

    assert queue.actions == actions


@pytest.mark.parametrize("way", ["bind", "undo"])
async def test_a_pod_does_not_land_what_another_has_in_flight(way):
    """A pod that only shares a claim leaves the allocation alone that another pod is about to write."""
    tracker = ClaimTracker()
    claim = {"metadata": {"namespace": "default", "name": "c", "uid": "claim"}, "spec": {}}
    tracker.add_pending("claim", RESULT)  # another pod's
    users = ClaimUsers(None, capitalized=True)
    binder = ClaimBinder(
        tracker, _Writer(), users, None, SystemClock(), SeededEntropy(1), None, forgets_refused=False
    )
    state = PodState([PodClaim(claim, {})], None, None, [])

    await getattr(binder, way)(state, PodInfo(POD))

    assert tracker.is_pending("claim")


@pytest.mark.parametrize("comes", [True, False])
async def test_a_new_claim_is_in_flight_until_the_informer_brings_it(clock, comes):
    """A written claim for extended resources keeps its devices in flight until the informer has it, for two
    minutes at most; its deletion frees them."""
    tracker, users = ClaimTracker(), ClaimUsers(None, capitalized=True)
    metrics = DynamicMetrics(CollectorRegistry(), FEATURES)
    binder = ClaimBinder(
        tracker, _Writer(), users, None, clock, SeededEntropy(1), metrics, forgets_refused=False
    )
    claim = {"metadata": {"namespace": "default", "generateName": "p-", "uid": "new"}, "spec": {}}
    tracker.add_pending("new", RESULT)
    own = PodState([], ExtendedResourceClaim(claim, False, (), "new", RESULT), None, [])

    began = clock.monotonic()
    binding = asyncio.create_task(binder.bind(own, PodInfo(POD)))
    await asyncio.sleep(10)
    assert tracker.is_pending("new")
    assert not binding.done()

    if comes:
        tracker.set_claim({**claim, "metadata": {**claim["metadata"], "name": "made", "uid": "made"}})
    await binding
    assert clock.monotonic() - began == pytest.approx(11 if comes else 120, abs=1.5)
    assert not tracker.is_pending("new")
    assert bool(tracker.allocated.devices) == comes
    for known in list(tracker.all()):
        tracker.remove_claim(known)
    assert not tracker.allocated.devices


def _nominated(node, *, bound="", uid="n"):
    spec = {"containers": [], **({"nodeName": bound} if bound else {})}
    status = {"nominatedNodeName": node} if node else {}
    metadata = {"namespace": "ns", "name": "n", "uid": uid, "resourceVersion": node + bound}
    return {"metadata": metadata, "spec": spec, "status": status}


@pytest.mark.parametrize(
    ("new", "waking"),
    [
        (_nominated("n1", bound="n1"), (33, 34)),
        (_nominated("n1", bound="n2"), (33, 34)),
        (_nominated("n2"), (33, 34, 35, 36)),
        (_nominated(""), (33, 34, 35, 36)),
        (None, (33, 34, 35, 36)),
    ],
    ids=["bound-there", "bound-elsewhere", "nominated-elsewhere", "no-longer-nominated", "deleted"],
)
async def test_the_end_of_a_nomination_wakes_pods(new, waking):
    """Since 1.33 the end of a nomination is the end of a pod for others; a binding is none since 1.35."""
    old, woken = _nominated("n1"), []
    for minor in (32, 33, 34, 35, 36):
        queue = _Nominations()
        features = SchedulerFeatures.of(FeatureGates(Version(minor)))
        informers = _Handlers()
        ClusterInformers(Cache(), queue, ["default-scheduler"], features).connect(informers)
        informers.of[PODS][0](old)
        if new is None:
            informers.of[PODS][2](old)
        else:
            informers.of[PODS][1](old, new)
        if queue.ended:
            woken.append(minor)

    assert tuple(woken) == waking


class _Nominations(_Events):
    """Notes the ends of pods that pods of no higher priority are woken for."""

    def __init__(self):
        super().__init__()
        self.ended = 0

    def move_all_to_active_or_backoff_queue(self, event, old, new, check=None):
        self.ended += event.action.name == "DELETE" and check is not None

    def add(self, info): ...

    def delete(self, uid): ...

    def assigned_pod_added(self, pod): ...

    def assigned_pod_updated(self, old, new, events): ...
