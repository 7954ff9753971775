"""Device plugins on a node: capacity, allocation, restarts, ends; over real sockets, in real time."""

import asyncio
import tempfile
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from kubeskew.apimachinery.client.refs import NODES
from kubeskew.apimachinery.client.rest import STRATEGIC_PATCH
from kubeskew.kubelet.drivers.example_device_plugin import ExampleDevicePlugin, PluginNode
from kubeskew.kubelet.drivers.switches import parse
from kubeskew.kubelet.protocols import device_plugin, grpc_calls, registration

GPU = "example.com/gpu"
FIVE_MINUTES = 301
CHECKPOINT = "node-1/kubelet/device-plugins/kubelet_internal_checkpoint"


@pytest.fixture
def node(node):
    """The node of conftest, with its sockets where paths are short."""
    with tempfile.TemporaryDirectory(prefix="ks") as directory:
        node.sockets = Path(directory)
        yield node


@pytest.fixture
def directory(node):
    return node.sockets / "node-1" / "device-plugins"


class Plugin:
    """An example plugin of two devices, running."""

    def __init__(self, directory, clock):
        self._node = PluginNode("node-1", directory, 2)
        self.served = ExampleDevicePlugin(GPU, self._node, clock)
        self._task = asyncio.create_task(self.served.run())

    def switch(self, **switches):
        self.served.apply(replace(self._node, switches=parse(switches)))

    async def stop(self):
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@pytest.fixture
async def plugin(node, directory, clock):
    found = Plugin(directory, clock)
    yield found
    await found.stop()


def using(amount=1, name="main", **more):
    limits = {GPU: str(amount)}
    return {"name": name, "image": "nginx", "resources": {"limits": limits, "requests": limits}, **more}


async def published(node, capacity, allocatable):
    """Wait until the Node says so many devices."""

    async def look():
        status = (await node.node())["status"]
        return (status["capacity"].get(GPU), status["allocatable"].get(GPU)) == (capacity, allocatable)

    await node.until(look, 10)


def containers(node, pod="pod-1"):
    return {
        container["container"]: container for container in node.agent.containers() if container["pod"] == pod
    }


def devices(node, pod="pod-1"):
    """Container → its devices, by the environment."""
    return {name: value["env"].get("EXAMPLE_COM_GPU") for name, value in containers(node, pod).items()}


async def rejected(node, name):
    pod = await node.until_pod(lambda status: status.get("phase") == "Failed", name, 10)
    assert pod["status"]["reason"] == "UnexpectedAdmissionError"
    return pod["status"]["message"]


async def ended_and_refused(node, name, phase):
    """The pod was running when its kubelet started, which did not admit it again."""
    pod = await node.until_pod(lambda status: status.get("phase") not in {"Pending", "Running"}, name, 10)
    assert pod["status"]["phase"] == phase
    assert all("terminated" in each["state"] for each in pod["status"]["containerStatuses"])
    reason = "UnexpectedAdmissionError"
    assert pod["status"].get("reason") == (reason if phase == "Failed" else None)
    return [message for why, message in await node.events() if why == reason]


async def test_capacity_follows_the_plugins_list(node, plugin):
    """Capacity counts all devices, allocatable the healthy ones; shrinking and growing shows at once."""
    await node.start()
    await published(node, "2", "2")
    plugin.switch(health={"gpu-0": "Unhealthy"})
    await published(node, "2", "1")
    plugin.switch(devices=3)
    await published(node, "3", "3")


async def test_a_container_gets_what_the_plugin_answers(node, plugin):
    """Environment, device files and mounts, and nothing for the container next to it."""
    await node.start()
    await published(node, "2", "2")
    await node.create(containers=[using(2), {"name": "side", "image": "nginx"}])
    await node.running()
    assert devices(node) == {"main": "gpu-0,gpu-1", "side": None}
    found = containers(node)["main"]
    assert [device["path"] for device in found["devices"]] == ["/dev/gpu-0", "/dev/gpu-1"]
    assert [mount["path"] for mount in found["mounts"]] == [f"/run/{GPU}/gpu-0", f"/run/{GPU}/gpu-1"]
    assert containers(node)["side"]["devices"] == []


async def test_the_containers_own_environment_wins(node, plugin):
    """A variable that the pod sets is not overridden by the plugin."""
    await node.start()
    await published(node, "2", "2")
    await node.create(containers=[using(env=[{"name": "EXAMPLE_COM_GPU", "value": "mine"}])])
    await node.running()
    assert devices(node) == {"main": "mine"}


async def test_a_pod_too_many_is_rejected_until_a_device_is_free(node, plugin):
    """Upstream's reason, message and event; the device of a pod that is gone can be had again."""
    await node.start()
    await published(node, "2", "2")
    await node.create("first", containers=[using(2)])
    await node.running("first")
    await node.create("second", containers=[using(1)])
    why = f"Allocate failed due to requested number of devices unavailable for {GPU}. "
    why += "Requested: 1, Available: 0, which is unexpected"
    assert await rejected(node, "second") == f"Pod was rejected: {why}"
    await node.delete("first")
    await node.gone("first")
    await node.create("third", containers=[using(2)])
    await node.running("third")
    assert ("UnexpectedAdmissionError", why) in await node.events()


