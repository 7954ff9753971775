"""Claims made from templates, reserved, deallocated and deleted, at several releases."""

import asyncio

import pytest
from prometheus_client import generate_latest

from kubeskew.apimachinery.client.refs import EVENTS, PODS, dra_refs
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.versions import DEFAULT_VERSION, Version
from kubeskew.controllers.resourceclaim.claims import generate_name
from kubeskew.controllers.resourceclaim.controller import ResourceClaimController

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

REFS = dra_refs(DEFAULT_VERSION)
FINALIZER = "resource.kubernetes.io/delete-protection"


def template(admin=False):
    exactly = {"deviceClassName": "gpu", **({"adminAccess": True} if admin else {})}
    return {
        "metadata": {"name": "t", "namespace": "ns"},
        "spec": {
            "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
        },
    }


def pod(name="p", *, node="", source=None):
    return {
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {
            "nodeName": node,
            "resourceClaims": [{"name": "gpu", **(source or {"resourceClaimTemplateName": "t"})}],
        },
    }


def claim(users=(), owner=None, finalizers=(FINALIZER,)):
    """An allocated claim, reserved for the pods in `users`."""
    metadata = {"name": "c", "namespace": "ns", "finalizers": list(finalizers)}
    if owner:
        metadata["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "Pod", "name": owner["metadata"]["name"],
             "uid": owner["metadata"]["uid"], "controller": True}
        ]  # fmt: skip
    reserved = [
        {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]} for pod in users
    ]
    return {
        "metadata": metadata,
        "spec": {"devices": {"requests": []}},
        "status": {"allocation": {"devices": {"results": []}}, "reservedFor": reserved},
    }


async def the_claim(cluster, refs=REFS):
    found = (await cluster.client.list(refs.claims, "ns"))["items"]
    return found[0] if len(found) == 1 else None


async def has_end(cluster, refs=REFS):
    """The claim is gone."""
    return not (await cluster.client.list(refs.claims, "ns"))["items"]


async def finish(cluster, made, phase="Succeeded"):
    await cluster.client.update(PODS, {**made, "status": {"phase": phase}}, "status")


async def test_a_template_becomes_a_claim_of_the_pod(cluster):
    """Generated name, annotation, owner, the template's metadata, and the name in the pod's status."""
    await cluster.client.create(REFS.claim_templates, template())
    made = await cluster.client.create(PODS, pod())
    await cluster.start(ResourceClaimController)
    found = await cluster.until(lambda: the_claim(cluster))

    assert found["metadata"]["name"].startswith("p-gpu-")
    assert found["metadata"]["labels"] == {"a": "b"}
    assert found["metadata"]["annotations"] == {"c": "d", "resource.kubernetes.io/pod-claim-name": "gpu"}
    assert found["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "p",
            "uid": made["metadata"]["uid"],
            "controller": True,
        }
    ]
    assert found["spec"] == template()["spec"]["spec"]

    await cluster.quiet()
    status = (await cluster.client.get(PODS, "p", "ns"))["status"]

    assert status["resourceClaimStatuses"] == [
        {"name": "gpu", "resourceClaimName": found["metadata"]["name"]}
    ]
    assert await the_claim(cluster)


@pytest.mark.parametrize(
    ("version", "source", "name"),
    [
        pytest.param("1.27", {"source": {"resourceClaimTemplateName": "t"}}, "p-gpu", id="fixed-name"),
        pytest.param("1.30", {"source": {"resourceClaimTemplateName": "t"}}, "p-gpu-", id="nested"),
        pytest.param("1.33", {"resourceClaimTemplateName": "t"}, "p-gpu-", id="v1beta1"),
    ],
)
async def test_each_release_has_its_own_dialect(make_cluster, version, source, name):
    """The claim is made in the release's API version, under its naming, from its shape of pods."""
    version = Version.parse(version)
    refs, cluster = dra_refs(version), make_cluster(version)
    await cluster.client.create(refs.claim_templates, template())
    await cluster.client.create(PODS, pod(source=source))
    await cluster.start(ResourceClaimController)
    found = await cluster.until(lambda: the_claim(cluster, refs))

    assert found["metadata"]["name"].startswith(name)
    assert found["metadata"]["ownerReferences"][0]["blockOwnerDeletion"]
    assert found["apiVersion"] == refs.claims.api_version


