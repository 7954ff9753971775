"""Tests faults as scenarios write them: those that are understood, and those refused with a hint."""

import pytest

from kubeskew.apimachinery.faults.fault import Kind
from kubeskew.apimachinery.faults.keys import FaultError as SameError
from kubeskew.apimachinery.faults.syntax import FaultError, read

SCHEDULER = {"component": "scheduler"}


@pytest.mark.parametrize(
    ("body", "id_", "text"),
    [
        pytest.param(
            {
                "verb": "update",
                "resource": "resourceclaims",
                "subresource": "status",
                "nth": 1,
                "answer": 409,
            },
            "scheduler-update-resourceclaims-status-409",
            "scheduler: update resourceclaims/status, call 1: answered 409",
            id="answer",
        ),
        pytest.param(
            {"verb": "create", "resource": "pods/binding", "drop": "answer", "id": "lost"},
            "lost",
            "scheduler: create pods/binding, each: answer lost",
            id="subresource-in-the-resource",
        ),
        pytest.param(
            {"resource": "pods", "stale": "5s"},
            "scheduler-pods-stale",
            "scheduler: any event of pods, each: held back",
            id="stale-is-about-events",
        ),
        pytest.param(
            {"verb": "watch", "resource": "pods", "delay": "2s"},
            "scheduler-pods-delay",
            "scheduler: any event of pods, each: delayed 2 s",
            id="delayed-watch",
        ),
        pytest.param(
            {"delay": {"min": "10ms", "max": "0.5s"}, "probability": 0.25},
            "scheduler-delay",
            "scheduler: any verb any resource, with probability 0.25: delayed 0.01 to 0.5 s",
            id="latency",
        ),
        pytest.param(
            {"crash": "after", "nth": 3, "namespace": "default", "resource": "pods"},
            "scheduler-pods-crash",
            "scheduler: any write pods default, call 3: crash after",
            id="crash",
        ),
        pytest.param({"outage": "5s"}, "scheduler-outage", "scheduler: API server unreachable", id="outage"),
        pytest.param(
            {"lostLease": True},
            "scheduler-leases-503",
            "scheduler: get/create/update/patch leases, each: answered 503",
            id="lost-lease",
        ),
    ],
)
def test_a_fault_says_what_it_is(body, id_, text):
    """A fault is named after what it does unless it has an id, and describes itself in one line."""
    fault = read(SCHEDULER | body)

    assert (id_, text) == (fault.id, str(fault))


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ({}, "expected one of answer, drop, delay, stale, crash, outage, lostLease, found none"),
        ({"answer": 409, "drop": "answer"}, "expected one of .*, found answer and drop"),
        ({"component": "schedular", "answer": 409}, "no component schedular; did you mean scheduler"),
        ({"component": "kubelet", "answer": 409}, "component: expected kubelet/NAME, found kubelet"),
        ({"component": "scheduler/a", "answer": 409}, "component: expected scheduler, found scheduler/a"),
        ({"component": 4, "answer": 409}, "component: expected a component"),
        ({"verbs": "get", "answer": 409}, "unknown key verbs; did you mean verb?"),
        ({"verb": "PUT", "answer": 409}, "there is no verb PUT; did you mean update?"),
        ({"verb": "updat", "answer": 409}, "there is no verb updat; did you mean update?"),
        ({"verb": "sing", "answer": 409}, "there is no verb sing"),
        (
            {"resource": "resourceclaim", "answer": 409},
            "no resource resourceclaim; did you mean resourceclaims?",
        ),
        ({"resource": "Pod", "answer": 409}, "did you mean pods?"),
        ({"resource": "resourclaims", "answer": 409}, "did you mean resourceclaims?"),
        ({"resource": "pods/status", "subresource": "status", "answer": 409}, "say status once"),
        ({"answer": 418}, "answer: expected one of 400, .* found 418"),
        ({"answer": True}, "answer: expected one of"),
        ({"answer": 409, "nth": 0}, "nth: expected a whole number from 1 on, found 0"),
        ({"answer": 409, "times": "2"}, "times: expected a whole number"),
        ({"answer": 409, "probability": 2}, "probability: expected a number above 0"),
        ({"answer": 409, "seed": "x"}, "seed: expected a whole number"),
        ({"answer": 409, "optional": "yes"}, "optional: expected true or false"),
        ({"drop": "everything"}, "drop: expected request or answer or connection, found 'everything'"),
        ({"drop": "answer", "message": "no"}, "message: only an answer has one"),
        ({"delay": "soon"}, "delay: expected a duration such as"),
        ({"delay": {"min": "2s", "max": "1s"}}, "min 2s is more than max 1s"),
        ({"delay": {"min": "2s"}}, "delay: expected a duration"),
        ({"crash": "later"}, "crash: expected before or after"),
        ({"crash": "after", "verb": "list"}, "a component crashes at a write or an event, and list is none"),
        (
            {"component": "apiserver", "crash": "after", "event": "ADDED"},
            "event: an API server has no watch; it crashes at a commit",
        ),
        ({"verb": "NodePrepareResources", "drop": "answer"}, "only kubelets call NodePrepareResources"),
        ({"component": "kubelet/a", "verb": "NodePrepareResources", "answer": 500}, "can be lost or delayed"),
        (
            {"component": "kubelet/a", "verb": "NodePrepareResources", "resource": "pods", "drop": "answer"},
            "is a call of a driver, whose name is `name`",
        ),
        ({"verb": "StartContainer", "answer": 500}, "only kubelets call StartContainer"),
        (
            {"component": "kubelet/a", "verb": "StartContainer", "resource": "pods", "answer": 500},
            "StartContainer is about a pod, by `namespace` and `name`",
        ),
        ({"component": "kubelet/a", "verb": "RunPodSandbox", "stale": True}, "only a watch has events"),
        (
            {"component": "kubelet/a", "resource": "runtime", "outage": True},
            "can be refused, lost or delayed",
        ),
        (
            {"component": "kubelet/a", "resource": "runtime", "verb": "get", "answer": 500},
            "verb: get is no call of a container runtime",
        ),
        ({"resource": "runtime", "answer": 500}, "there is no resource runtime"),
        ({"stale": False}, "stale: expected true or a duration"),
        ({"outage": "often"}, "outage: expected true, refuse, hang or a duration"),
        ({"outage": "5s", "for": "6s"}, "for: outage says 5s already"),
        ({"event": "CHANGED", "answer": 410}, "there is no event CHANGED"),
        ({"event": "ADDED", "verb": "list", "answer": 410}, "only a watch has events"),
        ({"lostLease": True, "resource": "leases"}, "resource: a lost lease is about all calls for leases"),
        ({"lostLease": "yes"}, "lostLease: expected true"),
        ({"answer": 409, "user": "me"}, "user: scheduler is one user"),
        (
            {"component": "apiserver", "crash": "after", "subresource": "status"},
            "subresource: a commit does not have it",
        ),
        (
            {"component": "apiserver", "verb": "create", "name": "x", "answer": 409},
            "name: an API server learns",
        ),
        ({"id": "all", "answer": 409}, "there is a fault all already"),
        ({"id": "taken", "answer": 409}, "there is a fault taken already"),
    ],
)
def test_what_is_wrong_is_said(body, wrong):
    """A fault that cannot be used is refused with the key, and what may have been meant."""
    with pytest.raises(FaultError, match=wrong):
        read(SCHEDULER | body, {"taken"})
    assert FaultError is SameError


