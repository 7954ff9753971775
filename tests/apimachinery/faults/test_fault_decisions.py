"""Tests when faults fire: by the number of the call, by chance from a seed, for a time; each by itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeskew.apimachinery.faults.decisions import Decider, Progress, draw
from kubeskew.apimachinery.faults.fault import ANY, Call, Selector, call_of, event_of
from kubeskew.apimachinery.faults.syntax import read

STATUS = Call("update", "resourceclaims", "resource.k8s.io", "status", "default", "c")
POD = Call("create", "pods", "", "", "default", "p")


def faults(*bodies):
    return [read({"component": "scheduler", "id": f"f{at}", **body}) for at, body in enumerate(bodies)]


def decider(*bodies):
    return Decider([(fault, Progress()) for fault in faults(*bodies)])


def fired(deciding, calls, now=0.0):
    """By number of the call from 1, the ids of what fired."""
    found = [(n, firing.fault.id) for n, call in enumerate(calls, 1) for firing in deciding.decide(call, now)]
    return [n if name == "f0" else (n, name) for n, name in found]


@pytest.mark.parametrize(
    ("selector", "call", "selected"),
    [
        (Selector(), POD, True),
        (Selector(), STATUS, True),
        (Selector(), Call("update", "leases"), False),
        (Selector(), Call("create", "events"), False),
        (Selector(resource=ANY), Call("update", "leases"), True),
        (Selector(resource=ANY), STATUS, True),
        (Selector(resource="leases"), Call("update", "leases"), True),
        (Selector(("update",), "resourceclaims"), STATUS, False),
        (Selector(("update",), "resourceclaims", subresource="status"), STATUS, True),
        (Selector(("update",), "resourceclaims", subresource=ANY), STATUS, True),
        (Selector(("get", "update"), "resourceclaims", "other.io", "status"), STATUS, False),
        (Selector(subresource="status"), STATUS, True),
        (Selector(subresource="status"), POD, False),
        (Selector(("list",)), POD, False),
        (Selector(name="c"), STATUS, True),
        (Selector(name="d"), STATUS, False),
        (Selector(namespace="kube-system"), STATUS, False),
        (Selector(user="me"), POD._replace(user="me"), True),
        (Selector(user="me"), POD, False),
        (Selector(("watch",), "pods", event=ANY), Call("watch", "pods", event="ADDED"), True),
        (Selector(("watch",), "pods", event="DELETED"), Call("watch", "pods", event="ADDED"), False),
        (Selector(("watch",), "pods"), Call("watch", "pods", event="ADDED"), False),
        (Selector(("watch",), "pods", event=ANY), Call("watch", "pods"), False),
    ],
)
def test_selecting(selector, call, selected):
    """A fault is about the calls that have all it names; without a resource, not about what is periodic."""
    assert selected is selector.selects(call)


@pytest.mark.parametrize(
    ("body", "numbers"),
    [
        ({"answer": 409}, [1, 2, 3, 4, 5, 6]),
        ({"answer": 409, "nth": 3}, [3]),
        ({"answer": 409, "nth": 3, "times": 2}, [3, 4]),
        ({"answer": 409, "every": 2}, [2, 4, 6]),
        ({"answer": 409, "nth": 2, "every": 3}, [2, 5]),
        ({"answer": 409, "every": 2, "times": 2}, [2, 4]),
        ({"answer": 409, "times": 2}, [1, 2]),
        ({"crash": "after"}, [1]),
        ({"crash": "after", "nth": 2, "times": 3}, [2, 3, 4]),
    ],
)
def test_numbers_of_calls(body, numbers):
    """`nth`, `every` and `times` choose among the selected calls alone."""
    assert numbers == fired(decider({"resource": "pods", **body}), [POD] * 6)
    assert not fired(decider({"resource": "pods", **body}), [STATUS] * 6)


def test_a_time_begins_with_the_first_firing():
    """With `for`, a fault fires from its n-th call on for so long, and not again after it."""
    deciding = decider({"answer": 503, "nth": 2, "for": "3s"})

    assert [
        [firing.fault.id for firing in deciding.decide(POD, now)] for now in (0.0, 10.0, 12.9, 13.0, 99.0)
    ] == [[], ["f0"], ["f0"], [], []]


def test_delays_add_to_what_ends_a_call():
    """A call may be delayed and answered; of two answers the first is given, and the other fires later."""
    deciding = decider({"delay": "1s"}, {"answer": 409, "nth": 2}, {"answer": 500, "times": 2})

    assert fired(deciding, [POD] * 4) == [1, (1, "f2"), 2, (2, "f1"), 3, (3, "f2"), 4]


def test_an_outage_lasts():
    """An outage begins when it is set, or at its call, and lasts for its time or until it is cleared."""
    at_once, at_call = decider({"outage": "5s"}), decider({"outage": True, "resource": "pods", "nth": 2})
    (firing,) = at_once.begin(100.0)

    assert str(firing) == "f0: API server unreachable"
    assert not at_once.begin(101.0)
    assert [at_once.outage(now) is not None for now in (100.0, 104.9, 105.0)] == [True, True, False]
    assert not at_call.begin(0.0)
    assert at_call.outage(0.0) is None
    assert fired(at_call, [POD] * 5) == [2]
    assert at_call.outage(1e9) is not None


BODIES = st.lists(
    st.fixed_dictionaries(
        {"delay": st.sampled_from(["1s", {"min": "0s", "max": "1s"}])},
        optional={
            "probability": st.sampled_from([0.1, 0.5, 0.9]),
            "every": st.integers(1, 4),
            "times": st.integers(1, 5),
            "seed": st.integers(0, 3),
            "resource": st.sampled_from(["pods", "resourceclaims/status"]),
        },
    ),
    min_size=2,
    max_size=5,
)
CALLS = st.lists(st.sampled_from([POD, STATUS]), max_size=40)


def firings(pairs, calls):
    """By fault, the numbers of the calls at which it fired, and the delays that were drawn."""
    deciding = Decider(pairs)
    found = {fault.id: [] for fault, _ in pairs}
    for number, call in enumerate(calls):
        for firing in deciding.decide(call, 0.0):
            found[firing.fault.id].append((number, firing.delay))
    return found


@given(BODIES, CALLS, st.data())
def test_a_fault_less_shifts_nothing(bodies, calls, data):
    """Whichever fault is taken away, the others fire at the same calls, with the same delays."""
    every = faults(*bodies)
    gone = data.draw(st.sampled_from(every)).id
    whole = firings([(fault, Progress()) for fault in every], calls)
    rest = firings([(fault, Progress()) for fault in every if fault.id != gone], calls)

    assert rest == {name: numbers for name, numbers in whole.items() if name != gone}


@given(BODIES, CALLS, st.integers(0, 40))
def test_a_restart_changes_nothing(bodies, calls, at):
    """A component that takes its counters with it through a restart has the faults it would have had."""
    kept = [(fault, Progress()) for fault in faults(*bodies)]
    before, after = firings(kept, calls[:at]), firings(kept, calls[at:])
    whole = firings([(fault, Progress()) for fault in faults(*bodies)], calls)

    assert whole == {
        name: before[name] + [(number + len(calls[:at]), delay) for number, delay in after[name]]
        for name in whole
    }


def test_chance_is_as_likely_as_it_says():
    """Of ten thousand calls about a tenth are chosen at probability 0.1, others by another seed."""
    chosen = [
        fired(decider({"answer": 500, "probability": 0.1, "seed": seed}), [POD] * 10_000) for seed in (1, 2)
    ]

    assert all(900 < len(numbers) < 1100 for numbers in chosen)
    assert chosen[0] != chosen[1]
    assert 0.0 <= draw(1, "a", 1, "x") < 1.0


def test_calls_are_counted_by_kind():
    """Calls are counted by verb and resource, whether or not a fault concerns them."""
    deciding = decider({"answer": 409, "resource": "nodes"})
    for call in (POD, STATUS, STATUS, Call("watch", "pods", event="ADDED")):
        deciding.decide(call, 0.0)

    assert deciding.seen == {"create pods": 1, "update resourceclaims/status": 2, "ADDED event of pods": 1}


@pytest.mark.parametrize(
    ("method", "target", "body", "call"),
    [
        ("GET", "/version", None, None),
        ("GET", "/apis/apps/v1", None, None),
        ("POST", "/kubeskew/v1/components", b"{}", None),
        ("GET", "/api/v1/pods?limit=5", None, Call("list", "pods")),
        ("GET", "/api/v1/pods?watch=true&x=1", None, Call("watch", "pods")),
        ("GET", "/api/v1/namespaces/a/pods/b", None, Call("get", "pods", "", "", "a", "b")),
        ("GET", "/api/v1/namespaces/a", None, Call("get", "namespaces", "", "", "a", "a")),
        (
            "PUT",
            "/api/v1/namespaces/a/finalize",
            None,
            Call("update", "namespaces", "", "finalize", "a", "a"),
        ),
        ("DELETE", "/api/v1/nodes", None, Call("deletecollection", "nodes")),
        ("DELETE", "/api/v1/nodes/n", None, Call("delete", "nodes", "", "", "", "n")),
        (
            "PATCH",
            "/apis/resource.k8s.io/v1/namespaces/d/resourceclaims/c/status?fieldManager=x",
            b"{}",
            Call("patch", "resourceclaims", "resource.k8s.io", "status", "d", "c"),
        ),
        (
            "POST",
            "/api/v1/namespaces/a/pods",
            b'{"metadata": {"name": "b"}}',
            Call("create", "pods", "", "", "a", "b"),
        ),
        ("POST", "/api/v1/namespaces/a/pods", b'{"metadata": {}}', Call("create", "pods", "", "", "a", "")),
        ("POST", "/api/v1/namespaces/a/pods", b"not json", Call("create", "pods", "", "", "a", "")),
        (
            "POST",
            "/api/v1/namespaces/a/pods/b/binding",
            b"{}",
            Call("create", "pods", "", "binding", "a", "b"),
        ),
    ],
)
def test_requests_as_calls(method, target, body, call):
    """A request's method and path show verb, resource and object as the API server reads them."""
    assert call == call_of(method, target, body)


def test_events_as_calls():
    """A line of a watch shows the event's type and its object; what cannot be read counts as an error."""
    watch = Call("watch", "pods")

    assert Call("watch", "pods", "", "", "a", "b", event="ADDED") == event_of(
        watch, b'{"type": "ADDED", "object": {"metadata": {"namespace": "a", "name": "b"}}}'
    )
    assert event_of(watch, b"{").event == "ERROR"
    assert str(watch._replace(event="ADDED", namespace="a", name="b")) == "ADDED event of pods a/b"


@pytest.mark.parametrize("subresource", ["", "/status"])
def test_a_fault_can_be_put_at_any_call_that_was_counted(subresource: str):
    """The kind of a call names a custom resource with its group, as a fault has to that is meant for it."""
    path = f"/apis/boards.example.com/v1/namespaces/a/boardparameters/b{subresource}"
    call = call_of("PUT", path)
    assert call is not None
    verb, _, resource = call.kind.partition(" ")

    fault = read({"component": "scheduler", "verb": verb, "resource": resource, "answer": 500})

    assert call.kind == f"update boardparameters.boards.example.com{subresource}"
    assert fault.where.selects(call)
    assert not fault.where.selects(call._replace(group="others.example.com"))