async def test_a_missing_template_is_reported_and_waited_for(cluster):
    """A warning on the pod; the claim is made once the template is there."""
    await cluster.client.create(PODS, pod())
    (controller,) = await cluster.start(ResourceClaimController)
    await cluster.quiet(1)
    await controller.recorder.flush()
    events = (await cluster.client.list(EVENTS, "ns"))["items"]
    missing = 'resource claim template "t": resourceclaimtemplate.resource.k8s.io "t" not found'

    assert {(event["reason"], event["message"], event["source"]["component"]) for event in events} == {
        ("FailedResourceClaimCreation", f"PodResourceClaim gpu: {missing}", "resource_claim")
    }

    await cluster.client.create(REFS.claim_templates, template())

    assert await cluster.until(lambda: the_claim(cluster))


async def test_admin_access_needs_its_gate(make_cluster):
    """With the gate off the claim is refused in upstream's words."""
    cluster = make_cluster(Version(35), gates={"DRAAdminAccess": False})
    await cluster.client.create(REFS.claim_templates, template(admin=True))
    await cluster.client.create(PODS, pod())
    await cluster.start(ResourceClaimController)
    await cluster.quiet(1)
    (event,) = (await cluster.client.list(EVENTS, "ns"))["items"]

    assert event["message"] == (
        "PodResourceClaim gpu: admin access is requested, but the feature is disabled"
    )
    assert await the_claim(cluster) is None


@pytest.mark.parametrize(
    ("started_again", "hours", "again"), [(False, 0, False), (True, 0, True), (False, 1.1, True)]
)
async def test_a_claim_deleted_by_mistake_is_made_again(cluster, started_again, hours, again):
    """A claim that is deleted while its pod exists is made again: not by the controller that has created it,
    which takes it for one that its informer is still to learn of, for an hour."""
    await cluster.client.create(REFS.claim_templates, template())
    made = await cluster.client.create(PODS, pod())
    (controller,) = await cluster.start(ResourceClaimController)
    first = await cluster.until(lambda: the_claim(cluster))
    await cluster.quiet()
    if started_again:
        await controller.stop()
        await cluster.start(ResourceClaimController)
        await cluster.quiet()
    await cluster.client.delete(REFS.claims, first["metadata"]["name"], "ns")
    await asyncio.sleep(3600 * hours)
    newest = await cluster.client.get(PODS, "p", "ns")
    await cluster.client.update(PODS, {**newest, "metadata": {**newest["metadata"], "labels": {"a": "b"}}})
    await cluster.quiet()
    second = await the_claim(cluster)

    assert (second is not None) == again
    assert not again or second["metadata"]["uid"] != first["metadata"]["uid"]
    assert second is None or second["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]


@pytest.mark.parametrize(("minor", "claims"), [(36, 2), (37, 1)])
async def test_a_claim_that_no_cache_has_is_asked_for(make_cluster, minor, claims):
    """A claim that a pod's status names, and of which the informer does not know, counts since 1.37; before,
    another one is made (140217)."""
    refs = dra_refs(Version(minor))
    cluster = make_cluster(Version(minor))
    (controller,) = await cluster.start(ResourceClaimController)
    await controller._claims.stop()
    named = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "c"}]}
    made = await cluster.client.create(PODS, {**pod(), "status": named})
    await cluster.client.create(refs.claims, claim(owner=made))
    await cluster.client.create(refs.claim_templates, template())
    await cluster.quiet(60)

    assert len((await cluster.client.list(refs.claims, "ns"))["items"]) == claims


@pytest.mark.parametrize(("minor", "kept"), [(36, 1), (37, 2)])
async def test_names_of_other_claims_in_the_status(make_cluster, minor, kept):
    """A claim that is made again takes the name of another one out of the status until 1.36, which comes back
    without the first (138407); since 1.37 both stay."""
    cluster = make_cluster(Version(minor))
    await cluster.client.create(REFS.claim_templates, template())
    made = pod()
    made["spec"]["resourceClaims"].append({"name": "model", "resourceClaimTemplateName": "t"})
    await cluster.client.create(PODS, made)
    (controller,) = await cluster.start(ResourceClaimController)
    await cluster.quiet()
    await controller.stop()
    found = (await cluster.client.get(PODS, "p", "ns"))["status"]["resourceClaimStatuses"]
    await cluster.client.delete(REFS.claims, found[0]["resourceClaimName"], "ns")
    await cluster.start(ResourceClaimController)
    await cluster.quiet()

    async def names():
        return {
            each["name"]
            for each in (await cluster.client.get(PODS, "p", "ns"))["status"]["resourceClaimStatuses"]
        }

    seen = [await names() for _ in range(20) if await asyncio.sleep(0.07) is None]
    assert len(found) == 2
    assert {len(each) for each in seen} == {kept}
    assert set().union(*seen) == {"gpu", "model"}


