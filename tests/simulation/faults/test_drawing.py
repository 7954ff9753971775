"""Plans of faults: what a seed draws, and how they are written and read."""

import json

import pytest

from kubeskew.conformance import matrix
from kubeskew.simulation.faults.plan import Kind, Plan, PlanError, load, plan_of
from kubeskew.simulation.faults.plan_generator import ClusterDescription, describe, draw

CLUSTER = ClusterDescription(
    ("apiserver", "controller-manager", "scheduler", "kubelet/node-1", "driver/gpu.example.com"),
    {"scheduler": {"update resourceclaims/status": 2, "ADDED event of pods": 4, "update leases": 9}},
)


def test_a_seed_draws_one_plan():
    """The same seed draws the same plan, others draw others: few kinds each, all of them in the end."""
    plans = [draw(seed, CLUSTER) for seed in range(200)]
    assert plans == [draw(seed, CLUSTER) for seed in range(200)]
    kinds = [{fault.kind for fault in plan.faults} for plan in plans]
    assert all(kinds)
    assert set().union(*kinds) == {*Kind}
    assert max(map(len, kinds)) < len(Kind) * 0.8


def test_a_plan_can_be_written_and_read():
    """A plan comes back from JSON as it was, and each fault has a line of its own."""
    for seed in range(50):
        plan = draw(seed, CLUSTER)
        assert plan_of(json.loads(json.dumps(plan.as_json()))) == plan
        lines = str(plan).splitlines()
        assert [line.split(":")[0].strip() for line in lines[1:]] == [fault.name for fault in plan.faults]


def test_what_is_drawn_of_a_recorded_run_can_happen():
    """Writes and events come from those that the component made, and leases from none."""
    faults = [fault for seed in range(100) for fault in draw(seed, CLUSTER).faults]
    crashes = [fault for fault in faults if fault.kind is Kind.CRASH and fault.target == "scheduler"]
    assert {fault.parameters["resource"] for fault in crashes} == {"resourceclaims/status", "pods"}
    assert {fault.when["nth"] for fault in crashes} <= {1, 2, 3, 4}


def test_no_creation_is_answered_that_the_object_exists():
    """Updates conflict, and so do writes of subresources; creations are refused otherwise."""
    calls = {
        "scheduler": {"create events.k8s.io": 3, "create pods/binding": 3, "update resourceclaims/status": 3}
    }
    clusters = [CLUSTER, ClusterDescription(("scheduler",), calls)]
    faults = [fault for each in clusters for seed in range(400) for fault in draw(seed, each).faults]
    errors = [fault.parameters for fault in faults if fault.kind is Kind.ERROR]

    refused = {(str(each["verb"]), each.get("resource")) for each in errors if each["answer"] == 409}
    assert refused == {("create", "pods/binding"), ("update", "resourceclaims/status")}
    created = {each["answer"] for each in errors if each["verb"] == "create"}
    assert created == {409, 429, 500, 503, 504}


def test_a_fault_taken_away_leaves_the_others_as_they_are():
    """A part of a plan has the same faults, with the names and the seed that decide what they draw."""
    plan = next(plan for seed in range(50) if len((plan := draw(seed, CLUSTER)).faults) > 3)
    part = plan.with_faults(plan.faults[1:])
    assert part == Plan(plan.seed, plan.faults[1:])
    before = [fault.component_body(plan.seed) for fault in plan.faults[1:]]
    assert [fault.component_body(part.seed) for fault in part.faults] == before


def test_a_cells_cluster_is_described():
    """The components are those that its cluster starts with, by their names on the command line."""
    (cell,) = matrix.of_scenarios(("dra/kubelet",)).cells(("dra/kubelet/1.36",))
    components = describe(cell).components
    assert {"apiserver", "controller-manager", "scheduler"} <= {*components}
    assert any(name.startswith("kubelet/") for name in components)
    assert any(name.startswith("driver/") for name in components)


@pytest.mark.parametrize(
    ("faults", "why"),
    [
        ([{"id": "a", "component": "scheduler", "meteor": 1}], "fault a: expected one of answer, drop"),
        (
            [{"id": "a", "component": "schedular", "kill": True, "at": "1s"}],
            "there is no component schedular; did",
        ),
        ([{"component": "scheduler", "crash": "after"}], "id: expected a name"),
        ([{"id": "a", "component": "scheduler", "kill": True}], "fault a: kill: expected `at`"),
        (
            [{"id": "a", "component": "scheduler", "drop": "answer", "back": "1s"}],
            "back: cannot be combined with drop",
        ),
        ([{"id": "a", "latency": {"usual": "2ms"}}], "latency: expected {usual: 2ms"),
        (
            [{"id": "a", "latency": {"usual": "3ms", "rare": "2ms", "share": 0.1}}],
            "usual 3ms is more than rare",
        ),
        (
            [{"id": "a", "component": "scheduler", "clockJump": "soon", "at": "1s"}],
            "clockJump: expected a duration",
        ),
        (
            [{"id": "a", "component": "driver/x", "switches": {"refuse": 1}, "at": "1s"}],
            "fault a: switches: ",
        ),
        ([{"id": "a", "order": "processes", "nth": 2}], "nth: cannot be combined with order"),
        ([{"id": "a", "order": "processes"}] * 2, "fault a: there are two of this name"),
        (["crash"], "fault 1: expected a mapping, found 'crash'"),
    ],
)
def test_a_plan_that_cannot_be_played_is_refused(faults, why):
    """The error names the fault and says what is wrong with it."""
    with pytest.raises(PlanError) as error:
        plan_of({"seed": 1, "faults": faults})
    assert why in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"seed": 1}', b"\xff\xfe", b'{"faults": [], "sede": 1}']
)
def test_a_file_that_holds_no_plan_is_named(tmp_path, content):
    """The error is one of plans and begins with the path, regardless of what the file holds."""
    path = tmp_path / "plan.json"
    path.write_bytes(content)
    with pytest.raises(PlanError, match=str(path)):
        load(path)
