"""I23 device-inside: claims, drivers' answers, and what runtimes put into containers."""

from dataclasses import replace
from datetime import timedelta

import pytest
from history import CLAIMS, History, allocation, at

from kubeskew.conformance.evidence.nodes import ContainerEvent, DriverCall, InjectedDevice
from kubeskew.conformance.invariants.invariant import Tolerance

RUNNING = {"phase": "Running"}

# A pod `p` on n1, whose container `c` asks for claim `a`, of which driver `d` gives gpu-0

CDI = "d/claim=ResourceClaim-a-r"


def claimed(*devices, components=("driver/d", "kubelet/n1"), **result):
    """Returns the log of the pod and its claim."""
    claims = {"resources": {"claims": [{"name": "devices", "request": "r"}]}}
    entry = {"name": "devices", "resourceClaimName": "a"}
    spec = {"nodeName": "n1", "containers": [{"name": "c", **claims}], "resourceClaims": [entry]}
    log = History(*components).write(CLAIMS, "a", status=allocation(*devices, reserved=["p"], **result))
    return log.write("pods", "p", spec=spec, status=RUNNING)


def prepared(*devices, second=3, cdi=CDI, name="a"):
    """Returns the driver's answer for the claim."""
    answer = [{"pool": "p", "device": each, "requests": ["r"], "cdiIDs": [cdi]} for each in devices]
    uid = f"ResourceClaim-{name}"
    return DriverCall(at(second), "n1", "d", "NodePrepareResources", "default", name, uid, devices=answer)


def inside(*devices, cdi=(CDI,), second=4, **env):
    """Returns the start of the container with CDI devices that all show the same devices."""
    variables = {"d_r": ",".join(devices)}
    injected = [InjectedDevice(each, variables) for each in cdi]
    had = {**(variables if cdi else {}), "HOME": "/", **env}
    return ContainerEvent(at(second), "n1", "Pod-p", "c", "id", "started", cdi, injected, had)


def broken(log, call, event, **more):
    calls = [call] if isinstance(call, DriverCall) else call
    return log.broken(at_rest=False, calls=calls, containers=[event], **more)


def test_a_container_has_the_devices_of_its_claims_inside():
    """I23 is kept where the driver prepared what was allocated and the container got that."""
    assert broken(claimed("gpu-0"), prepared("gpu-0"), inside("gpu-0")) == []
    assert broken(claimed("gpu-0", "gpu-1"), prepared("gpu-0", "gpu-1"), inside("gpu-1", "gpu-0")) == []
    assert broken(claimed("gpu-0", request="r/big"), prepared("gpu-0"), inside("gpu-0")) == []


def test_what_a_driver_puts_into_its_cdi_device_is_what_was_allocated():
    """I23 reports a CDI device that holds another device, and which driver prepared it, at which version."""
    assert broken(claimed("gpu-1"), prepared("gpu-1"), inside("gpu-0")) == [
        (
            f"I23: container c of Pod default/p had gpu-0 inside by CDI device {CDI}, and gpu-1 is "
            f"allocated to ResourceClaim default/a (prepared by d 1.36), at {at(4)}"
        )
    ]
    assert broken(claimed("gpu-0", "gpu-1"), prepared("gpu-0", "gpu-1"), inside("gpu-0")) != []


def test_what_a_driver_prepares_is_what_was_allocated():
    """I23 reports a driver's answer with another device, another pool or too few."""
    text = "I23: node n1 has r/p/gpu-0 prepared for ResourceClaim default/a, which is allocated r/p/gpu-1"
    found = broken(claimed("gpu-1"), prepared("gpu-0"), inside("gpu-1"))
    assert found == [f"{text} (prepared by d 1.36), at {at(3)}"]
    assert len(broken(claimed("gpu-0", pool="other"), prepared("gpu-0"), inside("gpu-0"))) == 1
    assert len(broken(claimed("gpu-0", "gpu-1"), prepared("gpu-0"), inside("gpu-0", "gpu-1"))) == 1
    refused = DriverCall(at(3), "n1", "d", "NodePrepareResources", "default", "a", "ResourceClaim-a", "no")
    assert broken(claimed("gpu-1"), [refused, prepared("gpu-1")], inside("gpu-1")) == []


