"""Registration of DRA drivers by release, and when their slices are wiped; in virtual time."""

import asyncio

import pytest

from kubeskew.apimachinery.client.refs import dra_refs
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.dra.features import DRAFeatures
from kubeskew.kubelet.dra.generations import generation_of
from kubeskew.kubelet.dra.health import DeviceHealth, HealthCache, HealthMonitor
from kubeskew.kubelet.dra.plugin import PluginRegistry
from kubeskew.kubelet.dra.plugin_manager import DRAPluginHandler, SliceWiper
from kubeskew.kubelet.plugins.plugin_handler import PluginRefusedError
from kubeskew.kubelet.protocols import dra

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

DRIVER = "gpu.example.com"


class FakeSocketPlugin:
    """A plugin whose connection the test makes and breaks."""

    channel = None

    def __init__(self, driver, endpoint, service):
        self.driver, self.endpoint, self.service = driver, endpoint, service
        self.connected, self.closed = False, False
        self._changed = None

    async def follow_connection(self, changed):
        self._changed = changed
        await asyncio.Event().wait()

    def set(self, connected):
        self.connected = connected
        self._changed()

    async def close(self):
        self.closed = True


class Fixture:
    """A handler with what it stands on."""

    def __init__(self, client, clock, minor, delay):
        self.client, self.slices = client, dra_refs(Version(minor)).slices
        self.registry = PluginRegistry("DRA driver {driver} is not registered")
        self.wiper = SliceWiper(client, clock, self.slices, "node-1", delay)
        rules = generation_of(FeatureGates(Version(minor))).services
        self.handler = DRAPluginHandler(self.registry, self.wiper, rules, FakeSocketPlugin, None)

    async def register(self, endpoint="/a.sock", versions=("v1.DRAPlugin", "v1beta1.DRAPlugin")):
        await self.handler.register(DRIVER, endpoint, versions)
        await asyncio.sleep(0)
        return self.registry.of(DRIVER)[-1]

    async def publish(self):
        body = {"metadata": {"name": "slice"}, "spec": {"driver": DRIVER, "nodeName": "node-1"}}
        await self.client.create(self.slices, body)

    async def has_slices(self):
        return bool((await self.client.list(self.slices))["items"])


@pytest.fixture
async def make(client, clock):
    made = []

    def build(minor=36, delay=30.0):
        made.append(Fixture(client, clock, minor, delay))
        return made[-1]

    yield build
    for fixture in made:
        await fixture.handler.stop()
        await fixture.wiper.stop()


@pytest.mark.parametrize(
    ("minor", "versions", "chosen"),
    [
        (37, ["v1.DRAPlugin", "v1beta1.DRAPlugin"], "v1.DRAPlugin"),
        (36, ["v1beta1.DRAPlugin", "v1.DRAPlugin"], "v1beta1.DRAPlugin"),
        (34, ["other", "v1beta1.DRAPlugin"], "v1beta1.DRAPlugin"),
        (33, ["v1alpha3.Node", "v1beta1.DRAPlugin"], "v1beta1.DRAPlugin"),
        (33, ["v1.DRAPlugin"], "v1alpha3.Node"),
        (32, ["1.0.0"], "v1alpha3.Node"),
        (31, ["v1alpha3.Node", "1.0.0"], "v1alpha3.Node"),
        (31, ["v1.0"], "v1alpha3.Node"),
    ],
)
async def test_the_service_depends_on_the_release(minor, versions, chosen):
    """Since 1.34 the plugin's order counts; before, the kubelet's, and what names none is alpha."""
    assert generation_of(FeatureGates(Version(minor))).services.choose(versions) == chosen


