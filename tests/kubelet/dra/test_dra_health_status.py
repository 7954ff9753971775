"""A pod's status reports the health of its claims' devices."""

import pytest

from kubeskew.kubelet.dra.claims import ClaimCache, ClaimInfo
from kubeskew.kubelet.dra.health import DeviceHealth, HealthCache, add_health
from kubeskew.kubelet.dra.plugin import PreparedDevice

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

DRIVER = "gpu.example.com"


class NoStore:
    """A checkpoint that keeps nothing."""

    def load(self):
        return []

    def store(self, infos):
        pass


@pytest.fixture
def claims():
    """One claim with two devices that the runtime knows by one name, and one that it does not know."""
    shared = (f"{DRIVER}/claim=one",)
    devices = [
        PreparedDevice("pool", "gpu-0", ("a",), shared),
        PreparedDevice("pool", "gpu-1", ("a",), shared),
        PreparedDevice("pool", "gpu-2", ("b",)),
    ]
    cache = ClaimCache(NoStore())
    cache.add(ClaimInfo("default", "c", "u", {"p"}, {DRIVER: devices}))
    return cache


@pytest.fixture
async def health(clock, tmp_path):
    cache = HealthCache(tmp_path / "health", clock)
    cache.update(DRIVER, [DeviceHealth("pool", "gpu-0", "Unhealthy", "hot", seen=clock.monotonic())])
    return cache


def reported(claims, health, *uses, known=(), with_message=True, made=True, by_entry=False):
    entry = {"name": "entry", "resourceClaimTemplateName": "t"}
    resources = {"claims": list(uses)}
    pod = {
        "metadata": {"name": "pod", "namespace": "default", "uid": "p"},
        "spec": {"resourceClaims": [entry], "containers": [{"name": "main", "resources": resources}]},
        "status": {"resourceClaimStatuses": [{"name": "entry", "resourceClaimName": "c"}]} if made else {},
    }
    container = {"name": "main"} | ({"allocatedResourcesStatus": list(known)} if known else {})
    status = {"containerStatuses": [container]}
    add_health(pod, status, claims, health, with_message=with_message, by_entry=by_entry)
    return container.get("allocatedResourcesStatus")


GPU_0 = {"resourceID": f"{DRIVER}/claim=one", "health": "Unhealthy", "message": "hot"}
GPU_2 = {"resourceID": f"{DRIVER}/pool/gpu-2", "health": "Unknown"}


async def test_a_use_of_the_whole_claim_reports_all_its_resources(claims, health):
    """Each once, by the runtime's name for it or by its own."""
    assert reported(claims, health, {"name": "entry"}) == [
        {"name": "claim:entry", "resources": [GPU_0, GPU_2]}
    ]


async def test_a_use_of_a_request_reports_its_devices(claims, health):
    """Under a name of its own; a subrequest stands for its request."""
    assert reported(claims, health, {"name": "entry", "request": "b"}) == [
        {"name": "claim:entry/b", "resources": [GPU_2]}
    ]
    (entry,) = reported(claims, health, {"name": "entry", "request": "a/first"}, with_message=False)
    without = {key: value for key, value in GPU_0.items() if key != "message"}
    assert entry == {"name": "claim:entry/a/first", "resources": [without]}


async def test_what_device_plugins_said_stays(claims, health):
    """Theirs come first."""
    known = {"name": "example.com/nic", "resources": [{"resourceID": "n", "health": "Healthy"}]}
    found = reported(claims, health, {"name": "entry", "request": "b"}, known=[known])
    assert [entry["name"] for entry in found] == ["example.com/nic", "claim:entry/b"]


async def test_nothing_is_reported_where_nothing_is_known(claims, health):
    """No use, no claim yet, no device."""
    assert reported(claims, health) is None
    assert reported(claims, health, {"name": "entry"}, made=False) is None
    assert reported(claims, health, {"name": "entry", "request": "none"}) is None


def restarted(clock, directory):
    """Returns what the next kubelet knows of the health of devices."""
    cache = HealthCache(directory / "health", clock)
    cache.load()
    return cache


async def test_health_outlives_the_kubelet(clock, tmp_path):
    """A restarted kubelet knows the health of devices until it is too old."""
    device = DeviceHealth("pool", "gpu-0", "Unhealthy", "hot", seen=clock.monotonic())
    restarted(clock, tmp_path).update(DRIVER, [device])
    assert restarted(clock, tmp_path).get(DRIVER, "pool", "gpu-0") == ("Unhealthy", "hot")
    await clock.sleep(29)
    assert restarted(clock, tmp_path).get(DRIVER, "pool", "gpu-0") == ("Unhealthy", "hot")
    await clock.sleep(2)
    assert restarted(clock, tmp_path).get(DRIVER, "pool", "gpu-0") == ("Unknown", "")


@pytest.mark.parametrize("content", ["{", "[]", '{"driver": {"Devices": {"a/b": {}}}}'])
async def test_health_that_cannot_be_read_is_unknown(clock, tmp_path, content, caplog):
    """A broken file is logged, and the kubelet starts without it."""
    (tmp_path / "health").write_text(content)
    assert restarted(clock, tmp_path).get(DRIVER, "pool", "gpu-0") == ("Unknown", "")
    assert "Failed to load health checkpoint, proceeding with empty cache" in caplog.text


async def test_a_release_looks_for_claims_by_the_pods_name_for_them(claims, health):
    """A kubelet with bug 134875 finds none that has another name."""
    assert reported(claims, health, {"name": "entry"}, by_entry=True) is None
