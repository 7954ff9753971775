"""Faults in entries of known findings: what can stand in a fault's line, and what never does."""

import pytest

from kubeskew.apimachinery.faults.syntax import read
from kubeskew.conformance.errors import ScenarioError
from kubeskew.simulation.explore.classes import check_fault
from kubeskew.simulation.faults.plan import Fault, Kind


@pytest.mark.parametrize(
    "text",
    [
        "latency",
        "late-events: scheduler: ",
        "late-events: scheduler:",
        "crash: kubelet/",
        "crash: driver/gpu.example.com",
        "kill: kubelet/node-1: kill true",
        "outage: apiserver-1: ",
        "error: update resourcequotas/status",
        "error: controller-manager: update resourceclaims,",
        "error: update/patch pods",
        "error: any write pods, call 3",
        "error: any verb any resource",
        "crash: NodePrepareResources",
        "stale-watch: scheduler: DELETED event of pods",
        "stale-watch: any event of sizes",
        "error: update devices.example.com",
        "stale-watch: MODIFIED event of pod.example.com",
        "error: update",
        'latency: all: latency {"usual"',
    ],
)
def test_words_that_stand_in_a_line_are_taken(text: str):
    """A kind, and after it a component, a call or both, are what an entry may name."""
    check_fault(text, "faults")


@pytest.mark.parametrize(
    "body",
    [
        {"component": "scheduler", "verb": "update", "resource": "pods/status", "answer": 409},
        {"component": "kubelet/node-1", "verb": "NodePrepareResources", "crash": "before"},
        {"component": "controller-manager", "event": "ADDED", "resource": "pods", "delay": "1s"},
        {"component": "apiserver-2", "outage": "refuse"},
        {"component": "scheduler", "crash": "after"},
    ],
)
def test_whole_lines_of_faults_are_taken(body: dict[str, object]):
    """Whatever a fault's line says of components and calls can be named in an entry."""
    parameters = {key: value for key, value in body.items() if key != "component"}
    fault = Fault("fault-1", Kind.ERROR, str(body["component"]), {}, parameters)
    line = str(fault).removeprefix("fault-1: ")
    assert line == str(read(fault.component_body(0)))
    check_fault(f"error: {line}", "faults")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("crush: kubelet/", "there is no kind of fault crush; there are .*; did you mean crash"),
        ("crash: kublet/", r"faults: there is no component or verb kublet; did you mean kubelet\?"),
        ("late-events: schedular: ", r"there is no component or verb schedular; did you mean scheduler\?"),
        ("error: udpate", r"there is no component or verb udpate; did you mean update\?"),
        ("error: scheduler: udpate pods", r"there is no verb udpate; did you mean update\?"),
        ("error: update/ptach pods", r"there is no verb ptach; did you mean patch\?"),
        (
            "error: update resourceclaim,",
            r"there is no resource resourceclaim; did you mean resourceclaims\?",
        ),
        ("stale-watch: DELETD event of pods", r"there is no event DELETD; did you mean DELETED\?"),
        ("stale-watch: DELETED event of pod", r"there is no resource pod; did you mean pods\?"),
        (
            "crash: NodePrepareResource",
            r"there is no verb NodePrepareResource; did you mean NodePrepareResources",
        ),
    ],
)
def test_what_is_misspelt_is_refused(text: str, said: str):
    """Words that no line of a fault has are reported, with those that were probably meant."""
    with pytest.raises(ScenarioError, match=said):
        check_fault(text, "faults")
