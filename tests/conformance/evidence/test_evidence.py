"""Evidence from the log of a run: runs of components, lives, and where two runs parted."""

from typing import Any

from kubeskew.conformance.evidence.comparison import diverged, record
from kubeskew.conformance.evidence.components import component_runs, version_at
from kubeskew.conformance.evidence.lives import object_lives, pod_lives
from kubeskew.conformance.evidence.log import ComponentChange, Write


def time(second: int) -> str:
    return f"2026-01-01T00:00:{second:02}.000000Z"


def write(revision: int, name: str, verb: str = "update", resource: str = "pods", **value: Any) -> Write:
    metadata = {
        "name": name,
        "uid": f"uid-{name}",
        "resourceVersion": str(revision),
        **value.pop("metadata", {}),
    }
    return Write(
        revision, time(revision), verb, resource, "ns", name, "kubelet 1.36", {"metadata": metadata, **value}
    )


def generated(revision: int, name: str, verb: str = "create", **value: Any) -> Write:
    return write(revision, name, verb, metadata={"generateName": "web-"}, **value)


def test_what_a_clock_dates_before_the_first_start_is_of_the_first_version():
    """The version of a component at a time is that of its last start, of its first one before that."""
    starts = [
        ComponentChange(1, time(3), "kubelet/n", "started", "1.35", ""),
        ComponentChange(2, time(5), "kubelet/n", "started", "1.36", ""),
    ]
    assert [version_at(starts, "kubelet/n", time(at)) for at in (1, 3, 4, 6)] == [
        "1.35",
        "1.35",
        "1.35",
        "1.36",
    ]
    assert version_at(starts, "kubelet/other", time(4)) == ""


def test_a_component_has_a_run_per_version():
    """Each start begins a run, which ends with the component's stop or its next start."""
    log = [
        ComponentChange(1, time(1), "scheduler", "started", "1.35", "A=true"),
        ComponentChange(2, time(2), "apiserver", "started", "1.35", ""),
        ComponentChange(3, time(3), "scheduler", "killed", "1.35", "A=true"),
        ComponentChange(4, time(4), "scheduler", "started", "1.36", ""),
    ]

    found = [
        (each.component, each.version, each.since, each.until, each.ended) for each in component_runs(log)
    ]

    assert found == [
        ("scheduler", "1.35", time(1), time(3), "killed"),
        ("apiserver", "1.35", time(2), "", ""),
        ("scheduler", "1.36", time(4), "", ""),
    ]


