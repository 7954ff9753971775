"""Entries of conformance/findings.yaml: each reports what was found, and not of what looks like it."""

import pytest

from kubeskew.apimachinery.known_bugs import KnownBugs, known_bugs
from kubeskew.apimachinery.versions import Version
from kubeskew.conformance.invariants.findings import KnownFinding
from kubeskew.simulation.explore.classes import Circumstances, classify, read_entries

KNOWN = read_entries()
BIND = 'FailedScheduling of Pod p: running Bind plugin "DefaultBinder": Connection reset by peer (at 9)'
BOUND = "Pod p bound to n by kube-scheduler 1.35 at revision 8"
GIVEN = "its claim p-extended-resources-x given gpu-1 by kube-scheduler 1.35 at revision 7"
DELETED = "ResourceClaim p-extended-resources-x deleted by kube-scheduler 1.35 at revision 6"
LEFT = "FailedScheduling of Pod p: 0/1 nodes are available: 1 cannot schedule extended resource claim."
MISSING = (
    "FailedPrepareDynamicResources of Pod p: Failed to prepare dynamic resources: fetch ResourceClaim "
    'p-extended-resources-x: resourceclaims.resource.k8s.io "p-extended-resources-x" not found'
)
USED = "found ResourceQuota t/q: status.(used): expected '2', found '3' (written by kube-apiserver 1.35)"
GONE = (
    "undisturbed: expected Pod t/p undisturbed; found claim p-extended-resources-x exists was true, is false"
)
SCHEDULED = "condition PodScheduled was True since T, became False since T for a time"
CONDITION = (
    "found Pod t/p: status.(conditions[?type == 'PodScheduled'].reason): expected 1 items, found nothing"
)
GATED = (
    "found Pod t/p: status.(conditions[?type == 'PodScheduled'].reason)[0]: expected 'Unschedulable', found "
    "'SchedulingGated'"
)
PREEMPTION = (
    "FailedScheduling of Pod p: 0/1 nodes are available: 1 Insufficient cpu. preemption: {} (written by x"
)
LACKS = "FailedScheduling of Pod p: 0/2 nodes are available: 1 Insufficient {}, 1 node(s) didn't match. no"
TWO = "found 2: ResourceClaim t/p-extended-resources-x (last written by kube-scheduler 1.35), ResourceClaim"
CONTEXT = "expected no PodSchedulingContext of this kind; found PodSchedulingContext t/p (last written by"
CHARGED = "3 of r is used; it is 2: kube-apiserver 1.35 charged it last, at revision 5, before"
OUT_OF = (
    "OutOfexample.com/gpu: Pod was rejected: Node didn't have enough resource: example.com/gpu, requested: 1"
)
INSIDE = "podLogs: expected p's log with ^gpu_example_com_r=gpu-1$; found PATH=/bin\nHOSTNAME=p"
USES, ANOTHER = (
    "Pod t/p (written by",
    "revision 2) uses ResourceClaim t/p-d-x, which was made for another pod",
)
WAITS = "found Pod t/p: status.phase: expected 'Pending', found 'Running' (bound to n by kube-scheduler 1.34)"
TAINTED = (
    f"{WAITS}; Pod p bound to n by kube-scheduler 1.34 at revision 8, its claim c given gpu-0 by "
    "kube-scheduler 1.34 at revision 7, {} s after gpu-0 was tainted by d.example.com 1.34 at revision 6"
)
SILENT = "is not bound: nothing is said about it; the scheduler is not ready: informers:"
KEPT = "found ResourceClaim t/c: (metadata.finalizers != null): expected False, found True"
ALL_DEVICES = (
    'Pod t/p fits node n and is not bound: running "DynamicResources" filter plugin: claim t/c, request r:'
)
ORPHAN = (
    "node n holds the devices of ResourceClaim t/c prepared by driver d (since 2026-01-01T00:00:17Z), which"
)
SCARCE = (
    "FailedPrepareDynamicResources of Pod p: Failed to prepare dynamic resources: NodePrepareResources "
    'failed for claim t/c: claim t/c: counter "RAM" of resource "Card" is not available:'
)
FORMER = "ResourceClaim t/c (written by {} 1.35 at 6) is not reserved any more for Pod t/p, which uses it"
UNSEEN = "ResourceClaim t/c is reserved for Pod p, which is gone, {} s after it was created"
RESERVED = "found ResourceClaim t/c: (status.reservedFor == null): expected True, found False (written by {}"
UNREAD = (
    "downgrade: expected downgrade to be done; found the kubelet of n does not run: failed to create "
    "claimInfo cache: error calling GetOrCreate() on checkpoint state: failed to get checkpoint "
    "dra_manager_state: checkpoint is corrupted"
)
UNREADABLE = (
    'an API server 1.29+kep4381 cannot read Resource{} s: no kind "Resource{}" is registered for version '
    '"resource.k8s.io/v1alpha2"'
)
UNSUITABLE = (
    "found Pod t/p: status.phase: expected 'Running', found 'Pending' (written by x); FailedScheduling of "
    "Pod {}: 0/1 nodes are available: 1 resourceclaim cannot be allocated for the node (unsuitable). "
)
ONE_OF_TWO = (
    "expected 2 Pod as asserted; found 1: Pod t/q (last written by kube-scheduler 1.34 at revision 7); not "
    "Pod t/p: status.(conditions[?type == 'PodScheduled'].reason): expected 1 items, found nothing (the "
    "object was last written by x); FailedScheduling of Pod {}: 0/1 nodes"
)
SECOND = "ResourceClaim t/p-c-x (written by {} 1.29) is made for the same claim of a pod as ResourceClaim t/y"
REPLACED = (
    "FailedPrepareDynamicResources of Pod p: Failed to prepare dynamic resources: NodePrepareResources "
    "failed: rpc error: code = Unknown desc = get resource claims: claim t/c {} (written by kubelet/n 1.33"
)
PENDING = "found Pod t/p: status.phase: expected 'Running', found 'Pending' (written by the scenario"
CORRUPTED = (
    f"{PENDING} at revision 256); kubelet/n 1.27.0 failed: could not restore state from checkpoint: "
    "checkpoint is corrupted, please drain this node and delete pod allocation checkpoint file; "
    "Pod p bound to {} by"
)
BOUND_ALL_THE_SAME = (
    "found Pod t/p: spec.(nodeName): expected nothing, found 'n' (written by kube-scheduler 1.34 at 2); "
    + BOUND
)
OTHER_DRIVER = (
    "found ResourceClaim t/p-extended-resources-x: status.(allocation.devices.results[*].driver)[0]: "
    "expected 'a', found 'b' (written by kube-{} 1.36 at revision 7)"
)
REFUSED = "Pod t/p (written by kubelet/n 1.35 at revision 6) ran and was failed by its kubelet: {}: why"
UNADMITTED = "UnexpectedAdmissionError of Pod p: Allocate failed due to {}"
STOPPED = "container c of Pod t/p was stopped on node n at 2026-01-01T00:00:17Z"
PREEMPTED = (
    "Pod t/low (written by kube-scheduler 1.35 at 6) was preempted, and no pod of a higher priority waits"
)
WIPED = "found no ResourceSlice at all; ResourceSlice n-gpu deleted by kubelet/{} 1.34 at revision 6"
SIDECAR = "found Pod t/p: status.containerStatuses[0].started: expected {} (written by kubelet/n 1.35)"
ALLOCATED = "podLogs: expected p's log with ^DEVICES=; found PATH=/bin\n{}\n"


