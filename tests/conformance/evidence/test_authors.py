"""The authors of what a failed check found."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from cell_in_memory import Control, run

from kubeskew.apimachinery.client.refs import PODS
from kubeskew.conformance.evidence.authors import (
    attributed,
    background,
    deletions,
    failures,
    last_written,
    placing,
    running,
    value_at,
    warnings,
)
from kubeskew.conformance.evidence.log import ComponentChange, Write
from kubeskew.conformance.evidence.nodes import ContainerEvent, DriverCall, InjectedDevice, NodeRecords

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"namespace": "t", "name": "a", "uid": "1", "labels": {"b.c/d": "e"}},
}
TAINT = {"key": "example.com/maintenance", "effect": "NoSchedule"}
SCHEDULED = {"type": "PodScheduled", "status": "True"}


def time(second: int) -> str:
    return f"2026-01-01T00:00:{second:02}.000000Z"


def write(
    revision: int, by: str, value: dict[str, Any], verb: str = "update", resource: str = "pods"
) -> Write:
    metadata = value["metadata"]
    return Write(
        *(
            revision,
            time(revision),
            verb,
            resource,
            metadata["namespace"],
            metadata["name"],
            by,
            value,
            "1.36",
        )
    )


def pod(**status: Any) -> dict[str, Any]:
    return {**POD, "status": status}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "a"),
        ("metadata.labels.b.c/d", "e"),
        ("status.conditions[1].type", "Ready"),
        ("status.conditions[2].type", None),
        ("status.conditions.type", None),
        ("spec.nodeName", None),
        ("metadata.name.first", None),
        ("", "whole"),
    ],
)
def test_paths_lead_to_values(path: str, value: Any):
    """Positions in lists, and keys with dots in them; what is not there is nothing."""
    obj = pod(conditions=[{"type": "Initialized"}, {"type": "Ready"}])

    assert value_at(obj, path) == (obj if value == "whole" else value)


def test_the_write_that_brought_a_value_is_named():
    """The last change counts, and that of another component; an expression is of what it stands behind."""
    log = [
        write(1, "kubeskew 0.1", POD, "create"),
        write(2, "kubelet/n 1.35", pod(phase="Running", reason="x")),
        write(3, "kube-controller-manager 1.35", pod(phase="Failed", reason="x")),
        write(4, "kube-scheduler 1.35", pod(phase="Failed", reason="x", conditions=[SCHEDULED])),
        write(
            5, "kubelet/n 1.36", pod(phase="Failed", reason="x", conditions=[SCHEDULED, {"type": "Ready"}])
        ),
        write(6, "kubectl", {**POD, "metadata": {**POD["metadata"], "uid": "other"}}),
    ]
    mismatches = [
        "status.phase: expected 'Running', found 'Failed'",
        "status.reason: expected 'y', found 'x'",
        "status.(podIP == null): expected True, found False",
        "status.(conditions[?type == 'PodScheduled'].[status])[0][0]: expected 'False', found 'True'",
        "status.(conditions[?type=='PodScheduled'].status | [0]): expected 'False', found 'True'",
        "metadata.name: expected 'b', found 'a'",
        "status.startTime: expected an object, found nothing",
        "it cannot be read",
    ]

    assert [
        text.partition(" (")[2] if " (" in text else text
        for text in attributed(log[3].value, mismatches, log)
    ] == [
        "written by kube-controller-manager 1.35 at revision 3, before by kubelet/n 1.35 at revision 2)",
        "written by kubelet/n 1.35 at revision 2)",
        "written by kubelet/n 1.36 at revision 5, before by kube-scheduler 1.35 at revision 4)",
        "written by kube-scheduler 1.35 at revision 4)",
        "written by kube-scheduler 1.35 at revision 4)",
        "written by the scenario through kube-apiserver 1.36 at revision 1)",
        "the object was last written by kubelet/n 1.36 at revision 5)",
        "it cannot be read",
    ]
    assert last_written(POD, log) == " (last written by kubelet/n 1.36 at revision 5)"


def test_a_pod_that_should_wait_is_laid_to_who_bound_it():
    """The kubelet that runs such a pod does as it is asked."""
    bound = {**pod(phase="Running"), "spec": {"nodeName": "n"}}
    log = [
        write(1, "kubeskew 0.1", pod(phase="Pending"), "create"),
        write(2, "kube-scheduler 1.36", {**bound, "status": {"phase": "Pending"}}),
        write(3, "kubelet/n 1.36", bound),
    ]
    mismatch = "status.phase: expected 'Pending', found 'Running'"
    ran = "written by kubelet/n 1.36 at revision 3"

    assert attributed(bound, [mismatch], log) == [
        f"{mismatch} (bound to n by kube-scheduler 1.36 at revision 2, {ran})"
    ]


@pytest.mark.parametrize("last", ["kube-apiserver 1.36", "kubectl"])
@pytest.mark.parametrize("deleted", [True, False])
def test_what_deletions_should_have_changed_is_laid_to_who_wrote_it_before(last: str, *, deleted: bool):
    """An API server adds to what is used when objects are made; to take it back is the controller's."""
    log = [
        write(1, "kubeskew 0.1", pod(used="0"), "create"),
        write(2, "kube-controller-manager 1.36", pod(used="1")),
        write(3, last, pod(used="2")),
    ]
    gone = {**POD, "metadata": {**POD["metadata"], "name": "b", "uid": "2"}}
    log += [write(4, "kubelet/n 1.36", gone, "delete")] if deleted else []
    mismatch = "status.used: expected '0', found '2'"
    before = "kube-controller-manager 1.36 at revision 2"

    assert attributed(log[2].value, [mismatch], log) == [
        f"{mismatch} (left so by {before}, though objects were deleted, written by {last} at revision 3)"
        if deleted and last.startswith("kube-apiserver")
        else f"{mismatch} (written by {last} at revision 3, before by {before})"
    ]


