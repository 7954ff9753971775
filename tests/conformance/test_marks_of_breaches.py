"""Marks of pods that were disturbed or refused, and of components that were: each of one breach alone."""

from functools import cache

import pytest

from kubeskew.conformance.matrix import bundled, find
from kubeskew.conformance.scenario import INVARIANTS, Cell, ExpectedFailure, Scenario

CODES = ("^I05 ", "^I06 ", "^I17 ")
IMPLICIT = "deviceclass.resource.kubernetes.io/gpu.example.com"
LACKING = f"OutOf{IMPLICIT}: Pod was rejected: Node didn't have enough resource: {IMPLICIT}"
UNHEALTHY = "no healthy devices present; cannot allocate unhealthy devices"
DEVICES = f"UnexpectedAdmissionError: Pod was rejected: Allocate failed due to {UNHEALTHY}"
CPU = "OutOfcpu: Pod was rejected: Node didn't have enough resource: cpu"
REVISED = "was not changed"
TAKEN = "is not reserved any more for Pod dra-faults/bound, which uses it"
UNRESERVED = f"(written by kube-scheduler 1.34 at revision 9) {TAKEN}"


def ran(pod: str, by: str, why: str) -> str:
    return f"I06 running-undisturbed: Pod {pod} (written by {by} at revision 9) {why}"


def failed(pod: str, by: str, why: str) -> str:
    """Says what an event does, which has no `Pod was rejected`."""
    return ran(pod, by, f"ran and was refused by its kubelet: {why.replace('Pod was rejected: ', '')}")


def refused(pod: str, by: str, why: str) -> str:
    node = by.removeprefix("kubelet/").partition(" ")[0]
    text = f"was bound to node {node} and refused there: {why}"
    return f"I05 bound-is-admitted: Pod {pod} (written by {by} at revision 9) {text}"


def inside(pod: str, why: str) -> str:
    return f"I06 running-undisturbed: container c of Pod {pod}, on node node since 12:00:00Z, {why}"


def implicit(minor: str) -> tuple[str, str]:
    return f"kubelet/gpu-node {minor}", f"{LACKING}, requested: 1, used: 0, capacity: 0"