def _version(entry: KnownFinding) -> Version:
    """Returns a release that an entry is for."""
    bug = known_bugs().get(f"k8s-{entry.class_.removeprefix('known:')}")
    minors = range(entry.minors[0], entry.minors[1] + 1) if entry.minors else (35, *range(26, 38))
    return next(
        version
        for minor in minors
        for version in (Version(minor), Version.parse(f"1.{minor}.0"))
        if (bug is None or not bug.switch or KnownBugs(version, {}).present(bug.id))
    )


def fired(fault: str) -> dict[str, list[str]]:
    """Returns the fault of an entry as a run has it."""
    kind, _, words = fault.partition(": ")
    return {kind: [f"{kind}-1: {words}, call 1"]}


@pytest.mark.parametrize(
    ("entry", "invariant", "found", "neighbour"),
    [
        (
            *("a-claim-for-all-devices-fails-by-another-nodes-pool", "I04"),
            f"{ALL_DEVICES} asks for all devices, but resource pool gpu.com/m is currently being updated",
            f"{ALL_DEVICES} has too many devices",
        ),
        (
            *("pods-wait-for-an-extended-claim-that-is-left", "assertion", f"{LEFT} [Errno 111] refused"),
            LEFT.replace("cannot schedule extended resource claim", "Insufficient cpu"),
        ),
        (
            *("pods-wait-after-their-extended-claim-is-deleted", "assertion"),
            *(f"{LEFT} deletion of ResourceClaim completed", f"{LEFT} waiting"),
        ),
        (
            *("scheduler-deletes-the-claim-of-a-pod-that-it-has-bound", "assertion"),
            f"{DELETED}; {BIND}; {BOUND}, {GIVEN}",
            f"{DELETED}; {BIND}; {BOUND}, {GIVEN.replace('resources-x', 'resources-y')}",
        ),
        (
            *("kubelet-misses-the-claim-of-a-pod-that-was-bound", "assertion", f"{BIND}; {MISSING}"),
            f"{BIND}; {MISSING.replace('of Pod p', 'of Pod q')}",
        ),
        (
            *("scheduler-deletes-the-claim-of-a-pod-that-runs", "assertion"),
            f"{GONE} (written by kube-scheduler 1.36 at revision 2); {SCHEDULED}",
            f"{GONE} (written by kube-controller-manager 1.36 at revision 2); {SCHEDULED}",
        ),
        (
            *(
                "quotas-count-a-claim-made-anew-beside-its-pod",
                "assertion",
                f"{USED}; {BIND}; {BOUND}, {GIVEN}",
            ),
            f"{USED}; {BIND}; {BOUND}, {GIVEN.replace('p-ext', 'q-ext')}",
        ),
        (
            *("quotas-are-wrong-after-a-claim-was-made-anew", "I09"),
            f"{CHARGED} ResourceClaim t/p-extended-resources-x was created",
            f"{CHARGED} ResourceClaim t/mine was created",
        ),
        (
            *("scheduler-makes-a-second-claim-for-extended-resources", "assertion"),
            f"{TWO} t/p-extended-resources-y (last written by kube-scheduler 1.35 at revision 4)",
            f"{TWO} t/q-extended-resources-y (last written by kube-scheduler 1.35 at revision 4)",
        ),
        (
            *("scheduler-does-not-set-a-condition-again", "assertion"),
            f"{CONDITION} (x); FailedScheduling of Pod p: 0/1 nodes",
            f"{CONDITION} (x); FailedScheduling of Pod q: 0/1 nodes",
        ),
        (
            *("scheduler-does-not-set-a-condition-again", "assertion"),
            f"{GATED} (x); FailedScheduling of Pod p: 0/1 nodes",
            f"{GATED} (x); FailedScheduling of Pod q: 0/1 nodes",
        ),
        (
            *("scheduler-does-not-set-a-condition-again-of-an-earlier-step", "assertion"),
            f"{CONDITION} (the object was last written by the scenario through kube-apiserver 1.34 at 9)",
            f"{CONDITION} (the object was last written by kube-scheduler 1.34 at 9)",
        ),
        (
            *("scheduler-does-not-try-a-preemption-again", "assertion"),
            *(PREEMPTION.format("Connection reset by peer"), PREEMPTION.format("0/1 nodes are available")),
        ),
        (
            *("pods-wait-after-a-class-with-their-resource-has-come", "assertion"),
            *(f"{PENDING}); {LACKS.format('example.com/gpu')}", f"{PENDING}); {LACKS.format('cpu')}"),
        ),
        (
            *("pods-wait-after-a-class-with-their-resource-has-come", "assertion"),
            f"found Deployment t/d: x (written by y); {LACKS.format('example.com/gpu')}",
            f"{PENDING}); {LACKS.format('example.com/gpu').replace('Pod p', 'Pod q')}",
        ),
        (
            *("a-pod-waits-whose-class-came-before-the-step", "assertion"),
            *(f"{PENDING})", f"{PENDING}); FailedMount of Pod p: no volume"),
        ),
        (
            *("scheduler-takes-the-class-that-it-knows", "assertion"),
            *(OTHER_DRIVER.format("scheduler"), OTHER_DRIVER.format("controller-manager")),
        ),
        (
            *("kubelet-ends-a-running-pod-that-does-not-tolerate-its-node", "I06"),
            *(REFUSED.format("TaintToleration"), REFUSED.format("NodeAffinity")),
        ),
        (
            *("kubelet-gives-a-pod-its-cpus-once-more-when-it-starts", "assertion"),
            *(UNADMITTED.format("not enough cpus available to satisfy request: 2"), UNADMITTED.format("x")),
        ),
        (
            *("kubelet-gives-a-pod-its-memory-once-more-when-it-starts", "assertion"),
            UNADMITTED.replace("due to", "due to [memorymanager]").format(
                "failed to get the default NUMA affinity"
            ),
            UNADMITTED.replace("due to", "due to [memorymanager]").format("no"),
        ),
        (
            *("scheduler-preempts-for-a-pod-that-was-just-deleted", "I21"),
            *(f"{PREEMPTED}; Pod t/high, which did, went 0.1 s before", PREEMPTED),
        ),
        (
            *("scheduler-preempts-for-a-deleted-pod-as-its-watch-stands-still", "I21"),
            *(f"{PREEMPTED}; Pod t/high, which did, went 4.1 s before", PREEMPTED),
        ),
        (
            *("slices-of-a-driver-that-a-newer-server-refuses-are-wiped", "assertion"),
            *(WIPED.format("n"), WIPED.format("m")),
        ),
        (
            *("kubelet-does-not-know-that-a-sidecar-had-started", "assertion"),
            *(SIDECAR.format("True, found False"), SIDECAR.format("False, found True")),
        ),
        (
            *("kubelet-starts-a-container-before-its-device-plugin-is-back", "assertion"),
            *(ALLOCATED.format("HOME=/root"), ALLOCATED.format("DEVICES=1")),
        ),
        (
            *("claim-controller-selects-a-node-for-a-claim-that-has-one", "assertion"),
            *(f"{CONTEXT} kube-controller-manager 1.29", f"{CONTEXT} kube-scheduler 1.29"),
        ),
        (
            *("claim-controller-dies-before-it-takes-a-finalizer-off", "assertion"),
            *(
                f"{KEPT} (written by kube-controller-manager 1.30)",
                f"{KEPT} (written by kube-scheduler 1.30)",
            ),
        ),
        (
            *("a-scheduler-that-starts-waits-for-what-is-not-served", "I04"),
            *(f"{SILENT} the API server cannot list x.y", f"{SILENT} not ready"),
        ),
        (
            *("kubelet-asks-again-for-a-former-claim", "assertion"),
            *(REPLACED.format("got replaced"), REPLACED.format("not allocated")),
        ),
        (
            *("a-kubelet-that-starts-more-often-finds-its-checkpoint-corrupted", "assertion"),
            *(CORRUPTED.format("n"), CORRUPTED.format("m")),
        ),
        (
            *("claim-controller-makes-a-second-claim", "I08"),
            *(SECOND.format("kube-controller-manager"), SECOND.format("kube-scheduler")),
        ),
        (
            *("kubelet-refuses-a-pod-for-devices-that-were-withdrawn", "I05"),
            *(f"{OUT_OF}, used: 1, capacity: 0", f"{OUT_OF}, used: 1, capacity: 2"),
        ),
        (
            *("scheduler-gives-a-device-that-was-tainted-just-before", "assertion"),
            *(TAINTED.format("0.1"), TAINTED.format("7.5")),
        ),
        (
            *("claim-controller-names-a-former-pods-claims-in-the-status-of-the-next", "I18"),
            *(
                f"{USES} kube-controller-manager 1.28 at {ANOTHER}",
                f"{USES} kube-scheduler 1.28 at {ANOTHER}",
            ),
        ),
        (
            *("a-kubelet-that-starts-gives-nothing-back-for-a-pod-that-is-gone", "I02"),
            *(f"{ORPHAN} no pod uses there", f"{ORPHAN} another pod uses"),
        ),
        (
            *("scheduler-does-not-set-a-condition-again", "assertion"),
            *(ONE_OF_TWO.format("p"), ONE_OF_TWO.format("q")),
        ),
        (
            *("claim-controller-takes-a-pod-for-its-replacement", "I06"),
            f"{FORMER.format('kube-controller-manager')}; a former Pod of its name went 0.1 s before",
            FORMER.format("kube-controller-manager"),
        ),
        (
            *("claim-controller-takes-a-pod-for-its-replacement-as-its-watch-stands-still", "I06"),
            f"{FORMER.format('kube-controller-manager')}; a former Pod of its name went 400.1 s before",
            FORMER.format("kube-controller-manager"),
        ),
        (
            *("scheduler-takes-back-the-claim-of-a-pod-that-it-has-bound", "I06"),
            f"{FORMER.format('kube-scheduler')}; a former Pod of its name went 60.1 s before",
            FORMER.format("kube-controller-manager"),
        ),
        (
            *("kubelet-misses-the-claim-of-a-pod-that-was-taken-for-its-replacement", "assertion"),
            f"ContainerCreating; Pod p deleted by kubelet/n 1.35 at revision 4; {MISSING}",
            f"ContainerCreating; Pod q deleted by kubelet/n 1.35 at revision 4; {MISSING}",
        ),
        (
            *("a-kubelet-does-not-read-what-another-release-noted-of-claims", "assertion"),
            *(UNREAD, UNREAD.replace("dra_manager_state", "cpu_manager_state")),
        ),
        (
            *("pods-wait-after-a-slice-has-come-again", "assertion"),
            *(UNSUITABLE.format("p"), UNSUITABLE.format("q")),
        ),
        (
            *("claim-controller-has-never-seen-the-pod", "I02"),
            *(UNSEEN.format("0.1"), UNSEEN.format("7.5")),
        ),
        (
            *("scheduler-gives-a-device-that-was-just-withdrawn", "assertion"),
            *(f"{BOUND_ALL_THE_SAME}, {GIVEN}", BOUND_ALL_THE_SAME),
        ),
        (
            *("partitions-lose-their-counters-when-a-kubelet-starts-while-the-gate-is-off", "assertion"),
            *(
                f"{WAITS}; {BOUND}, {GIVEN.replace('gpu-1', 'gpu-0-mig-1g-5gb-0')}",
                f"{WAITS}; {BOUND}, {GIVEN}",
            ),
        ),
        (
            *("scheduler-takes-another-device-than-in-order", "assertion"),
            *(
                f"{INSIDE}\ngpu_example_com_r=gpu-2\nHOME=/root",
                f"{INSIDE}\nHOME=/root\ntpu_example_com_r=gpu-2",
            ),
        ),
    ],
)
def test_an_entry_reports_what_was_found(entry: str, invariant: str, found: str, neighbour: str) -> None:
    """A message as a run had it is of the entry; one with another pod, writer or number is of none."""
    (own,) = [each for each in KNOWN if each.id == entry]
    versions = [_version(own)]

    for fault in own.faults or ("none",):
        run = Circumstances(fired(fault), versions, {})
        assert [each.entry for each in classify(KNOWN, [(invariant, found)], run)] == [entry]
        assert entry not in [each.entry for each in classify(KNOWN, [(invariant, neighbour)], run)]
    if own.faults:
        without = Circumstances(fired("none: get leases"), versions, {})
        assert classify(KNOWN, [(invariant, found)], without)[0].class_ == "unknown"