def test_names_that_are_made_stay_apart():
    """Faults without an id that do the same are numbered."""
    body = SCHEDULER | {"answer": 500}
    first = read(body)
    second = read(body, {first.id})

    assert [first.id, second.id] == ["scheduler-500", "scheduler-500-2"]


@pytest.mark.parametrize(
    ("body", "times", "seconds", "at_once"),
    [
        ({"answer": 409}, None, None, False),
        ({"answer": 409, "nth": 2}, 1, None, False),
        ({"answer": 409, "nth": 2, "for": "3s"}, None, 3.0, False),
        ({"answer": 409, "every": 2}, None, None, False),
        ({"crash": "before"}, 1, None, False),
        ({"outage": "4s"}, 1, 4.0, True),
        ({"outage": "hang", "for": "4s"}, 1, 4.0, True),
        ({"outage": "4s", "verb": "create", "resource": "pods"}, 1, 4.0, False),
        ({"stale": "4s"}, None, 4.0, False),
    ],
)
def test_how_often_a_fault_fires(body, times, seconds, at_once):
    """A fault with `nth`, a crash or an outage fires once by default; other faults fire often."""
    fault = read(SCHEDULER | body)

    assert (times, seconds, at_once) == (fault.when.times, fault.when.seconds, fault.at_once)


def test_a_429_says_when_to_come_back():
    """A 429 has Retry-After: 1 as upstream's filters send it; others have none unless it is given."""
    assert [
        read(SCHEDULER | body).effect.retry_after
        for body in ({"answer": 429}, {"answer": 503}, {"answer": 503, "retryAfter": 7})
    ] == [1, None, 7]
    assert read(SCHEDULER | {"outage": "hang"}).effect.kind is Kind.OUTAGE


def test_resources_of_previews_and_drivers_controllers_are_known():
    """A fault may be about a resource that only a preview release has, and of a driver's controller."""
    fault = read(
        {
            "component": "driver-controller/cards.dra.example.com",
            "verb": "create",
            "resource": "noderesourceslices",
            "drop": "answer",
        }
    )

    assert fault.component == "driver-controller/cards.dra.example.com"
    assert read({"component": "driver-plugin/cards", "outage": True}).component == "driver-plugin/cards"
    with pytest.raises(FaultError, match="component: expected driver-controller/NAME, found driver-controll"):
        read({"component": "driver-controller", "drop": "answer"})
    with pytest.raises(FaultError, match=r"no resource noderesourceslice; did you mean noderesourceslices\?"):
        read({**SCHEDULER, "resource": "noderesourceslice", "drop": "answer"})
