"""API priority and fairness, as far as clients see it."""

import asyncio

import pytest
from loop_clock import LoopClock
from server_in_process import MAPS, Caller, close_server, open_server

from kubeskew.apimachinery.metrics.series import unseen_families
from kubeskew.apimachinery.process.runtime import level_of
from kubeskew.apiserver.fairness.classifier import Classifier
from kubeskew.apiserver.fairness.defaults import schemas
from kubeskew.apiserver.fairness.levels import PriorityLevels, RejectedError
from kubeskew.apiserver.fairness.metrics import FlowMetrics
from kubeskew.apiserver.filters.fairness import Fairness
from kubeskew.apiserver.http.request import Peer, Request, parse_info, text
from kubeskew.apiserver.user import User

GROUP = "/apis/flowcontrol.apiserver.k8s.io/v1"


@pytest.fixture
async def call():
    server = await open_server()
    yield Caller(server)
    await close_server(server)


def level(name, shares, *, queues=0, length=0, lendable=0):
    response = {"type": "Reject"}
    if queues:
        queuing = {"queues": queues, "handSize": 1, "queueLengthLimit": length}
        response = {"type": "Queue", "queuing": queuing}
    limited = {"nominalConcurrencyShares": shares, "lendablePercent": lendable, "limitResponse": response}
    return {"metadata": {"name": name, "uid": name}, "spec": {"type": "Limited", "limited": limited}}


async def test_headers(call):
    """Every answer names its flow schema and priority level, errors as well."""
    schema = (await call.get(f"{GROUP}/flowschemas/exempt")).body
    exempt = (await call.get(f"{GROUP}/prioritylevelconfigurations/exempt")).body
    for answer in (await call.get(MAPS), await call.get(f"{MAPS}/nothing")):
        assert answer.headers["X-Kubernetes-Pf-Flowschema-Uid"] == schema["metadata"]["uid"]
        assert answer.headers["X-Kubernetes-Pf-Prioritylevel-Uid"] == exempt["metadata"]["uid"]
    found = await Caller(call.server, Peer("somebody", ())).get("/healthz")
    probes = (await call.get(f"{GROUP}/flowschemas/probes")).body
    assert found.headers["X-Kubernetes-Pf-Flowschema-Uid"] == probes["metadata"]["uid"]


async def test_defaults(call):
    """The schemas and levels of a new cluster, with the condition that says the level is there."""
    items = (await call.get(f"{GROUP}/flowschemas")).body["items"]
    assert len(items) == 11
    old = {obj["metadata"]["name"] for _, obj in schemas("v1", lease_locks_only=False)}
    assert old - {obj["metadata"]["name"] for obj in items} == {
        "endpoint-controller",
        "workload-leader-election",
    }
    assert items[0]["metadata"]["annotations"] == {"apf.kubernetes.io/autoupdate-spec": "true"}
    condition = items[0]["status"]["conditions"][0]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Dangling", "False", "Found")
    assert len((await call.get(f"{GROUP}/prioritylevelconfigurations")).body["items"]) == 8


@pytest.mark.parametrize(
    ("user", "method", "path", "wanted"),
    [
        (User("admin", groups=("system:masters",)), "GET", "/api/v1/pods", "exempt"),
        (User("x", groups=("system:authenticated",)), "GET", "/livez", "probes"),
        (User("x", groups=("system:authenticated",)), "GET", "/livez/ping", "global-default"),
        (
            User("system:kube-scheduler"),
            "PUT",
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x",
            "system-leader-election",
        ),
        (User("system:kube-scheduler"), "GET", "/api/v1/pods", "kube-scheduler"),
        (
            User("system:node:a", groups=("system:nodes",)),
            "PATCH",
            "/api/v1/nodes/a/status",
            "system-node-high",
        ),
        (User("system:node:a", groups=("system:nodes",)), "GET", "/api/v1/pods", "system-nodes"),
        (
            User("system:serviceaccount:kube-system:x", groups=("system:serviceaccounts",)),
            "GET",
            "/api/v1/pods",
            "kube-system-service-accounts",
        ),
        (
            User("system:serviceaccount:default:x", groups=("system:serviceaccounts",)),
            "GET",
            "/api/v1/pods",
            "service-accounts",
        ),
    ],
)
def test_classification(user, method, path, wanted):
    """A request belongs to the first schema that names its user and what it is about."""
    made = [
        {**obj, "metadata": {**obj["metadata"], "uid": "1"}}
        for _, obj in schemas("v1", lease_locks_only=True)
    ]
    names = {obj["spec"]["priorityLevelConfiguration"]["name"] for obj in made}
    levels = {name: {"metadata": {"name": name, "uid": name}} for name in names}
    flow = Classifier(made, levels).classify(user, parse_info(method, path, {}))
    assert flow is not None
    assert flow.schema == wanted


