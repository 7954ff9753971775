"""Service ranges get ready, and stay while addresses of services would lose their last range; in virtual
time."""

import asyncio
from dataclasses import replace

import orjson
import pytest
from in_process_transport import real_cluster

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.client.refs import EVENTS
from kubeskew.apimachinery.conditions import find_condition
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import SUPPORTED, Version
from kubeskew.controllers.manager import CONTROLLERS
from kubeskew.controllers.servicecidrs.controller import FINALIZER, ServiceCIDRController
from kubeskew.controllers.servicecidrs.features import ServiceCIDRFeatures

GATE = "MultiCIDRServiceAllocator"
FEATURES = ServiceCIDRFeatures.of(FeatureGates(Version(36), {}))
RANGES, ADDRESSES = FEATURES.ranges, FEATURES.addresses
READY = "Kubernetes Service CIDR is ready"


def service_cidr(*cidrs, name="r", **metadata):
    return {"metadata": {"name": name, **metadata}, "spec": {"cidrs": [*cidrs]}}


def address(name, family="IPv4", manager="ipallocator.k8s.io"):
    labels = {"ipaddress.kubernetes.io/ip-family": family, "ipaddress.kubernetes.io/managed-by": manager}
    parent = {"resource": "services", "namespace": "ns", "name": "s"}
    return {"metadata": {"name": name, "labels": labels}, "spec": {"parentRef": parent}}


async def fill(cluster, ref, *objects):
    for obj in objects:
        await cluster.client.create(ref, obj)


async def is_gone(cluster, name="r"):
    try:
        await cluster.client.get(RANGES, name)
    except StatusError as error:
        return error.code == 404
    return False


def test_it_runs_where_servers_have_ranges():
    """Releases from 1.29 on have the controller, by its gate."""
    (condition,) = (condition for kind, condition in CONTROLLERS if kind is ServiceCIDRController)
    releases = [version for version in SUPPORTED if version.minor >= 27]  # older ones lack the gate
    on = {each.minor for each in releases if condition.value(FeatureGates(each, {GATE: True}))}
    by_default = {each.minor for each in releases if condition.value(FeatureGates(each, {}))}

    assert on == {each.minor for each in releases if each.minor >= 29}
    assert by_default == {each.minor for each in releases if each.minor >= 33}


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_a_new_range_gets_a_finalizer_and_is_ready(cluster):
    """The range has both at once."""
    await fill(cluster, RANGES, service_cidr("10.0.0.0/16"))
    await cluster.start(ServiceCIDRController)
    await cluster.quiet()
    found = await cluster.client.get(RANGES, "r")
    condition = find_condition(found, "Ready")

    assert found["metadata"]["finalizers"] == [FINALIZER]
    assert (condition["status"], condition["reason"], condition["message"]) == ("True", "", READY)


@pytest.mark.asyncio
@pytest.mark.looptime
@pytest.mark.parametrize(
    ("cidrs", "addresses", "others", "stays"),
    [
        pytest.param(["10.0.0.0/16"], [], [], False, id="no addresses"),
        pytest.param(["10.0.0.0/16"], [address("10.0.0.9")], [], True, id="an address"),
        pytest.param(["10.0.0.0/16"], [address("10.1.0.9")], [], False, id="an address elsewhere"),
        pytest.param(["10.0.0.0/16"], [address("10.0.0.0")], [], False, id="the network's own address"),
        pytest.param(["10.0.0.0/16"], [address("10.0.255.255")], [], False, id="the broadcast address"),
        pytest.param(["fd00::/112"], [address("fd00::ffff", "IPv6")], [], True, id="the last of IPv6"),
        pytest.param(["10.0.0.0/16"], [address("10.0.0.9", manager="mine")], [], False, id="not a service's"),
        pytest.param(["10.0.0.0/16"], [address("10.0.0.9", "IPv6")], [], False, id="of another family"),
        pytest.param(["10.0.0.0/16"], [address("10.0.0.9")], ["10.0.0.0/8"], False, id="contained"),
        pytest.param(["10.0.0.0/16"], [address("10.0.0.9")], ["10.0.0.0/16"], False, id="the same twice"),
        pytest.param(
            ["10.0.0.0/16"], [address("10.0.0.9")], ["10.0.0.0/24"], False, id="a smaller one has it"
        ),
        pytest.param(
            ["10.0.0.0/16"], [address("10.0.9.9")], ["10.0.0.0/24"], True, id="no smaller one has it"
        ),
        pytest.param(
            ["10.0.0.0/16", "fd00::/112"],
            [address("fd00::9", "IPv6")],
            ["10.0.0.0/8"],
            True,
            id="one of two contained",
        ),
    ],
)
async def test_a_deleted_range_stays_while_an_address_has_it_alone(cluster, cidrs, addresses, others, stays):
    """A range goes ten seconds after its deletion, or says why it does not."""
    await fill(cluster, ADDRESSES, *addresses)
    await fill(cluster, RANGES, service_cidr(*cidrs), *(service_cidr(each, name="other") for each in others))
    await cluster.start(ServiceCIDRController)
    await cluster.quiet()
    await cluster.client.delete(RANGES, "r")
    await asyncio.sleep(8)
    condition = find_condition(await cluster.client.get(RANGES, "r"), "Ready")

    assert (condition["status"], condition["reason"]) == (("False", "Terminating") if stays else ("True", ""))

    await asyncio.sleep(4)

    assert await is_gone(cluster) != stays
    if stays:
        assert condition["message"] == (
            "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new "
            "ServiceCIDR"
        )