async def test_the_last_user_takes_the_allocation_along(cluster):
    """A finished pod loses its reservation; with no users left, allocation and finalizer go."""
    made = await cluster.client.create(PODS, pod(source={"resourceClaimName": "c"}))
    await cluster.client.create(REFS.claims, claim([made]))
    await cluster.start(ResourceClaimController)
    await cluster.quiet()

    assert (await the_claim(cluster))["status"]["reservedFor"]

    await finish(cluster, made)
    await cluster.quiet()
    found = await the_claim(cluster)

    assert "allocation" not in found["status"]
    assert "reservedFor" not in found["status"]
    assert not found["metadata"].get("finalizers")


async def test_other_users_keep_the_allocation(cluster):
    """Only the finished pod's entry goes."""
    one = await cluster.client.create(PODS, pod("one", source={"resourceClaimName": "c"}))
    two = await cluster.client.create(PODS, pod("two", source={"resourceClaimName": "c"}))
    await cluster.client.create(REFS.claims, claim([one, two]))
    await cluster.start(ResourceClaimController)
    await cluster.client.delete(PODS, "one", "ns")
    await cluster.quiet()
    found = await the_claim(cluster)

    assert [user["name"] for user in found["status"]["reservedFor"]] == ["two"]
    assert found["status"]["allocation"]
    assert found["metadata"]["finalizers"] == [FINALIZER]


async def test_an_unknown_pod_is_looked_up_before_it_loses_its_reservation(cluster):
    """A pod replaced by one of the same name while nobody watched loses it, a running one does not."""
    kept = await cluster.client.create(PODS, pod("kept", source={"resourceClaimName": "c"}))
    gone = {"metadata": {"name": "gone", "uid": "u"}}
    await cluster.client.create(REFS.claims, claim([kept, gone]))
    await cluster.start(ResourceClaimController)
    await cluster.quiet()
    found = await the_claim(cluster)

    assert [user["name"] for user in found["status"]["reservedFor"]] == ["kept"]


@pytest.mark.parametrize(("version", "goes"), [("1.34", False), ("1.35", True)])
async def test_the_claim_for_extended_resources_goes_with_its_finished_pod(make_cluster, version, goes):
    """Since 1.35 the pod's status leads to it; before, devices stay taken until the pod is deleted."""
    cluster = make_cluster(Version.parse(version))
    bare = pod()
    del bare["spec"]["resourceClaims"]
    mappings = [{"containerName": "c", "resourceName": "example.com/gpu", "requestName": "r"}]
    status = {"extendedResourceClaimStatus": {"resourceClaimName": "c", "requestMappings": mappings}}
    made = await cluster.client.create(PODS, {**bare, "status": status})
    await cluster.client.create(REFS.claims, claim([made], owner=made))
    await cluster.start(ResourceClaimController)
    await cluster.quiet()
    await cluster.client.update(PODS, {**made, "status": {**status, "phase": "Failed"}}, "status")
    await cluster.quiet(1)

    assert await has_end(cluster) is goes


@pytest.mark.parametrize("end", ["Succeeded", "gone"])
async def test_a_finished_pod_and_the_claim_it_names_are_looked_at_once(cluster, caplog, end):
    """Each leads to the other; that must come to an end, also while the claim is still allocated."""
    made = await cluster.client.create(PODS, pod(source={"resourceClaimName": "c"}))
    await cluster.client.create(REFS.claims, claim([made]))
    await cluster.start(ResourceClaimController)
    if end == "gone":
        await cluster.client.delete(PODS, "p", "ns", grace_period=0)
    else:
        await finish(cluster, made, end)

    async def freed():
        found = await the_claim(cluster)
        return not found["status"].get("allocation")

    assert await cluster.until(freed)
    assert not caplog.records


async def test_a_deleted_claim_without_users_is_let_go(cluster):
    """Deletion waits for the users, not longer."""
    await cluster.client.create(REFS.claims, claim())
    await cluster.start(ResourceClaimController)
    await cluster.client.delete(REFS.claims, "c", "ns")

    assert await cluster.until(lambda: has_end(cluster))


async def test_a_claim_in_use_outlives_its_deletion(cluster):
    """While a pod uses the claim, the finalizer stays."""
    made = await cluster.client.create(PODS, pod(source={"resourceClaimName": "c"}))
    await cluster.client.create(REFS.claims, claim([made]))
    await cluster.start(ResourceClaimController)
    await cluster.client.delete(REFS.claims, "c", "ns")
    await cluster.quiet()

    assert (await the_claim(cluster))["metadata"]["deletionTimestamp"]

    await cluster.client.delete(PODS, "p", "ns")

    assert await cluster.until(lambda: has_end(cluster))