def test_who_runs_a_pod_answers_for_its_log():
    """The kubelet comes first, but not where the pod has a claim that is not reserved for it."""
    spec = {"resourceClaims": [{"name": "d", "resourceClaimName": "c"}], "nodeName": "n"}
    claim: dict[str, Any] = {"kind": "ResourceClaim", "metadata": {"namespace": "t", "name": "c", "uid": "9"}}
    given = {"allocation": {"devices": {"results": [{"device": "gpu-0"}]}}}
    reserved = {**given, "reservedFor": [{"resource": "pods", "name": "a", "uid": "1"}]}
    claims = "resourceclaims.resource.k8s.io"
    log = [
        write(1, "kube-scheduler 1.35", {**claim, "status": given}, resource=claims),
        write(2, "kube-scheduler 1.36", {**POD, "spec": spec}),
        write(3, "kubelet/n 1.36", {**POD, "spec": spec, "status": {"phase": "Running"}}),
    ]
    placed = "Pod a bound to n by kube-scheduler 1.36 at revision 2, its claim c"
    by = "given gpu-0 by kube-scheduler 1.35 at revision 1"

    assert (
        running(log, NodeRecords(), "t", "a") == f"{placed} not reserved for it, {by}, run by kubelet/n 1.36"
    )
    log.append(write(4, "kube-scheduler 1.36", {**claim, "status": reserved}, resource=claims))
    assert running(log, NodeRecords(), "t", "a") == f"run by kubelet/n 1.36, {placed} {by}"