async def test_init_containers_leave_their_devices_to_later_ones(node, plugin):
    """An init container's devices are used again; a sidecar keeps its own."""
    await node.start()
    await published(node, "2", "2")
    inits = [using(2, "init", command=["true"]), using(1, "sidecar", restartPolicy="Always")]
    await node.create(containers=[using(1)], initContainers=inits)
    await node.running()
    assert devices(node) == {"init": "gpu-0,gpu-1", "sidecar": "gpu-0", "main": "gpu-1"}


async def test_a_plugin_that_goes_leaves_its_capacity_for_five_minutes(node, plugin, clock):
    """Nothing is allocatable at once; after the grace period there is 0, but the resource stays."""
    await node.start()
    await published(node, "2", "2")
    await plugin.stop()
    await published(node, "2", "0")
    clock.ahead += FIVE_MINUTES
    node.agent._reporter.wake()
    await published(node, "0", "0")
    found = orjson.loads((node.root / CHECKPOINT).read_bytes())
    assert found["Data"]["RegisteredDevices"] == {}


async def test_a_restart_of_the_kubelet_disturbs_nobody(node, plugin, directory):
    """The plugin registers again, running containers keep their devices, what was taken stays taken."""
    await node.start()
    await published(node, "2", "2")
    await node.create(containers=[using(1, name="other", command=["sleep", "1000"]), using(1)])
    await node.until_pod(lambda status: sum(one["ready"] for one in status.get("containerStatuses", ())) == 2)
    before = containers(node)["main"]
    await node.kill()
    await node.start()
    await published(node, "2", "2")
    assert containers(node)["main"] == before
    await node.create("second", containers=[using(1)])
    assert "Requested: 1, Available: 0" in await rejected(node, "second")


async def test_a_container_that_does_not_run_gets_no_device_before_its_plugin_is_back(node, plugin):
    """At its start a kubelet refuses a pod whose container has ended, while the resource has no devices."""
    await node.start()
    await published(node, "2", "2")
    await node.create(containers=[using(1, command=["sh", "-c", "exit 0"], name="again"), using(1)])
    await node.until_pod(lambda status: status.get("containerStatuses"))
    await node.kill()
    await node.start()
    (message,) = await ended_and_refused(node, "pod-1", "Succeeded")
    assert "no healthy devices present; cannot allocate unhealthy devices" in message
    assert devices(node) == {"again": "gpu-0", "main": "gpu-1"}


async def test_without_its_plugin_a_restarted_kubelet_has_nothing_to_give(node, plugin):
    """Capacity is zero, containers that run go on, new pods are rejected."""
    await node.start("1.34")
    await published(node, "2", "2")
    await node.create(containers=[using(1)])
    await node.running()
    await node.stop()
    await plugin.stop()
    await node.start("1.34")
    await published(node, "0", "0")
    await node.create("second", containers=[using(1)])
    why = f"no healthy devices present; cannot allocate unhealthy devices {GPU}"
    assert why in await rejected(node, "second")
    assert (await node.pod())["status"]["phase"] == "Running"
    assert devices(node) == {"main": "gpu-0"}


@pytest.mark.parametrize("version", ["1.34", "1.35", "1.36"])
async def test_plugins_are_not_asked_for_what_is_a_claims(node, plugin, version):
    """Since 1.35 a resource that the pod's status maps to its claim is left alone, even if plugins have
    it."""
    await node.start(version, "DRAExtendedResource=true,DynamicResourceAllocation=true")
    await published(node, "2", "2")
    mapping = {"containerName": "main", "resourceName": GPU, "requestName": "r"}
    status = {"extendedResourceClaimStatus": {"resourceClaimName": "c", "requestMappings": [mapping]}}
    await node.create(containers=[using(1)], status=status)

    async def admitted():
        return bool(node.agent._pods._workers) and not node.agent._pods._waiting

    await node.until(admitted)
    assert bool(node.agent._plugins.devices_of((await node.pod())["metadata"]["uid"], "main")) is (
        version == "1.34"
    )


async def test_an_unhealthy_device_shows_in_the_pods_status(node, plugin):
    """With ResourceHealthStatus, a pod says how its devices are, and when that changes."""
    await node.start("1.36")
    await published(node, "2", "2")
    await node.create(containers=[using(1)])
    await node.running()

    def has_health(health):
        wanted = [{"name": GPU, "resources": [{"resourceID": "gpu-0", "health": health}]}]
        return lambda status: status["containerStatuses"][0].get("allocatedResourcesStatus") == wanted

    await node.until_pod(has_health("Healthy"), seconds=10)
    plugin.switch(health={"gpu-0": "Unhealthy"})
    await node.until_pod(has_health("Unhealthy"), seconds=10)