async def test_seats_and_queues():
    """Beyond its seats a level makes requests wait, and beyond its queues it rejects them."""
    levels = PriorityLevels(4, LoopClock().monotonic)
    levels.configure({"a": level("a", 1, queues=1, length=1), "b": level("b", 1)})
    first = await levels.enter("a", "x")
    await levels.enter("a", "x")
    waiting = asyncio.create_task(levels.enter("a", "x"))
    await asyncio.sleep(0)
    with pytest.raises(RejectedError, match="queue-full"):
        await levels.enter("a", "x")
    await levels.enter("b", "x")
    await levels.enter("b", "x")
    with pytest.raises(RejectedError, match="concurrency-limit"):
        await levels.enter("b", "x")
    levels.leave(first, 0.0)
    await waiting
    assert levels.levels["a"].occupancy.running == 2


async def test_a_level_that_stops_queuing():
    """A request that waits in a level is rejected once the level is changed to reject instead of queue."""
    levels = PriorityLevels(1, LoopClock().monotonic)
    levels.configure({"a": level("a", 1, queues=1, length=5)})
    taken = await levels.enter("a", "f")
    waiting = asyncio.create_task(levels.enter("a", "f"))
    await asyncio.sleep(0)

    levels.configure({"a": level("a", 1)})

    with pytest.raises(RejectedError, match="cancelled"):
        await waiting
    levels.leave(taken, 0.0)
    assert (await levels.enter("a", "f")).occupancy.waiting == 0


@pytest.mark.looptime
async def test_lending():
    """A level has what another lends and has not used; who finds no seat waits for a next period."""
    levels = PriorityLevels(4, LoopClock().monotonic)
    levels.configure({name: level(name, 1, queues=1, length=9, lendable=100) for name in ("a", "b")})
    assert [one.limit for one in levels.look().values()] == [2, 2]
    begun = asyncio.get_running_loop().time()
    await levels.enter("a", "x")
    await levels.enter("a", "x")

    await asyncio.gather(levels.enter("a", "x"), levels.enter("a", "x"))

    assert 0 < asyncio.get_running_loop().time() - begun <= 10
    assert [one.limit for one in levels.look().values()] == [4, 0]
    with pytest.raises(RejectedError, match="time-out"):
        await levels.enter("a", "x")


@pytest.mark.looptime
async def test_lent_seats_go_back_to_who_needs_them():
    """A level that lent its seats has them again in the period after it has asked for them."""
    clock = LoopClock()
    levels = PriorityLevels(4, clock.monotonic)
    levels.configure({name: level(name, 1, queues=1, length=9, lendable=100) for name in ("a", "b")})
    taken = [await levels.enter("a", "x") for _ in range(2)]
    taken += await asyncio.gather(levels.enter("a", "x"), levels.enter("a", "x"))
    assert levels.look()["a"].limit == 4
    for one in taken:
        levels.leave(one, clock.monotonic())
    clock.ahead += 600.0
    assert (levels.look()["a"].limit, levels.look()["b"].limit) == (4, 0)

    await asyncio.gather(levels.enter("b", "x"), levels.enter("b", "x"))

    assert levels.look()["b"].limit >= 2