@pytest.mark.parametrize(
    ("minor", "versions", "text"),
    [
        (
            36,
            [],
            (
                f"invalid supported gRPC versions of DRA driver plugin {DRIVER} at endpoint /a.sock: "
                "empty list of supported gRPC services (aka supported versions)"
            ),
        ),
        (
            35,
            ["1.0.0"],
            (
                f"invalid supported gRPC versions of DRA driver plugin {DRIVER} at endpoint /a.sock: "
                'none of services supported by the plugin (["1.0.0"]) are supported by the kubelet '
                '(["v1.DRAPlugin" "v1beta1.DRAPlugin"])'
            ),
        ),
        (
            33,
            [],
            (
                f"invalid versions of plugin {DRIVER}: empty list of supported gRPC services "
                "(aka supported versions)"
            ),
        ),
        (31, [], f"invalid versions of plugin {DRIVER}: empty list for supported versions"),
        (
            31,
            ["v1beta1.DRAPlugin"],
            (
                f"invalid versions of plugin {DRIVER}: none of the versions are supported: could not find a "
                "highest supported version from versions ([v1beta1.DRAPlugin]) reported by this plugin: "
                'could not parse "v1beta1.DRAPlugin" as version'
            ),
        ),
    ],
)
async def test_what_cannot_be_called_is_refused(make, minor, versions, text):
    """In each release's words."""
    with pytest.raises(PluginRefusedError) as caught:
        make(minor).handler.validate(DRIVER, "/a.sock", versions)
    assert str(caught.value) == text


async def test_an_endpoint_is_taken_once(make):
    """Another plugin of the driver cannot take it over; one that left leaves it free."""
    fixture = make()
    first = await fixture.register()
    with pytest.raises(PluginRefusedError, match=f"already registered for DRA driver plugin {DRIVER}$"):
        await fixture.register()
    await fixture.handler.deregister(DRIVER, "/a.sock")
    assert first.closed
    await fixture.register()


async def test_before_1_33_the_newer_plugin_replaces_the_older(make):
    """Before 1.33 a driver has one plugin at a time, and the older's departure does not touch it."""
    fixture = make(32)
    older = await fixture.register("/a.sock")
    newer = await fixture.register("/b.sock")
    await fixture.handler.deregister(DRIVER, "/a.sock")
    assert (older.closed, fixture.registry.of(DRIVER)) == (True, [newer])


async def test_a_connected_plugin_is_preferred_to_a_newer_one(make):
    """The newest that can be called is called."""
    fixture = make()
    older, newer = await fixture.register("/a.sock"), await fixture.register("/b.sock")
    assert fixture.registry.get(DRIVER) is newer
    older.set(True)
    assert fixture.registry.get(DRIVER) is older
    newer.set(True)
    assert fixture.registry.get(DRIVER) is newer


async def test_a_driver_that_left_loses_its_slices_after_30_s(make):
    """Not sooner; one that is back in time keeps them."""
    fixture = make()
    await fixture.publish()
    (await fixture.register()).set(True)
    await fixture.handler.deregister(DRIVER, "/a.sock")
    await asyncio.sleep(25)
    (await fixture.register("/b.sock")).set(True)
    await asyncio.sleep(60)
    assert await fixture.has_slices()
    await fixture.handler.deregister(DRIVER, "/b.sock")
    await asyncio.sleep(29)
    assert await fixture.has_slices()
    await asyncio.sleep(2)
    assert not await fixture.has_slices()


@pytest.mark.parametrize(("minor", "stays"), [(36, False), (33, True)])
async def test_since_1_34_a_lost_connection_counts_as_a_departure(make, minor, stays):
    """A driver whose sockets are there, but not its process."""
    fixture = make(minor)
    await fixture.publish()
    plugin = await fixture.register(versions=["v1beta1.DRAPlugin"])
    plugin.set(True)
    plugin.set(False)
    await asyncio.sleep(20)
    plugin.set(True)
    plugin.set(False)
    await asyncio.sleep(29)
    assert await fixture.has_slices()
    await asyncio.sleep(2)
    assert await fixture.has_slices() == stays