def test_a_driver_answers_with_cdi_devices_of_the_claim():
    """I23 reports a driver whose answer names the CDI device of another claim, or none."""
    log = claimed("gpu-0").write(CLAIMS, "b", status=allocation("gpu-1"))
    others = "d/claim=ResourceClaim-b-r"
    calls = [prepared("gpu-0", cdi=others), prepared("gpu-1", cdi=others, name="b", second=5)]
    wants = "and gpu-0 is allocated to ResourceClaim default/a (prepared by d 1.36)"
    assert broken(log, calls, inside("gpu-1", cdi=[others], second=6)) == [
        f"I23: container c of Pod default/p had gpu-1 inside by CDI device {others}, {wants}, at {at(6)}"
    ]
    none = replace(calls[0], devices=[{**calls[0].devices[0], "cdiIDs": []}])
    assert broken(log, none, inside(cdi=())) == [
        f"I23: container c of Pod default/p had no device inside, {wants}, at {at(4)}"
    ]


@pytest.mark.parametrize(
    ("cdi", "had"), [((), "no CDI device"), (("d/claim=ResourceClaim-b-r",), "d/claim=ResourceClaim-b-r")]
)
def test_a_kubelet_gives_a_container_the_cdi_devices_of_its_requests(cdi, had):
    """I23 reports a container without a CDI device of its claim, or with one of another claim."""
    log = claimed("gpu-0").write(CLAIMS, "b", status=allocation("gpu-1"))
    other = prepared("gpu-1", cdi="d/claim=ResourceClaim-b-r", name="b", second=5)
    event = inside("gpu-1", cdi=cdi, second=6)
    assert broken(log, [prepared("gpu-0"), other], event) == [
        (
            f"I23: container c of Pod default/p had {had} inside, and {CDI} is prepared for its requests "
            f"(injected by kubelet/n1 1.36), at {at(6)}"
        )
    ]


def test_a_container_without_claims_has_no_devices():
    """I23 reports a bystander into which a kubelet puts another pod's CDI device or its variable; what the
    pod's own spec sets may be named as it likes."""
    log, call = claimed("gpu-0"), prepared("gpu-0")
    own = {"env": [{"name": "d_r", "value": "gpu-0"}]}
    for name, container in (("without", {}), ("own", own)):
        spec = {"nodeName": "n1", "containers": [{"name": "c", **container}]}
        log.write("pods", name, spec=spec)
    injected = replace(inside("gpu-0"), pod_uid="Pod-without")
    assert [text.partition(" inside")[0] for text in broken(log, call, injected)] == [
        f"I23: container c of Pod default/without had {CDI}"
    ]
    event = inside(cdi=(), d_r="gpu-0", second=5)
    assert [text.partition(" (")[0] for text in broken(log, call, replace(event, pod_uid="Pod-without"))] == [
        "I23: container c of Pod default/without had d_r=gpu-0 inside, which none of its CDI devices sets"
    ]
    assert broken(log, call, replace(event, pod_uid="Pod-own")) == []


def test_a_runtime_sets_the_variables_of_its_cdi_devices():
    """I23 reports a container whose program has another value than its CDI device sets, or none."""
    texts = broken(claimed("gpu-0"), prepared("gpu-0"), inside("gpu-0", d_r="gpu-7"))
    assert [text.partition(" (")[0] for text in texts] == [
        "I23: container c of Pod default/p had d_r=gpu-7 inside, which none of its CDI devices sets"
    ]
    texts = broken(claimed("gpu-0"), prepared("gpu-0"), replace(inside("gpu-0"), env={"HOME": "/"}))
    assert [text.partition(" (")[0] for text in texts] == [
        "I23: container c of Pod default/p had no d_r inside, which a CDI device of it sets"
    ]


def test_a_container_waits_until_its_claims_are_prepared():
    """I23 reports a container that begins without a call of the driver, unless the allocation skips it."""
    text = "I23: container c of Pod default/p began before d had prepared ResourceClaim default/a"
    found = broken(claimed("gpu-0"), [], inside(cdi=()))
    assert found == [f"{text} (injected by kubelet/n1 1.36), at {at(4)}"]
    skips = {"skipNodeOperations": ["NodePrepareResources"]}
    assert broken(claimed("gpu-0", **skips), [], inside(cdi=())) == []


def test_of_other_peoples_drivers_nothing_is_known():
    """I23 says nothing of a driver that is not kubeskew's: it keeps no log of its calls."""
    assert broken(claimed("gpu-0", components=["kubelet/n1"]), [], inside("gpu-9")) == []