FLIPS = "kep-5004/staged-flips/implicit"
FIRST = "kep-5004/staged-first/implicit/scheduler"
BOARDS = 'cannot list resource "boardparameters" in API group "boards.example.com" at the cluster scope'
AGAIN = "UnexpectedAdmissionError: Pod was rejected: Allocate failed due to {}, which is unexpected"
SIDECARS_GATE = "upgrade/sidecars-gate"
SIDECAR = (
    "InitContainerRestartPolicyForbidden: Pod was rejected: "
    'Init container "sidecar" may not have a non-default restartPolicy'
)
CLAIM_CONTROLLER = '"system:serviceaccount:kube-system:resource-claim-controller"'
NO_CPUS = "not enough cpus available to satisfy request: requested=2, available=1"
NO_MEMORY = (
    "[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available"
)
# A cell, and what is broken in it.
BREACHES = [
    (f"{FLIPS}/scheduler", failed("kep-5004-staged-flips/survivor", *implicit("1.36"))),
    (f"{FLIPS}/scheduler", refused("kep-5004-staged-flips/newcomer", *implicit("1.36"))),
    (FIRST, failed("kep-5004-staged-first/last", *implicit("1.34"))),
    (FIRST, refused("kep-5004-staged-first/between", *implicit("1.33"))),
    *(
        ("kep-5004/disablement/implicit/1.35", failed(f"kep-5004-disablement/{pod}", *implicit("1.35")))
        for pod in ("survivor", "restarting", "to-delete")
    ),
    *(
        ("kep-5004/on-off-on/implicit/1.35", failed(f"kep-5004-on-off-on/{pod}", *implicit("1.35")))
        for pod in ("one", "other")
    ),
    (
        "kep-5004/old-kubelets/implicit/1.36-with-1.33",
        refused("kep-5004-old-kubelets/old", *implicit("1.33")),
    ),
    ("kep-5004/implicit-names/at-once", failed("kep-5004-implicit-names/implicit", *implicit("1.36"))),
    (
        "kep-5004/ha-servers/1.34-and-1.33-by-first/implicit",
        failed("kep-5004-ha-servers/old", *implicit("1.34")),
    ),
    *(
        (
            "kep-5004/ha-servers/gate-in-one-1.36-by-second/implicit",
            refused(f"kep-5004-ha-servers/by-apiserver-{number}", *implicit("1.36")),
        )
        for number in (1, 2)
    ),
    (
        "kep-5004/pairs/1.33-1.34-1.33-1.34/by-hand/implicit",
        failed("kep-5004-pairs/second", *implicit("1.34")),
    ),
    (
        "upgrade/init-container-devices/1.34",
        failed(
            "upgrade-init-container-devices/initialized",
            "kubelet/node-1 1.34",
            f"{DEVICES} example.com/gpu, which is unexpected",
        ),
    ),
    *(
        (
            f"upgrade/sidecars-gate/{minor}",
            failed("upgrade-sidecars-gate/before", f"kubelet/node {minor}", SIDECAR),
        )
        for minor in ("1.28", "1.29", "1.32")
    ),
    (
        "classic/alone/controller-manager/1.27-1.28",
        (
            f"I17 authorised-as-meant: controller-manager was refused: User {CLAIM_CONTROLLER} cannot patch "
            'resource "pods/status" in API group "" in the namespace "classic-alone"'
        ),
    ),
    (
        "known-bugs/k8s-126343/1.30.4",
        ran("known-bugs-k8s-126343/short", "kubelet/node 1.30", "had ended as Succeeded, and is Failed"),
    ),
    (
        "known-bugs/k8s-134445/1.34",
        refused("known-bugs-k8s-134445/pod", "kubelet/node 1.34", "NodeAffinity: Pod was rejected: …"),
    ),
    (
        "known-bugs/k8s-134773/1.34.1",
        ran(
            "known-bugs-k8s-134773/set-0",
            "kube-controller-manager 1.34",
            f"ran and is deleted, although its StatefulSet known-bugs-k8s-134773/set {REVISED}",
        ),
    ),
    (
        "known-bugs/k8s-131513/1.33",
        inside(
            "known-bugs-k8s-131513/pod",
            "was started when driver gpu.example.com had prepared a former ResourceClaim "
            "known-bugs-k8s-131513/claim only",
        ),
    ),
    *(
        (
            f"known-bugs/{bug}/1.36",
            inside(
                f"known-bugs-{bug}/{pod}",
                "ran when driver gpu.example.com unprepared ResourceClaim "
                f"known-bugs-{bug}/{claim}, at 12:00:01Z",
            ),
        )
        for bug, pod, claim in (("k8s-140212", "first", "shared"), ("k8s-140527", "second", "claim"))
    ),
    (
        "known-bugs/k8s-135669/1.34",
        failed(
            "known-bugs-k8s-135669/pod",
            "kubelet/node 1.34",
            "OutOfexample.com/gpu: Pod was rejected: Node didn't have enough resource: example.com/gpu, "
            "requested: 1, used: 0, capacity: 0",
        ),
    ),
    (
        "known-bugs/k8s-141041/1.36/open",
        failed("known-bugs-k8s-141041/once", "kubelet/once 1.36", AGAIN.format(NO_CPUS)),
    ),
    (
        "known-bugs/k8s-141077/1.36",
        failed("known-bugs-k8s-141077/once", "kubelet/once 1.36", AGAIN.format(NO_MEMORY)),
    ),
    (
        "dra/faults/1.34-1.35",
        f"I06 running-undisturbed: ResourceClaim dra-faults/bound-gpu-x7k2p {UNRESERVED}",
    ),
    (
        "kep-4381/scheduling",
        f'I17 authorised-as-meant: scheduler was refused: User "system:kube-scheduler" {BOARDS}',
    ),
]
# What makes another breach of one of these: another pod, reason, amount, writer, claim, right.
CHANGES = [
    ("/survivor ", "/survivor-2 "),
    ("/newcomer ", "/survivor "),
    ("/last ", "/between "),
    ("/between ", "/last "),
    ("/restarting ", "/other "),
    ("/to-delete ", "/to-keep "),
    ("/one ", "/third "),
    ("/other ", "/others "),
    ("/old ", "/older "),
    ("/implicit ", "/explicit "),
    ("/by-apiserver-1 ", "/by-apiserver-11 "),
    ("/by-apiserver-2 ", "/by-apiserver-3 "),
    ("/second ", "/third "),
    ("/initialized ", "/plain "),
    ("/small ", "/large "),
    ("/short ", "/long "),
    ("/pod ", "/next "),
    ("/once ", "/twice "),
    (NO_CPUS, NO_MEMORY),
    ("requested=2", "requested=3"),
    (NO_MEMORY, NO_CPUS),
    ("/set-0 ", "/set-1 "),
    ("/first, ", "/next, "),
    ("/second, ", "/next, "),
    ("/pod, ", "/next, "),
    ("container c ", "container d "),
    ("driver gpu.example.com ", "driver nic.example.com "),
    ("unprepared", "prepared"),
    ("a former", "another"),
    ("/bound-gpu-x7k2p ", "/next-gpu-x7k2p "),
    ("Pod dra-faults/bound,", "Pod dra-faults/next,"),
    (LACKING, f"OutOfcpu: Pod was rejected: Node didn't have enough resource: {IMPLICIT}"),
    (LACKING, f"OutOf{IMPLICIT}: Pod was rejected: Node didn't have enough resource: cpu"),
    (LACKING, DEVICES),
    ("used: 0, capacity: 0", "used: 0, capacity: 1"),
    (DEVICES, "UnexpectedAdmissionError: Pod was rejected: Allocate failed due to no reason"),
    (DEVICES, CPU),
    (CPU, "OutOfmemory: Pod was rejected: Node didn't have enough resource: memory"),
    ("used: 1000,", "used: 2000,"),
    ("as Succeeded, and is Failed", "as Failed, and is Running"),
    ("NodeAffinity: ", "OutOfpods: "),
    (REVISED, "was changed"),
    ("kube-scheduler 1.34", "kube-controller-manager 1.34"),
    ("which uses it", "which uses it, but for 2 others"),
    ("cannot list", "cannot watch"),
    ("cannot patch", "cannot update"),
    ('"pods/status"', '"pods"'),
    ("resource-claim-controller", "node-controller"),
    ("/before ", "/after "),
    ("InitContainerRestartPolicyForbidden: ", "OutOfpods: "),
    ('"boards.example.com"', '"resource.k8s.io"'),
    ("scheduler was refused", "controller-manager was refused"),
    ("I05 ", "I06 "),
    ("I06 ", "I05 "),
    ("I17 ", "I16 "),
]
REJECTED = "Pod was rejected: "  # in statuses, not in events
CHANGES += [(old.replace(REJECTED, ""), new.replace(REJECTED, "")) for old, new in CHANGES if REJECTED in old]