async def test_a_refusal_of_the_plugin_rejects_the_pod(node, plugin):
    """A plugin's refusal is the pod's message, in Go's words, and the devices stay free."""
    await node.start()
    await published(node, "2", "2")
    plugin.switch(refusePrepare="out of order")
    await node.create(containers=[using(2)])
    why = "Allocate failed due to rpc error: code = Unknown desc = out of order, which is unexpected"
    assert await rejected(node, "pod-1") == f"Pod was rejected: {why}"
    plugin.switch()
    await node.create("second", containers=[using(2)])
    await node.running("second")


async def test_a_node_made_again_does_not_believe_its_old_object(node, clock):
    """Extended resources of an earlier node of the name are zero; what an administrator sets later stays."""
    await node.start()
    await node.until(lambda: node.agent.ready)
    body = {"status": {"capacity": {GPU: "4"}}}
    await node.client.patch(NODES, "node-1", "", body, STRATEGIC_PATCH, subresource="status")
    clock.ahead += FIVE_MINUTES
    node.agent._reporter.wake()
    await published(node, "4", "4")
    await node.stop()
    await node.start()
    await published(node, "4", "4")
    await node.stop()
    node.root = node.root / "another-machine"
    await node.start()
    await published(node, "0", "0")


async def test_a_plugin_may_show_itself_in_the_registry(node, directory):
    """A plugin may register by a socket in the registry, as drivers do, and names its endpoint there."""
    await node.start()
    endpoint = directory / "shown.sock"
    recovered = asyncio.Event()

    async def info(_):
        return registration.PluginInfo(
            type=registration.DEVICE_PLUGIN, name=GPU, endpoint=str(endpoint), supported_versions=["v1beta1"]
        )

    async def notified(status):
        assert status.plugin_registered, status.error
        recovered.set()
        return registration.RegistrationStatusResponse()

    async def options(_):
        return device_plugin.DevicePluginOptions()

    async def devices(_):
        response = device_plugin.ListAndWatchResponse()
        response.devices.add(ID="gpu-0", health="Healthy")
        yield response
        await asyncio.Event().wait()

    plugin, shown = grpc_calls.new_server(), grpc_calls.new_server()
    device_plugin.GET_OPTIONS.serve(plugin, options)
    device_plugin.LIST_AND_WATCH.serve(plugin, devices)
    registration.GET_INFO.serve(shown, info)
    registration.NOTIFY.serve(shown, notified)
    socket = node.sockets / "node-1" / "registry" / "gpu-reg.sock"
    plugin.listen(endpoint)
    shown.listen(socket)
    await plugin.start()
    await shown.start()
    async with asyncio.timeout(30):
        await recovered.wait()
    await published(node, "1", "1")
    await shown.stop(None)
    socket.unlink(missing_ok=True)
    await published(node, "1", "0")
    await plugin.stop(None)


@pytest.mark.parametrize("version", ["1.34", "1.36"])
async def test_a_restart_rejects_pods_whose_init_containers_had_devices(node, plugin, version):
    """A restart rejects the pod, as upstream does (issue 124345): only running containers are spared. What
    runs is ended, and the phase is that of containers that ended well."""
    await node.start(version)
    await published(node, "2", "2")
    await node.create(containers=[using(1)], initContainers=[using(1, "init", command=["true"])])
    await node.running()
    await node.kill()
    await plugin.stop()
    await node.start(version)
    (message,) = await ended_and_refused(node, "pod-1", "Succeeded")
    assert f"no healthy devices present; cannot allocate unhealthy devices {GPU}" in message


async def test_a_pod_that_a_restart_rejects_has_failed_if_a_container_has(node, plugin):
    """The status has the reason of the refusal then, as both name one phase."""
    await node.start()
    await published(node, "2", "2")
    failing = {"name": "failing", "image": "x", "command": ["sh", "-c", "exit 3"]}
    await node.create(
        containers=[using(1), failing],
        initContainers=[using(1, "init", command=["true"])],
        restartPolicy="Never",
    )
    await node.until_pod(lambda status: "exitCode" in str(status.get("containerStatuses")))
    await node.kill()
    await plugin.stop()
    await node.start()
    assert await ended_and_refused(node, "pod-1", "Failed")


@pytest.mark.parametrize(("version", "reason"), [("1.34", f"OutOf{GPU}"), ("1.35", None)])
async def test_what_a_plugin_left_behind_is_dras_since_1_35(node, plugin, clock, version, reason):
    """Zero devices in the node's status keep pods with claims away in 1.34 (pull request 133784)."""
    await node.start(version, "DRAExtendedResource=true")
    await published(node, "2", "2")
    await plugin.stop()
    await published(node, "2", "0")
    clock.ahead += FIVE_MINUTES
    node.agent._reporter.wake()
    await published(node, "0", "0")
    await node.create(containers=[using(1)])
    pod = await node.until_pod(lambda status: status.get("phase") in {"Running", "Failed"}, seconds=10)
    assert pod["status"].get("reason") == reason
