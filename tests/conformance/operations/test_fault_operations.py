"""Tests the operation `fault`: what it asks of the cluster, and what becomes of faults that never fired."""

import pytest
import yaml
from cell_in_memory import HEAD, Control, run

from kubeskew.apimachinery.faults.fault import FaultReport
from kubeskew.apimachinery.faults.syntax import read
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.evidence.components import FaultMoment, component_runs, fault_moments
from kubeskew.conformance.evidence.log import ComponentChange
from kubeskew.conformance.loader import parse
from kubeskew.conformance.matrix import check_cluster

pytestmark = pytest.mark.looptime

LOST = "{component: scheduler, verb: create, resource: pods/binding, nth: 1, drop: answer, id: lost}"
SEEN = {"update leases": 9, "create pods/binding": 2, "get pods": 4}
MISSING = (
    "fault lost never fired (scheduler: create pods/binding, call 1: answer lost); it selected no call. "
    "scheduler made since: 4 get pods, 2 create pods/binding, 9 update leases"
)


class Faulty(Control):
    """A cluster whose faults fire if they are asked to."""

    def __init__(self, *firing):
        super().__init__()
        self.firing = firing
        self.reports = {}

    async def set_fault(self, body):
        fault = read(body, self.reports)
        fired = int(fault.id in self.firing)
        self.reports[fault.id] = FaultReport(fault, fired, fired, SEEN)
        self.calls.append(("fault", fault.id))
        return fault.id

    async def clear_faults(self, name):
        names = [*self.reports] if name == "all" else [name]
        return [self.reports.pop(each) for each in names]

    async def await_fault(self, name, seconds):
        self.calls.append(("await", name, seconds))
        return self.reports[name]

    async def faults(self):
        return [*self.reports.values()]


def failures(result):
    """By step, what its failed operations found."""
    return {
        step.name: [operation.found for operation in step.operations if operation.failed]
        for step in result.steps
    }


async def test_a_fault_that_fires_passes():
    """A fault is set with what the file says, awaited for as long as it says, and cleared."""
    control = Faulty("lost")
    result = await run(
        f"""
  - name: one
    try:
    - fault: {LOST}
    - fault: {{await: lost, timeout: 3s}}
    - fault: {{expectFired: lost}}
    - fault: {{clear: lost}}
""",
        control,
    )

    assert result.failure == ""
    assert control.calls[1:4] == [("fault", "lost"), ("await", "lost", 3.0), ("await", "lost", 0.0)]


async def test_a_fault_that_never_fires_fails_its_step_at_the_end():
    """The steps behind it are run; at the end the step that set it says what was called instead."""
    result = await run(
        f"""
  - name: sets it
    try: [{{fault: {LOST}}}]
  - name: goes on
    try: [{{sleep: {{duration: 1s}}}}]
""",
        Faulty(),
    )

    assert failures(result) == {"sets it": [MISSING], "goes on": []}
    assert not result.passed


@pytest.mark.parametrize("operation", ["{await: lost, timeout: 1s}", "{expectFired: lost}", "{clear: all}"])
async def test_a_fault_that_was_to_have_fired(operation):
    """A step that awaits, expects or clears a fault that has not fired fails and lists the calls made."""
    result = await run(
        f"""
  - name: one
    try: [{{fault: {LOST}}}, {{fault: {operation}}}]
""",
        Faulty(),
    )

    assert failures(result) == {"one": [MISSING]}


async def test_each_fault_that_is_cleared_unfired_wants_a_mark_of_its_own():
    """A mark for one of two faults that never fired does not hide the other."""
    other = LOST.replace("id: lost", "id: other")
    header = (
        "{cluster: {}, expectedFailures: [{when: (`true`), steps: [one], found: fault lost never, "
        "reason: it is so, source: kubernetes/kubernetes#1}]}"
    )
    steps = f"""
  - name: one
    try: [{{fault: {LOST}}}, {{fault: {other}}}, {{fault: {{clear: all}}}}]
"""
    result = await run(steps, Faulty(), header)

    assert failures(result) == {"one": [MISSING, MISSING.replace("fault lost", "fault other")]}
    assert not result.passed


async def test_a_fault_that_is_set_again_is_missed_by_the_step_that_set_it_last():
    """The id of a fault may be used again once the fault is cleared; the cleanups follow as ever."""
    control = Faulty("lost")
    control.clear_faults = _clearing_for_good(control)
    result = await run(
        f"""
  - name: one
    try: [{{fault: {LOST}}}, {{fault: {{clear: lost}}}}]
    cleanup: [{{sleep: {{duration: 1s}}}}]
  - name: two
    try: [{{fault: {LOST}}}]
""",
        control,
    )

    assert failures(result) == {"one": [], "two": [MISSING]}
    assert [operation.block for operation in result.steps[0].operations] == ["try", "try", "cleanup"]


def _clearing_for_good(control):
    """Returns a `clear_faults` after which no fault fires any more."""
    clear = control.clear_faults

    async def clear_faults(name):
        control.firing = ()
        return await clear(name)

    return clear_faults


async def test_an_optional_fault_need_not_fire():
    """A fault that may end without having fired does not fail its step."""
    result = await run(
        f"""
  - name: one
    try: [{{fault: {LOST[:-1]}, optional: true}}}}]
""",
        Faulty(),
    )

    assert result.failure == ""


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ("{component: scheduler, verb: updat, answer: 409}", "no verb updat; did you mean update?"),
        ("{component: scheduler, resource: resourceclaim, answer: 409}", "did you mean resourceclaims?"),
        ("{component: scheduler, answr: 409}", "unknown key answr; .*did you mean answer?"),
        ("{component: scheduler}", "expected one of answer, drop"),
        ("{await: x, nth: 1}", "nth: cannot be combined with await"),
        ("{clear: 4}", "clear: expected the id of a fault, found 4"),
        ("{component: schedular, answer: 409}", "no component schedular"),
        ("{component: kubelet/other, answer: 409}", "no component kubelet/other"),
        ("{component: ($which), answer: 409}", "there is no component nobody"),
        ("{component: scheduler, answer: ($code)}", "answer: expected one of .*found 418"),
    ],
)
async def test_typos_are_reported_before_a_cluster_is_started(body, wrong):
    """Keys, names, components and values are checked when the file is read, those of parameters too."""
    header = "{cluster: {}, parameters: {which: [scheduler, nobody], code: [409, 418]}}"
    steps = f"""
  - name: one
    try: [{{fault: {body}}}]
"""
    with pytest.raises(ScenarioError, match=wrong):
        check_cluster(parse([*yaml.safe_load_all(HEAD % header + steps)], "file"))


def test_the_log_reports_faults():
    """Moments of faults are evidence, and end no run of their component; a crash does."""
    log = [
        ComponentChange(1, "T1", "scheduler", "started", "1.36", ""),
        ComponentChange(2, "T2", "scheduler", "fault-set", "1.36", "", "a: what"),
        ComponentChange(3, "T3", "scheduler", "fault-fired", "1.36", "", "a: did"),
        ComponentChange(3, "T4", "scheduler", "crashed", "1.36", "", "a: did"),
    ]

    assert fault_moments(log) == [
        FaultMoment(2, "T2", "scheduler", "set", "a: what"),
        FaultMoment(3, "T3", "scheduler", "fired", "a: did"),
        FaultMoment(3, "T4", "scheduler", "crashed", "a: did"),
    ]
    assert [(run.since, run.until, run.ended) for run in component_runs(log)] == [("T1", "T4", "crashed")]