async def test_overload(call):
    """Whoever finds no seat gets 429 and is informed when to come back; masters always get in."""
    services = call.server.services
    fairness = Fairness(services.store, FlowMetrics(unseen_families(), 0.0), 8)
    free = asyncio.Event()

    async def handler(request):
        await free.wait()
        return text(200, "")

    def request(user):
        made = Request.of("GET", "/api/v1/pods")
        made.user, made.info = user, parse_info("GET", "/api/v1/pods", {})
        return asyncio.create_task(fairness.serve(handler, made))

    change = {"spec": {"priorityLevelConfiguration": {"name": "catch-all"}}}
    await call.patch(f"{GROUP}/flowschemas/global-default", change)
    somebody = User("somebody", groups=("system:authenticated",))
    tasks = [request(somebody) for _ in range(20)]
    master = request(User("admin", groups=("system:masters",)))
    await asyncio.sleep(0)
    refused = [task.result() for task in tasks if task.done()]
    assert refused
    assert {answer.status for answer in refused} == {429}
    assert ("Retry-After", "1") in refused[0].headers
    assert refused[0].body == b"Too many requests, please try again later.\n"
    assert not master.done()
    free.set()
    assert (await master).status == 200
    assert {(await task).status for task in tasks} == {200, 429}


async def test_at_verbosity_5_a_rejection_is_logged(call, caplog):
    """A level that lets nobody wait logs whose request it rejects, and of how many seats."""
    nothing = {"nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0}
    await call.post(
        f"{GROUP}/prioritylevelconfigurations",
        {
            "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
            "kind": "PriorityLevelConfiguration",
            "metadata": {"name": "nothing"},
            "spec": {"type": "Limited", "limited": {**nothing, "limitResponse": {"type": "Reject"}}},
        },
    )
    change = {"spec": {"priorityLevelConfiguration": {"name": "nothing"}}}
    await call.patch(f"{GROUP}/flowschemas/global-default", change)
    fairness = Fairness(call.server.services.store, FlowMetrics(unseen_families(), 0.0), 8)
    made = Request.of("GET", "/api/v1/pods")
    made.user = User("somebody", groups=("system:authenticated",))
    made.info = parse_info("GET", "/api/v1/pods", {})

    served = asyncio.Event()

    async def handler(request):
        await served.wait()
        return text(200, "")

    first = asyncio.create_task(fairness.serve(handler, made))  # where nothing runs, one request may
    await asyncio.sleep(0)
    with caplog.at_level(level_of(5)):
        assert (await fairness.serve(handler, made)).status == 429
    served.set()
    assert (await first).status == 200
    [warning] = caplog.messages
    assert warning == (
        'QS(nothing): rejecting request "global-default" list /api/v1/pods of somebody because 1 seats are '
        "asked for, 1 seats are in use (1 are executing) and the limit is 0"
    )


async def test_rules(call):
    """Faults of schemas and levels are reported at their fields."""
    body = {"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", "metadata": {"name": "x"}}
    rule = {"subjects": [{"kind": "User", "group": {"name": "g"}}]}
    answer = await call.post(
        f"{GROUP}/flowschemas", {**body, "spec": {"matchingPrecedence": 1, "rules": [rule]}}
    )
    causes = [(cause["field"], cause["message"]) for cause in answer.body["details"]["causes"]]
    only = "only the schema named 'exempt' may have matchingPrecedence 1"
    assert causes == [
        ("spec.matchingPrecedence", f"Invalid value: 1: {only}"),
        ("spec.priorityLevelConfiguration.name", "Required value: must reference a priority level"),
        ("spec.rules[0].subjects[0].user", "Required value: user is required when subject kind is 'User'"),
        ("spec.rules[0].subjects[0].group", "Forbidden: group is forbidden when subject kind is not 'Group'"),
        (
            "spec.rules[0]",
            "Required value: at least one of resourceRules and nonResourceRules has to be non-empty",
        ),
    ]


@pytest.mark.parametrize(("percent", "most"), [(None, 4), (0, 1), (100, 2), (200, 3)])
async def test_a_level_borrows_within_its_limit(percent, most):
    """borrowingLimitPercent bounds what a level takes of what others lend, in percent of its own seats."""
    clock = LoopClock()
    lender, borrower = level("lender", 3, lendable=100), level("borrower", 1, queues=1, length=50)
    if percent is not None:
        borrower["spec"]["limited"]["borrowingLimitPercent"] = percent
    levels = PriorityLevels(4, clock.monotonic)
    levels.configure({"lender": lender, "borrower": borrower})
    waiting = [asyncio.create_task(levels.enter("borrower", "flow")) for _ in range(20)]
    await asyncio.sleep(0)
    clock.ahead += 10.0

    levels.look()

    assert levels.levels["borrower"].occupancy.running == most
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