@cache
def scenarios() -> dict[str, Scenario]:
    return {name: scenario for name in bundled() for scenario in find(name)}


@cache
def cell_of(name: str) -> Cell:
    """Returns the cell of this name, of whichever scenario."""
    found = [
        scenario for each, scenario in scenarios().items() if name == each or name.startswith(f"{each}/")
    ]
    return next(cell for scenario in found for cell in scenario.cells() if cell.name == name)


def marks_of(cell: Cell) -> list[ExpectedFailure]:
    """Returns the cell's marks of these invariants."""
    marks = cell.expected_failures().get(INVARIANTS, ())
    return [mark for mark in marks if mark.found.startswith(CODES)]


@pytest.mark.parametrize(("name", "breach"), BREACHES)
def test_a_mark_is_of_one_breach(name: str, breach: str) -> None:
    """One mark of the cell reports it, and none of what differs in pod, reason, writer or invariant."""
    marks = marks_of(cell_of(name))
    others = [breach.replace(old, new) for old, new in CHANGES if old in breach]

    assert sum(bool(mark.matched(breach)) for mark in marks) == 1
    assert len(others) >= 3
    assert [text for text in others if any(mark.matched(text) for mark in marks)] == []


def test_each_mark_has_its_breach_here() -> None:
    """Every mark of these invariants in any scenario is one of those that are tried above."""
    tried = {
        (cell_of(name).scenario.name, mark.found)
        for name, breach in BREACHES
        for mark in marks_of(cell_of(name))
        if mark.matched(breach)
    }
    declared = {
        (scenario.name, mark.found)
        for scenario in scenarios().values()
        for mark in scenario.expected_failures
        if INVARIANTS in mark.steps and mark.found.startswith(CODES)
    }

    assert declared == tried
