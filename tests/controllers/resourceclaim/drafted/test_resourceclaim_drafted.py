"""Tests the claim controller of 1.25+kep3063: claims from templates inside of pods, and lost reservations."""

import pytest
from prometheus_client import generate_latest

from kubeskew.apimachinery.client.refs import EVENTS, PODS, dra_refs
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.versions import Version
from kubeskew.controllers.resourceclaim.drafted.controller import DraftedClaimController

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

DRAFT = Version(25, "kep3063")
CLAIMS = dra_refs(DRAFT).claims
SPEC = {"resourceClassName": "acme-gpu", "parameters": {"memory": "2Gi"}, "allocationMode": "Delayed"}


@pytest.fixture
async def cluster(make_cluster):
    return make_cluster(DRAFT)


def pod(name="p", **metadata):
    template = {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": SPEC}
    claims = [{"name": "gpu", "template": template}]
    return {"metadata": {"name": name, "namespace": "ns", **metadata}, "spec": {"resourceClaims": claims}}


def user(of, **changed):
    metadata = of["metadata"]
    reference = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
    return {**reference, **changed}


async def events(cluster):
    return [event["message"] for event in (await cluster.client.list(EVENTS, "ns"))["items"]]


async def metrics(cluster):
    return generate_latest(cluster.context.registry).decode()


async def test_a_template_in_a_pod_becomes_a_claim_of_the_pod(cluster):
    """The claim is named pod and entry, is the pod's, and has the template's labels, annotations and spec."""
    made = await cluster.client.create(PODS, pod())
    await cluster.start(DraftedClaimController)
    await cluster.quiet()
    (claim,) = (await cluster.client.list(CLAIMS, "ns"))["items"]

    assert claim["apiVersion"] == "cdi.k8s.io/v1alpha1"
    assert claim["metadata"]["name"] == "p-gpu"
    assert (claim["metadata"]["labels"], claim["metadata"]["annotations"]) == ({"a": "b"}, {"c": "d"})
    assert claim["metadata"]["ownerReferences"] == [user(made, controller=True, blockOwnerDeletion=True)]
    assert claim["spec"] == SPEC
    text = await metrics(cluster)
    assert "resource_controller_create_total 1.0" in text
    assert "resource_controller_create_failures_total 0.0" in text


async def test_a_deleted_claim_is_made_again_and_a_deleted_pod_gets_none(cluster):
    """Only a pod that lives on needs its claim."""
    await cluster.client.create(PODS, pod())
    await cluster.client.create(PODS, pod("leaving", deletionTimestamp="2022-09-01T00:00:00Z"))
    await cluster.start(DraftedClaimController)
    await cluster.quiet()
    (claim,) = (await cluster.client.list(CLAIMS, "ns"))["items"]
    await cluster.client.delete(CLAIMS, "p-gpu", "ns")
    await cluster.quiet()
    (again,) = (await cluster.client.list(CLAIMS, "ns"))["items"]

    assert claim["metadata"]["name"] == again["metadata"]["name"] == "p-gpu"
    assert claim["metadata"]["uid"] != again["metadata"]["uid"]


async def test_a_foreign_claim_of_the_name_is_not_used(cluster):
    """The pod gets an event, and its claim as soon as the other one is gone."""
    foreign = {"metadata": {"name": "p-gpu", "namespace": "ns"}, "spec": {"resourceClassName": "other"}}
    before = await cluster.client.create(CLAIMS, foreign)
    await cluster.client.create(PODS, pod())
    await cluster.start(DraftedClaimController)
    await cluster.quiet()

    assert await cluster.client.get(CLAIMS, "p-gpu", "ns") == before
    assert (await events(cluster))[0] == (
        "PodResourceClaim gpu: ResourceClaim ns/p-gpu was not created for pod ns/p (pod is not owner)"
    )

    await cluster.client.delete(CLAIMS, "p-gpu", "ns")
    await cluster.quiet()

    assert (await cluster.client.get(CLAIMS, "p-gpu", "ns"))["spec"] == SPEC


async def test_a_claim_that_is_handed_to_the_pod_is_used(cluster):
    """Someone who mends a cluster by hand gives a claim of the name to the pod as its owner."""
    made = await cluster.client.create(PODS, pod())
    owners = [user(made, controller=True)]
    metadata = {"name": "p-gpu", "namespace": "ns", "ownerReferences": owners}
    given = await cluster.client.create(CLAIMS, {"metadata": metadata, "spec": {"resourceClassName": "x"}})
    await cluster.start(DraftedClaimController)
    await cluster.quiet()

    assert await cluster.client.get(CLAIMS, "p-gpu", "ns") == given
    assert await events(cluster) == []


async def test_a_failure_is_reported_counted_and_tried_again(cluster):
    """The event names the entry and the error; the claim is made when the server lets it."""
    left = [1]

    def outage(request):
        if request.method == "POST" and "resourceclaims" in request.target and left[0]:
            left[0] -= 1
            return StatusError(403, "Forbidden", "exceeded quota")
        return None

    cluster.server.outage = outage
    await cluster.client.create(PODS, pod())
    await cluster.start(DraftedClaimController)
    await cluster.quiet(1)

    assert await events(cluster) == ["PodResourceClaim gpu: create ResourceClaim p-gpu: exceeded quota"]
    assert (await cluster.client.get(CLAIMS, "p-gpu", "ns"))["spec"] == SPEC
    text = await metrics(cluster)
    assert "resource_controller_create_total 2.0" in text
    assert "resource_controller_create_failures_total 1.0" in text


async def test_reservations_of_pods_that_are_gone_are_dropped(cluster):
    """Pods of another uid count as gone; other kinds of users are left alone, and so is the allocation."""
    here = await cluster.client.create(PODS, pod("here"))
    leaving = await cluster.client.create(PODS, pod("leaving"))
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u1"}
    users = [user(here), user(leaving), user(here, uid="former"), user(here, name="never", uid="u2"), job]
    status = {"phase": "Allocated", "driverName": "gpu.acme.com", "userLimit": -1, "reservedFor": users}
    metadata = {"name": "shared", "namespace": "ns"}
    await cluster.client.create(
        CLAIMS, {"metadata": metadata, "spec": {"resourceClassName": "acme-gpu"}, "status": status}
    )
    await cluster.start(DraftedClaimController)
    await cluster.quiet()
    left = (await cluster.client.get(CLAIMS, "shared", "ns"))["status"]

    assert left == {**status, "reservedFor": [user(here), user(leaving), job]}


async def test_a_pod_that_goes_leaves_its_reservation_behind_for_no_longer(cluster):
    """A kubelet that is gone cannot do it."""
    entry = {"name": "gpu", "resourceClaimName": "shared"}
    body = {"metadata": {"name": "p", "namespace": "ns"}, "spec": {"resourceClaims": [entry]}}
    made = await cluster.client.create(PODS, body)
    status = {"phase": "Allocated", "driverName": "d", "userLimit": 1, "reservedFor": [user(made)]}
    metadata = {"name": "shared", "namespace": "ns"}
    await cluster.client.create(CLAIMS, {"metadata": metadata, "spec": {}, "status": status})
    await cluster.start(DraftedClaimController)
    await cluster.quiet()
    before = (await cluster.client.get(CLAIMS, "shared", "ns"))["status"]["reservedFor"]
    await cluster.client.delete(PODS, "p", "ns")
    await cluster.quiet()
    after = (await cluster.client.get(CLAIMS, "shared", "ns"))["status"]

    assert before == [user(made)]
    assert (after["phase"], after.get("reservedFor")) == ("Allocated", None)


async def test_a_missing_class_is_reported_on_immediate_claims(cluster):
    """A missing class is reported again when the claim changes, and when a class goes; delayed or allocated
    claims wait for none.
    """
    classes = dra_refs(DRAFT).device_classes
    await cluster.client.create(classes, {"metadata": {"name": "there"}, "driverName": "d"})

    async def claim(name, class_name, mode="Immediate", phase="Pending"):
        spec = {"resourceClassName": class_name, "allocationMode": mode}
        body = {"metadata": {"name": name, "namespace": "ns"}, "spec": spec, "status": {"phase": phase}}
        return await cluster.client.create(CLAIMS, body)

    first = await claim("lost", "gone")
    await claim("fine", "there")
    await claim("delayed", "gone", "Delayed")
    await claim("allocated", "gone", phase="Allocated")
    await cluster.start(DraftedClaimController)
    await cluster.quiet()
    (event,) = (await cluster.client.list(EVENTS, "ns"))["items"]

    assert (event["type"], event["reason"], event["count"]) == ("Warning", "Failed", 1)
    assert (event["involvedObject"]["kind"], event["involvedObject"]["name"]) == ("ResourceClaim", "lost")
    assert event["message"] == "resource class gone does not exist"

    await cluster.client.update(CLAIMS, {**first, "metadata": {**first["metadata"], "labels": {"a": "b"}}})
    await cluster.quiet()
    (event,) = (await cluster.client.list(EVENTS, "ns"))["items"]
    assert event["count"] == 2

    await cluster.client.delete(classes, "there")
    await cluster.quiet()
    assert (await events(cluster))[1:] == ["resource class there does not exist"]


async def test_an_immediate_claim_that_no_driver_allocates_says_so(cluster):
    """The event names the driver, comes after a while, and again while the claim waits; claims that wait for
    a pod, and those that are allocated or deleted in time, get none.
    """
    classes = dra_refs(DRAFT).device_classes
    await cluster.client.create(classes, {"metadata": {"name": "gpu"}, "driverName": "gpu.example.com"})

    async def claim(name, mode="Immediate"):
        spec = {"resourceClassName": "gpu", "allocationMode": mode}
        body = {"metadata": {"name": name, "namespace": "ns"}, "spec": spec, "status": {"phase": "Pending"}}
        return await cluster.client.create(CLAIMS, body)

    await claim("waiting")
    await claim("delayed", "Delayed")
    served = await claim("served")
    await claim("deleted")
    await cluster.start(DraftedClaimController)
    await cluster.quiet(10)
    assert await events(cluster) == []
    await cluster.client.update(CLAIMS, {**served, "status": {"phase": "Allocated"}}, "status")
    await cluster.client.delete(CLAIMS, "deleted", "ns")

    await cluster.quiet(10)
    (event,) = (await cluster.client.list(EVENTS, "ns"))["items"]
    assert (event["type"], event["reason"], event["count"]) == ("Normal", "ExternalAllocation", 1)
    assert event["involvedObject"]["name"] == "waiting"
    assert "by the resource driver 'gpu.example.com'" in event["message"]

    await cluster.quiet(300)
    (event,) = (await cluster.client.list(EVENTS, "ns"))["items"]
    assert event["count"] == 2


async def test_a_claim_gets_its_driver_once_its_class_comes(cluster):
    """A claim with an event that its class is missing is looked at again when somebody creates the class."""
    spec = {"resourceClassName": "gpu", "allocationMode": "Immediate"}
    await cluster.client.create(CLAIMS, {"metadata": {"name": "c", "namespace": "ns"}, "spec": spec})
    await cluster.start(DraftedClaimController)
    await cluster.quiet(20)
    body = {"metadata": {"name": "gpu"}, "driverName": "gpu.example.com"}
    await cluster.client.create(dra_refs(DRAFT).device_classes, body)
    await cluster.quiet()

    reasons = [event["reason"] for event in (await cluster.client.list(EVENTS, "ns"))["items"]]
    assert reasons == ["Failed", "ExternalAllocation"]