@pytest.mark.parametrize(
    ("cause", "entry", "found", "neighbour"),
    [
        (
            (
                *("a-kubelet-that-starts-gives-nothing-back-for-a-pod-that-is-gone", "I02"),
                f"{ORPHAN} no pod uses there",
            ),
            "a-pod-waits-for-devices-that-a-kubelet-gives-back-no-more",
            *(f"{SCARCE} 6 allocated, 4 of 10 left", f"{SCARCE} no such counter"),
        ),
        (
            ("claim-controller-has-never-seen-the-pod", "I02", UNSEEN.format("0.1")),
            "assertion-after-a-pod-was-never-seen",
            *(RESERVED.format("kube-scheduler"), RESERVED.format("kube-controller-manager")),
        ),
        (
            ("a-kubelet-does-not-read-what-another-release-noted-of-claims", "assertion", UNREAD),
            "what-a-release-stored-stays-where-the-next-did-not-come-up",
            *(UNREADABLE.format("Slice", "Slice"), UNREADABLE.format("Claim", "Claim")),
        ),
        (
            (
                *("pods-wait-after-a-class-with-their-resource-has-come", "assertion"),
                f"{PENDING}); {LACKS.format('example.com/gpu')}",
            ),
            "a-pod-that-waits-after-its-class-has-come-has-no-claim",
            *("found no ResourceClaim at all", "found no Pod at all"),
        ),
        (
            (
                *("pods-wait-after-their-extended-claim-is-deleted", "assertion"),
                f"{LEFT} deletion of ResourceClaim completed",
            ),
            "a-pod-that-waits-after-its-extended-claim-is-deleted-has-none",
            *("found no ResourceClaim at all", "found no Pod at all"),
        ),
        (
            (
                *("kubelet-gives-a-pod-its-cpus-once-more-when-it-starts", "assertion"),
                UNADMITTED.format("not enough cpus available to satisfy request: 2"),
            ),
            "containers-end-when-their-cpus-are-given-once-more",
            *(f"{STOPPED}; nothing asked for it", f"{STOPPED}; the kubelet asked for it"),
        ),
        (
            (
                *("kubelet-gives-a-pod-its-memory-once-more-when-it-starts", "assertion"),
                UNADMITTED.replace("due to", "due to [memorymanager]").format(
                    "failed to get the default NUMA affinity"
                ),
            ),
            "containers-end-when-their-memory-is-given-once-more",
            *(f"{STOPPED}; nothing asked for it", f"{STOPPED}; the kubelet asked for it"),
        ),
    ],
)
def test_an_entry_reports_what_follows(
    cause: tuple[str, str, str], entry: str, found: str, neighbour: str
) -> None:
    """A message that follows from another finding is of the entry only next to that."""
    first, invariant, message = cause
    (own,) = [each for each in KNOWN if each.id == first]
    run = Circumstances(fired(own.faults[0] if own.faults else "none"), [_version(own)], {})

    def entries(*failures: tuple[str, str]) -> list[str]:
        return [each.entry for each in classify(KNOWN, failures, run)]

    (after,) = [each.invariant for each in KNOWN if each.id == entry]
    assert entries((invariant, message), (after, found)) == [first, entry]
    assert entries((invariant, message), (after, neighbour)) == [first, ""]
    assert entries((after, found)) == [""]