@pytest.mark.asyncio
@pytest.mark.looptime
@pytest.mark.parametrize("how", ["the address goes", "a larger range comes"])
async def test_what_kept_a_range_lets_it_go(cluster, how):
    """A range that had to stay goes at once when nothing needs it any more, if its ten seconds are over."""
    await fill(cluster, ADDRESSES, address("10.0.0.9"))
    await fill(cluster, RANGES, service_cidr("10.0.0.0/16"))
    await cluster.start(ServiceCIDRController)
    await cluster.quiet()
    await cluster.client.delete(RANGES, "r")
    await asyncio.sleep(60)

    assert not await is_gone(cluster)

    if how == "the address goes":
        await cluster.client.delete(ADDRESSES, "10.0.0.9")
    else:
        await fill(cluster, RANGES, service_cidr("10.0.0.0/8", name="larger"))
    await cluster.quiet()

    assert await is_gone(cluster)


@pytest.mark.asyncio
@pytest.mark.looptime
@pytest.mark.parametrize(("minor", "kept"), [(33, False), (34, True)])
async def test_a_condition_that_is_there_is_kept(make_cluster, minor, kept):
    """Since 1.34 a controller that starts does not apply the same condition again."""
    cluster = make_cluster(Version(minor))
    old = {"type": "Ready", "status": "True", "reason": "", "message": READY}
    old["lastTransitionTime"] = "2020-01-01T00:00:00Z"
    made = await cluster.client.create(RANGES, service_cidr("10.0.0.0/16", finalizers=[FINALIZER]))
    await cluster.client.update(RANGES, {**made, "status": {"conditions": [old]}}, "status")
    await cluster.start(ServiceCIDRController)
    await cluster.quiet()
    found = await cluster.client.get(RANGES, "r")

    assert (find_condition(found, "Ready") == old) == kept


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_a_status_that_is_refused_is_an_event(cluster):
    """The event is a warning about the range, and the status is tried again."""
    refusal = errors.forbidden(RANGES.group_resource, "r", "no")
    cluster.server.outage = lambda request: refusal if "/status" in request.target else None
    await fill(cluster, RANGES, service_cidr("10.0.0.0/16"))
    await cluster.start(ServiceCIDRController)
    await cluster.quiet()
    cluster.server.outage = None
    await asyncio.sleep(2)
    events = (await cluster.client.list(EVENTS))["items"]

    assert {(each["type"], each["reason"], each["message"]) for each in events} == {
        ("Warning", "KubernetesServiceCIDRError", "The ServiceCIDR Status can not be set to Ready=True")
    }
    assert find_condition(await cluster.client.get(RANGES, "r"), "Ready")["status"] == "True"


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("minor", "version"), [(30, "v1alpha1"), (31, "v1beta1"), (32, "v1beta1"), (33, "v1"), (36, "v1")]
)
async def test_the_range_of_a_new_cluster_becomes_ready(minor, version):
    """The server makes it in the version that its release has, and the controller owns its condition."""
    config = {f"networking.k8s.io/{version}": True}
    async with real_cluster(Version(minor), {GATE: True}, started=False, runtime_config=config) as cluster:
        ref = ServiceCIDRFeatures.of(cluster.environment.gates).ranges
        assert ref.version == version
        cluster.controllers = [ServiceCIDRController(replace(cluster.context, used=[]))]
        cluster.informers.start()
        cluster.controllers[0].start()

        async def ready():
            found = await cluster.client.get(ref, "kubernetes")
            condition = find_condition(found, "Ready") or {}
            return found if condition.get("message") == READY else None

        found = await cluster.until(ready)
        managers = {each["manager"]: each for each in found["metadata"]["managedFields"]}
        own = managers["service-cidr-controller"]

        assert found["metadata"]["finalizers"] == [FINALIZER]
        assert (own["operation"], own["subresource"]) == ("Apply", "status")
        assert ("f:reason" in orjson.dumps(own["fieldsV1"]).decode()) == (minor >= 34)
        assert find_condition(found, "Ready")["reason"] == ""