def test_a_pods_life_is_reported():
    """Creation, failing to be scheduled, binding, running, restarts and the end, each once."""
    unschedulable = [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes"}]
    running = {"phase": "Running", "containerStatuses": [{"name": "c", "restartCount": 0}]}
    restarted = {"phase": "Running", "containerStatuses": [{"name": "c", "restartCount": 1}]}
    bound = {"nodeName": "n"}
    log = [
        write(1, "a", "create", spec={}, status={"phase": "Pending"}),
        write(2, "a", spec={}, status={"phase": "Pending", "conditions": unschedulable}),
        write(3, "a", spec=bound, status={"phase": "Pending"}),
        write(4, "a", spec=bound, status=running),
        write(5, "a", spec=bound, status=restarted),
        write(6, "a", metadata={"deletionTimestamp": time(6)}, spec=bound, status=restarted),
        write(7, "a", "delete", spec=bound, status=restarted),
    ]

    [life] = pod_lives(log)

    assert life.node == "n"
    assert [event.what for event in life.events] == [
        *("created", "unschedulable: 0/1 nodes", "bound to n", "Running"),
        *("c restarted (1)", "being deleted", "gone"),
    ]


def test_runs_that_differ_by_chance_do_not_diverge():
    """Generated names, times, uids, the order of objects and states in between are no difference."""
    one = [
        generated(1, "web-abc", status={"phase": "Pending", "startTime": time(1)}),
        generated(2, "web-abc", "update", status={"phase": "Running", "of": "web-abc"}),
        write(3, "lone", "create"),
    ]
    other = [
        write(1, "lone", "create"),
        generated(5, "web-xyz", status={"phase": "Running", "of": "web-xyz", "startTime": time(5)}),
    ]

    assert diverged(record(one, [3]), record(other, [5]), "baseline", ["s"]) is None
    assert diverged(record(other, [5]), record(one, [3]), "baseline", ["s"]) is None


def test_what_a_restarted_component_publishes_again_is_no_difference():
    """A slice that goes and comes back under another name is the same; a pod that is replaced is not."""

    def published(revision: int, name: str, verb: str, resource: str) -> Write:
        return write(revision, name, verb, resource, metadata={"generateName": "gpu-"}, spec={"driver": "d"})

    for resource, same in (("resourceslices.resource.k8s.io", True), ("pods", False)):
        first = published(1, "gpu-a", "create", resource)
        again = [published(2, "gpu-a", "delete", resource), published(3, "gpu-b", "create", resource)]

        found = diverged(record([first, *again], [3]), record([first], [1]), "all", ["s"])

        assert (found is None) is same


def test_the_first_difference_is_named():
    """In the first step where they differ: what one has and the other never had, in the order of writes."""
    common = write(1, "a", "create", status={"phase": "Pending"})
    baseline = [common, write(2, "a", status={"phase": "Running"}), write(4, "a", "delete")]
    run = [common, write(3, "a", status={"phase": "Failed"}), write(9, "late", "create")]

    found = diverged(record(run, [1, 3, 9]), record(baseline, [1, 2, 4]), "all", ["up", "flip", "end"])

    assert found is not None
    assert (found.step, found.baseline) == ("flip", "all")
    assert [(each.kind, each.path, each.value, each.revision) for each in found.differences] == [
        ("missing", "status.phase", "Running", 2),
        ("extra", "status.phase", "Failed", 3),
    ]


def test_runs_that_did_the_same_have_the_same_digest():
    """The hash of a log leaves out what differs from run to run, and nothing else."""
    log = [
        ComponentChange(1, time(1), "scheduler", "started", "1.35", ""),
        generated(2, "web-abc", status={"phase": "Pending", "startTime": time(1)}),
    ]
    again = [
        ComponentChange(4, time(4), "scheduler", "started", "1.35", ""),
        generated(9, "web-xyz", status={"phase": "Pending", "startTime": time(7)}),
    ]
    other = [again[0], generated(9, "web-xyz", status={"phase": "Failed"})]
    newer = [ComponentChange(4, time(4), "scheduler", "started", "1.36", ""), again[1]]

    assert record(log, []).digest == record(again, []).digest
    assert len({record(one, []).digest for one in (log, other, newer, log[:1])}) == 4


def test_the_lives_of_objects_are_reported():
    """A claim is allocated, reserved and freed, each once; what every cluster has is left out."""
    given = {"devices": {"results": [{"driver": "d", "pool": "p", "device": "gpu-0"}]}}
    claims = "resourceclaims.resource.k8s.io"
    held = {"allocation": given, "reservedFor": [{"name": "web"}]}
    log = [
        write(1, "gpu", "create", claims, kind="ResourceClaim", spec={}),
        write(2, "kube-root-ca.crt", "create", "configmaps", kind="ConfigMap"),
        write(3, "gpu", "update", claims, kind="ResourceClaim", spec={}, status=held),
        write(4, "gpu", "update", claims, kind="ResourceClaim", spec={}, status={"allocation": given}),
        write(5, "gpu", "update", claims, kind="ResourceClaim", spec={}, status={}),
        write(6, "gpu", "delete", claims, kind="ResourceClaim", spec={}),
    ]

    [life] = object_lives(log)

    assert (life.since, life.until) == (time(1), time(6))
    assert [event.what for event in life.events] == [
        *("created", "allocated d/p/gpu-0", "reserved for web", "no longer reserved for web"),
        *("deallocated", "gone"),
    ]