@pytest.mark.parametrize(
    ("asked", "held", "changed"),
    [
        ("x", "gpu-0", ""),
        ("x", "gpu-7", ("had gpu-7 inside by CDI device d/claim=x, and gpu-0 is allocated to "
            "ResourceClaim t/c (prepared by d 1.35), ")),
        ("y", "gpu-0", ("had d/claim=y inside, and d/claim=x is prepared for its requests "
            "(injected by kubelet/n 1.36), ")),
    ],
)  # fmt: skip
def test_who_put_another_device_into_a_container_comes_first(asked: str, held: str, changed: str):
    """The driver is named whose CDI device holds another device, the kubelet that asked for another one."""
    use = {"containers": [{"name": "b", "resources": {"claims": [{"name": "d"}]}}], "nodeName": "n"}
    spec = {**use, "resourceClaims": [{"name": "d", "resourceClaimName": "c"}]}
    result = {"request": "r", "driver": "d", "pool": "p", "device": "gpu-0"}
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": "a", "uid": "1"}],
    }
    claim = {
        "kind": "ResourceClaim",
        "metadata": {"namespace": "t", "name": "c", "uid": "9"},
        "status": status,
    }
    log = [
        ComponentChange(0, time(0), "driver/d", "started", "1.35", ""),
        ComponentChange(0, time(0), "kubelet/n", "started", "1.36", ""),
        write(1, "kube-scheduler 1.36", claim, resource="resourceclaims.resource.k8s.io"),
        write(2, "kubelet/n 1.36", {**POD, "spec": spec}),
    ]
    device = {"pool": "p", "device": "gpu-0", "requests": ["r"], "cdiIDs": ["d/claim=x"]}
    call = DriverCall(time(3), "n", "d", "NodePrepareResources", "t", "c", "9", devices=[device])
    variables = {"d_r": held}
    cdi = f"d/claim={asked}"
    started = ContainerEvent(
        *(time(4), "n", "1", "b", "id", "started", [cdi], [InjectedDevice(cdi, variables)], variables)
    )
    elsewhere = replace(started, pod_uid="2", env={"d_r": "gpu-9"})

    found = running(log, NodeRecords([call], [started, elsewhere]), "t", "a")
    assert found.startswith(
        f"container b of Pod t/a {changed}run by kubelet/n 1.36" if changed else "run by kube"
    )


def event(second: int, uid: str, reason: str, by: str, kind: str = "Warning") -> Write:
    about = {"kind": "Pod", "name": "a", "uid": uid}
    value = {"metadata": {"namespace": "t", "name": f"e{second}", "uid": f"e{second}"}, "type": kind}
    return write(
        second, by, {**value, "reason": reason, "message": "m", "involvedObject": about}, "create", "events"
    )


def test_warnings_of_components_are_reported():
    """The last warning of each reason since a revision; not of what is gone, and no normal events."""
    gone = {**POD, "metadata": {**POD["metadata"], "uid": "2"}}
    log = [
        event(1, "1", "FailedScheduling", "kube-scheduler 1.35"),
        event(3, "1", "FailedScheduling", "kube-scheduler 1.35"),
        event(4, "1", "FailedScheduling", "kube-scheduler 1.36"),
        event(5, "1", "Pulled", "kubelet/n 1.36", "Normal"),
        event(6, "2", "Failed", "kubelet/n 1.36"),
        write(7, "kubelet/n 1.36", gone, "delete"),
        event(8, "1", "FailedPrepare", "kubelet/n 1.36"),
    ]

    assert warnings(log, "t", 2) == [
        ("1", "FailedScheduling of Pod a: m (written by kube-scheduler 1.36 at revision 4)"),
        ("1", "FailedPrepare of Pod a: m (written by kubelet/n 1.36 at revision 8)"),
    ]
    assert warnings(log, "other", 2) == []