async def test_a_pod_bound_by_hand_gets_its_reservation(cluster):
    """With a node name and an allocated claim, the controller reserves what the scheduler would have."""
    await cluster.client.create(REFS.claims, claim(finalizers=()))
    made = await cluster.client.create(PODS, pod(node="n", source={"resourceClaimName": "c"}))
    await cluster.start(ResourceClaimController)
    await cluster.quiet()

    assert (await the_claim(cluster))["status"]["reservedFor"] == [
        {"resource": "pods", "name": "p", "uid": made["metadata"]["uid"]}
    ]


@pytest.mark.parametrize("bug", [True, False])
async def test_a_pod_that_is_done_gets_a_reservation_back(make_cluster, bug):
    """A claim that somebody else keeps allocated is reserved and released again without end (141274)."""
    cluster = make_cluster(bugs={"k8s-141274": bug})
    runs = await cluster.client.create(PODS, pod("runs", node="n", source={"resourceClaimName": "c"}))
    ends = await cluster.client.create(PODS, pod("ends", node="n", source={"resourceClaimName": "c"}))
    await cluster.client.create(REFS.claims, claim([runs, ends]))
    await cluster.start(ResourceClaimController)
    before = int((await the_claim(cluster))["metadata"]["resourceVersion"])
    await cluster.client.update(PODS, {**ends, "status": {"phase": "Succeeded"}}, "status")
    for _ in range(500):
        await asyncio.sleep(0)
    after = int((await the_claim(cluster))["metadata"]["resourceVersion"])

    assert (after - before > 10) is bug


async def test_a_rejected_claim_is_reported_with_the_reason(cluster):
    """The server's refusal reaches the pod's events and the metric."""

    def refuse(request):
        if request.method == "POST" and "resourceclaims" in request.target:
            return StatusError(403, "Forbidden", "exceeded quota")
        return None

    cluster.server.outage = refuse
    await cluster.client.create(REFS.claim_templates, template())
    await cluster.client.create(PODS, pod())
    await cluster.start(ResourceClaimController)
    await cluster.quiet(1)
    (event,) = (await cluster.client.list(EVENTS, "ns"))["items"]
    text = generate_latest(cluster.context.registry).decode()

    assert event["message"] == "PodResourceClaim gpu: create ResourceClaim : exceeded quota"
    assert 'resourceclaim_controller_creates_total{admin_access="false",status="failure"}' in text


@pytest.mark.parametrize(
    ("version", "line"),
    [
        ("1.33", "resourceclaim_controller_allocated_resource_claims 1.0"),
        ("1.34", 'resourceclaim_controller_resource_claims{admin_access="false",allocated="true"} 1.0'),
        (
            "1.35",
            'resourceclaim_controller_resource_claims{admin_access="false",allocated="true",source=""} 1.0',
        ),
        ("1.37", 'dynamic_resource_allocation_resource_claims{admin_access="false",allocated="true"'),
    ],
)
async def test_metrics_have_the_names_of_the_release(make_cluster, version, line):
    """Claims are counted under upstream's names."""
    version = Version.parse(version)
    cluster = make_cluster(version)
    await cluster.client.create(dra_refs(version).claims, claim())
    await cluster.start(ResourceClaimController)

    lines = generate_latest(cluster.context.registry).decode().splitlines()

    assert any(found.startswith(line) and found.endswith(" 1.0") for found in lines)


@pytest.mark.parametrize(
    ("annotation", "source"),
    [
        ({}, ""),
        ({"resource.kubernetes.io/pod-claim-name": "gpu"}, "resource_claim_template"),
        ({"resource.kubernetes.io/extended-resource-claim": "true"}, "extended_resource"),
        ({"resource.kubernetes.io/extended-resource-claim": "p"}, ""),
    ],
)
async def test_metrics_show_who_made_claims(cluster, annotation, source):
    """By annotation; the values have underscores, where KEP-5004 writes hyphens."""
    made = claim()
    made["metadata"]["annotations"] = annotation
    await cluster.client.create(REFS.claims, made)
    await cluster.start(ResourceClaimController)

    assert f'source="{source}"}} 1.0' in generate_latest(cluster.context.registry).decode()


@pytest.mark.parametrize(
    ("pod_name", "claim_name", "prefix"),
    [
        ("p", "gpu", "p-gpu-"),
        ("p" * 27, "c" * 28, "p" * 27 + "-" + "c" * 28 + "-"),
        ("p" * 63, "c" * 63, "p" * 28 + "-" + "c" * 28),
        ("p" * 200, "gpu", "p" * 55 + "-"),
    ],
)
async def test_long_names_are_cut_in_proportion(pod_name, claim_name, prefix):
    """Something of both parts is left, and at most 57 characters with the hyphen of short names."""
    assert generate_name(pod_name, claim_name) == prefix