async def test_a_second_plugin_saves_the_slices(make):
    """A rolling update: one of two may go."""
    fixture = make()
    await fixture.publish()
    (await fixture.register("/a.sock")).set(True)
    (await fixture.register("/b.sock")).set(True)
    await fixture.handler.deregister(DRIVER, "/a.sock")
    await asyncio.sleep(100)
    assert await fixture.has_slices()


# -- health


@pytest.fixture
def cache(clock, tmp_path):
    return HealthCache(tmp_path / "dra_health_state", clock)


def health_of(clock, health, device="gpu-0", **more):
    return DeviceHealth("pool", device, health, seen=clock.monotonic(), **more)


async def test_health_holds_for_its_time(clock, cache):
    """30 s, or as long as the driver says; then nothing is known."""
    cache.update(
        DRIVER,
        [health_of(clock, "Healthy"), health_of(clock, "Unhealthy", "gpu-1", message="hot", timeout=60)],
    )
    assert cache.get(DRIVER, "pool", "gpu-1") == ("Unhealthy", "hot")
    await asyncio.sleep(31)
    assert cache.get(DRIVER, "pool", "gpu-0") == ("Unknown", "")
    assert cache.get(DRIVER, "pool", "gpu-1") == ("Unhealthy", "hot")
    cache.clear(DRIVER)
    assert cache.get(DRIVER, "pool", "gpu-1") == ("Unknown", "")


async def test_only_news_is_reported(clock, cache):
    """Health that is the same again is no news; a device that is left out is, once its time is over."""
    both = [health_of(clock, "Healthy"), health_of(clock, "Healthy", "gpu-1")]
    assert cache.update(DRIVER, both) == [("pool", "gpu-0"), ("pool", "gpu-1")]
    assert cache.update(DRIVER, both) == []
    assert cache.update(DRIVER, [health_of(clock, "Unhealthy")]) == [("pool", "gpu-0")]
    await asyncio.sleep(31)
    assert cache.update(DRIVER, [health_of(clock, "Unhealthy")]) == [("pool", "gpu-1")]


async def test_long_messages_and_odd_values_are_cut_to_size(clock, cache):
    """1,024 characters; a negative time is the usual one; an unknown number is Unknown."""
    news = []
    monitor = HealthMonitor(
        cache,
        clock,
        DRAFeatures.of(FeatureGates(Version(37))).health,
        lambda driver, devices: news.extend(devices),
    )
    messages = dra.HEALTH_V1.messages
    device = messages.DeviceIdentifier(pool_name="pool", device_name="gpu-0")
    one = messages.DeviceHealth(device=device, health=7, message="x" * 2000, health_check_timeout_seconds=-1)
    monitor.on_report(DRIVER, [one])
    health, message = cache.get(DRIVER, "pool", "gpu-0")
    assert (health, len(message), message[-4:]) == ("Unknown", 1024, "x...")
    assert news == [("pool", "gpu-0")]


HEALTH_V1, HEALTH_ALPHA = "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"


@pytest.mark.parametrize(
    ("minor", "offered", "version"),
    [
        (34, ["v1.DRAPlugin"], "v1alpha1"),
        (36, ["v1.DRAPlugin"], "v1alpha1"),
        (36, ["v1.DRAPlugin", HEALTH_V1, HEALTH_ALPHA], "v1alpha1"),
        (37, [HEALTH_ALPHA, HEALTH_V1], "v1"),
        (37, [HEALTH_ALPHA], "v1alpha1"),
        (37, ["v1.DRAPlugin"], None),
    ],
)
async def test_which_health_service_is_called(minor, offered, version):
    """First whichever it is, later one that the plugin names, the newest of them."""
    assert DRAFeatures.of(FeatureGates(Version(minor))).health.choose(offered) == version


async def test_before_1_34_nobody_asks_for_health():
    """The gate was for device plugins alone."""
    assert DRAFeatures.of(FeatureGates(Version(33))).health is None