def test_components_that_failed_and_are_not_back_are_reported():
    """A component that was started again is not reported; a fault of it is no start."""
    log = [
        ComponentChange(1, time(1), "kubelet/n", "started", "1.27.0", ""),
        ComponentChange(2, time(2), "kubelet/n", "crashed", "1.27.0", "", "late: crash after"),
        ComponentChange(2, time(3), "kubelet/n", "failed", "1.27.0", "", "checkpoint is corrupted"),
        ComponentChange(2, time(4), "kubelet/n", "fault-cleared", "1.27.0", "", "late: crash after"),
    ]
    again = ComponentChange(2, time(5), "kubelet/n", "started", "1.28.0", "")
    forked = ComponentChange(2, time(5), "", "forked", "", "")
    failed = "kubelet/n 1.27.0 failed: checkpoint is corrupted"

    assert failures(log) == [failed]
    assert background(log, "Pod", "t", "", 0, ()) == f"; {failed}"
    assert failures([*log, again]) == []
    assert failures([*log, forked]) == []


def test_warnings_of_what_is_lacking_are_reported_first_of_all():
    """The warnings of the object that is lacking are among the few that are shown, though others are
    newer."""
    log = [event(second, str(second), "FailedScheduling", "kube-scheduler 1.36") for second in (1, 2, 3)]

    assert [uid for uid, _ in warnings(log, "t", 0)] == ["2", "3"]
    assert [uid for uid, _ in warnings(log, "t", 0, {"metadata": {"uid": "1"}})] == ["3", "1"]


def test_cdi_devices_that_are_not_there_are_laid_to_the_driver():
    """The kubelet complains of what the driver of the pod's devices named and did not write."""
    spec = {"resourceClaims": [{"name": "d", "resourceClaimName": "c"}], "nodeName": "n"}
    claim: dict[str, Any] = {"kind": "ResourceClaim", "metadata": {"namespace": "t", "name": "c", "uid": "9"}}
    given = {"allocation": {"devices": {"results": [{"device": "gpu-0", "driver": "d.example.com"}]}}}
    failed = event(3, "1", "Failed", "kubelet/n 1.36")
    text = "Error: unresolvable CDI devices vendor.com/class=one"
    written = "written by kubelet/n 1.36 at revision 3"
    log = [
        write(
            1, "kube-scheduler 1.36", {**claim, "status": given}, resource="resourceclaims.resource.k8s.io"
        ),
        write(2, "kube-scheduler 1.36", {**POD, "spec": spec}),
        replace(failed, value={**failed.value, "message": text}),
    ]

    assert warnings(log, "t", 0) == [
        (
            "1",
            f"Failed of Pod a: {text} (CDI devices of d.example.com, {written})",
        )
    ]


def test_who_placed_a_pod_is_reported():
    """The authors of a pod's binding and of its claims' allocations and reservations are named."""
    spec = {"resourceClaims": [{"name": "d", "resourceClaimName": "c"}]}
    bound = {**POD, "spec": {**spec, "nodeName": "n"}}
    claim: dict[str, Any] = {"kind": "ResourceClaim", "metadata": {"namespace": "t", "name": "c", "uid": "9"}}
    given = {"allocation": {"devices": {"results": [{"device": "gpu-0"}]}}}
    reserved = {**given, "reservedFor": [{"resource": "pods", "name": "a", "uid": "1"}]}
    claims = "resourceclaims.resource.k8s.io"
    log = [
        write(1, "kubectl", {**POD, "spec": spec}, "create"),
        write(2, "kubectl", claim, "create", claims),
        write(3, "kube-scheduler 1.35", {**claim, "status": given}, resource=claims),
        write(4, "kube-scheduler 1.36", bound),
        write(5, "kubelet/n 1.36", {**bound, "status": {"phase": "Pending"}}),
    ]
    where = "Pod a bound to n by kube-scheduler 1.36 at revision 4"

    assert placing(log[:3], "1") == ""
    assert placing(log, "1") == (
        f"{where}, its claim c not reserved for it, given gpu-0 by kube-scheduler 1.35 at revision 3"
    )
    log.append(write(6, "kube-scheduler 1.36", {**claim, "status": reserved}, resource=claims))
    assert placing(log, "1") == f"{where}, its claim c given gpu-0 by kube-scheduler 1.35 at revision 3"
    log.append(write(7, "kube-controller-manager 1.36", claim, resource=claims))
    assert placing(log, "1") == where