def test_an_extended_resource_shows_in_the_containers_that_are_mapped_to_it():
    """I23 goes by the mappings of the pod's status as it was when the container began."""
    extended = {"resourceClaimName": "a", "requestMappings": [{"containerName": "c", "requestName": "r"}]}
    spec = {"nodeName": "n1", "containers": [{"name": "c"}]}
    log = History("driver/d", "kubelet/n1").write(CLAIMS, "a", status=allocation("gpu-0"))
    log.write("pods", "p", spec=spec, status={"extendedResourceClaimStatus": extended})
    log.now = 9
    log.write("pods", "p", spec=spec, status={})
    assert broken(log, prepared("gpu-0"), inside("gpu-0")) == []
    assert len(broken(log, prepared("gpu-0"), inside(cdi=()))) == 1
    assert broken(log, prepared("gpu-0"), inside(cdi=(), second=12)) == []


def test_a_claim_that_is_allocated_again_is_prepared_again():
    """I23 reports a driver that answers with what the claim had before."""
    log = claimed("gpu-0").write(CLAIMS, "a", status={})
    log.write(CLAIMS, "a", status=allocation("gpu-1"))
    assert broken(log, prepared("gpu-0", second=20), inside("gpu-1", second=21)) != []
    assert broken(log, prepared("gpu-1", second=20), inside("gpu-1", second=21)) == []


def test_devices_are_judged_by_clocks_that_differ():
    """I23 takes no order from times that are closer than the clocks of a run differ."""
    early = [prepared("gpu-0", second=5)]
    assert broken(claimed("gpu-0"), early, inside("gpu-0")) != []
    tolerance = Tolerance(clock_skew=timedelta(seconds=3))
    assert broken(claimed("gpu-0"), early, inside("gpu-0"), tolerance=tolerance) == []
    log = claimed("gpu-0")
    log.now = 5
    log.write(CLAIMS, "a", status={})
    assert broken(log, prepared("gpu-0"), inside("gpu-0"), tolerance=tolerance) == []
    assert broken(log, prepared("gpu-0"), inside(cdi=()), tolerance=tolerance) != []
    twice = [prepared("gpu-0"), prepared("gpu-0", second=5, cdi="d/claim=again")]
    assert broken(claimed("gpu-0"), twice, inside("gpu-0"), tolerance=tolerance) == []
    assert broken(claimed("gpu-0"), twice, inside("gpu-0", cdi=["d/claim=again"]), tolerance=tolerance) == []
    assert broken(claimed("gpu-0"), twice, inside(cdi=()), tolerance=tolerance) != []
    assert broken(claimed("gpu-0"), twice, inside("gpu-0", second=9), tolerance=tolerance) != []


def test_claims_as_kep_3063_drafted_them_are_judged_by_their_cdi_devices():
    """I23 reads bare names in containers, names made of pod and entry, and phases without an allocation."""
    spec = {
        "nodeName": "n1",
        "containers": [{"name": "c", "resources": {"claims": ["a"]}}],
        "resourceClaims": [{"name": "a", "template": {}}],
    }
    status = {"phase": "Allocated", "driverName": "d", "attributes": {"device": "gpu-0"}}
    log = History("driver/d").write(CLAIMS, "p-a", status=status).write("pods", "p", spec=spec)
    answer = [{"pool": "", "device": "", "requests": [], "cdiIDs": [CDI]}]
    call = replace(prepared(name="p-a"), devices=answer)
    assert broken(log, call, inside("gpu-0")) == []
    assert len(broken(log, call, inside(cdi=()))) == 1
    assert len(broken(log, [], inside(cdi=()))) == 1


@pytest.mark.parametrize(
    ("handle", "held", "texts"),
    [
        ({"data": "{}"}, "any", 0),
        ({"structuredData": {"results": [{"namedResources": {"name": "gpu-0"}}]}}, "gpu-0", 0),
        ({"structuredData": {"results": [{"namedResources": {"name": "gpu-0"}}]}}, "gpu-1", 1),
    ],
)
def test_handles_of_classic_claims_are_judged_by_what_they_name(handle, held, texts):
    """I23 compares named resources, and of what a driver's controller wrote the CDI devices alone."""
    spec = {
        "nodeName": "n1",
        "containers": [{"name": "c", "resources": {"claims": [{"name": "devices"}]}}],
        "resourceClaims": [{"name": "devices", "source": {"resourceClaimName": "a"}}],
    }
    status = {"allocation": {"resourceHandles": [{"driverName": "d", **handle}]}}
    log = History("driver/d").write(CLAIMS, "a", status=status).write("pods", "p", spec=spec)
    answer = [{"pool": "", "device": "", "requests": [], "cdiIDs": [CDI]}]
    event = replace(inside(), injected=[InjectedDevice(CDI, {"d": held})], env={"d": held})
    assert len(broken(log, replace(prepared(), devices=answer), event)) == texts
    event = replace(event, cdi_devices=(), injected=(), env={})
    assert len(broken(log, replace(prepared(), devices=answer), event)) == 1