@pytest.mark.parametrize(
    ("published", "taint"),
    [
        ([(1, []), (2, [TAINT])], ", 3.0 s after gpu-0 was tainted by d.example.com 1.35 at revision 2"),
        ([(1, [TAINT]), (2, [TAINT])], ", 4.0 s after gpu-0 was tainted by d.example.com 1.35 at revision 1"),
        ([(1, [TAINT]), (2, [])], ""),
        ([(1, []), (6, [TAINT])], ""),
    ],
)
def test_a_taint_of_a_device_that_was_given_is_reported(
    published: Sequence[tuple[int, list[Any]]], taint: str
):
    """A claim's devices that were tainted when they were given are named, with who has tainted them since
    when; taints that were taken back, or came later, are not."""
    device = {"driver": "d.example.com", "pool": "n", "device": "gpu-0"}
    bound = {**POD, "spec": {"nodeName": "n", "resourceClaims": [{"name": "d", "resourceClaimName": "c"}]}}
    claim = {
        "kind": "ResourceClaim",
        "metadata": {"namespace": "t", "name": "c", "uid": "9"},
        "status": {
            "allocation": {"devices": {"results": [device]}},
            "reservedFor": [{"resource": "pods", "name": "a", "uid": "1"}],
        },
    }
    scheduler = "kube-scheduler 1.35"
    log = [
        write(5, scheduler, claim, resource="resourceclaims.resource.k8s.io"),
        write(7, scheduler, bound),
    ]
    for revision, taints in published:
        spec = {
            "driver": "d.example.com",
            "pool": {"name": "n"},
            "devices": [{"name": "gpu-0", "taints": taints}],
        }
        value = {
            "kind": "ResourceSlice",
            "metadata": {"namespace": "", "name": "s", "uid": "3"},
            "spec": spec,
        }
        log.append(write(revision, "d.example.com 1.35", value, resource="resourceslices.resource.k8s.io"))
    log.sort(key=lambda each: each.revision)

    assert placing(log, "1").endswith(f"given gpu-0 by kube-scheduler 1.35 at revision 5{taint}")


def test_deletions_are_reported():
    """The authors of a deletion's request and of the deletion are named, since a revision or for one name."""
    marked = {**POD, "metadata": {**POD["metadata"], "deletionTimestamp": "x"}}
    log = [
        write(1, "kube-scheduler 1.36", POD, "create"),
        write(2, "kube-controller-manager 1.36", marked),
        write(3, "kubelet/n 1.36", marked, "delete"),
    ]
    deletion = (
        "Pod a deleted by kubelet/n 1.36 at revision 3, "
        "to be deleted as kube-controller-manager 1.36 wrote at revision 2"
    )

    assert deletions(log, "Pod", "t", "", 2) == [deletion]
    assert deletions(log, "Pod", "t", "", 4) == []
    assert deletions(log, "Pod", "t", "a", 4) == [deletion]
    assert deletions(log, "Pod", "other", "", 2) == []
    assert deletions(log, "Node", "t", "", 2) == []


@pytest.mark.looptime
async def test_a_failed_assertion_names_the_writer():
    """An assertion's failure says who wrote what was found."""
    control = Control()
    made = await control.client().create(PODS, {**POD, "status": {"phase": "Failed"}}, "t")
    control.written = [write(7, "kubelet/n 1.35", made)]
    expected = "{apiVersion: v1, kind: Pod, metadata: {name: a}, status: {phase: Running}}"
    result = await run(f"\n  - name: one\n    try: [{{assert: {{resource: {expected}}}}}]\n", control)

    assert result.failure == (
        "one: assert: expected a Pod as asserted; found Pod t/a: status.phase: expected 'Running', "
        "found 'Failed' (written by kubelet/n 1.35 at revision 7)"
    )
