"""The order in which a pod's containers end, and which of them run again."""

import pytest

from kubeskew.apimachinery.client.refs import PODS

pytestmark = pytest.mark.looptime

SIGTERM = "kubelet.kubeskew.io/on-sigterm"


def sidecar(name, **more):
    return {"name": name, "image": "proxy", "restartPolicy": "Always", **more}


async def ends(node, **spec):
    """Seconds from the pod's deletion to the end of each container, and the events about stops."""
    await node.create(initContainers=[sidecar("first"), sidecar("second")], **spec)
    await node.running()
    [sandbox] = node.agent._runtime.sandboxes()
    before = node.clock.now()
    await node.delete(grace_period=spec.get("terminationGracePeriodSeconds", 30))
    containers = {name: sandbox.latest(name) for name in ("main", "first", "second")}
    await node.until(lambda: not any(c.running(node.clock.now()) for c in containers.values()))
    found = {name: round((c.ends_at - before).total_seconds()) for name, c in containers.items()}
    await node.clock.sleep(1)
    return found, [message for reason, message in await node.events() if reason == "Killing"]


@pytest.mark.parametrize(
    ("version", "sigterm", "grace", "wanted"),
    [
        ("1.36", {"main": "5", "second": "3"}, 30, {"main": 5, "second": 8, "first": 8}),
        ("1.29", {"main": "5", "second": "3"}, 30, {"main": 5, "second": 8, "first": 8}),
        ("1.28", {"main": "5", "second": "3"}, 30, {"main": 5, "second": 3, "first": 0}),
        ("1.36", {"main": "ignore", "second": "ignore"}, 10, {"main": 10, "second": 12, "first": 10}),
        ("1.36", {"main": "ignore"}, 1, {"main": 2, "second": 1, "first": 1}),
    ],
)
async def test_sidecars_end_after_the_others(node, version, sigterm, grace, wanted):
    """Since 1.29 each waits for those behind it until the grace period is over, and then has two seconds."""
    await node.start(version, "SidecarContainers=true" if version == "1.28" else "")
    annotations = {f"{SIGTERM}.{name}": value for name, value in sigterm.items()}
    found, killing = await ends(node, annotations=annotations, terminationGracePeriodSeconds=grace)
    assert found == wanted
    assert sorted(killing) == [f"Stopping container {name}" for name in ("first", "main", "second")]


async def test_hooks_of_sidecars_run_at_once(node):
    """A sidecar that waits for its turn has run its preStop hook by then."""
    await node.start()
    hook = {"preStop": {"sleep": {"seconds": 4}}}
    await node.create(initContainers=[sidecar("proxy", lifecycle=hook)], annotations={f"{SIGTERM}.main": "6"})
    await node.running()
    [sandbox] = node.agent._runtime.sandboxes()
    before, proxy = node.clock.now(), sandbox.latest("proxy")
    await node.delete()
    await node.until(lambda: not proxy.running(node.clock.now()))
    assert round((proxy.ends_at - before).total_seconds()) == 6


@pytest.mark.parametrize(("version", "restarts"), [("1.31", 0), ("1.32", 1)])
async def test_a_changed_sidecar_starts_again(node, version, restarts):
    """Since 1.32 a sidecar whose image changed is replaced, as a regular container is."""
    await node.start(version)
    pod = await node.create(initContainers=[sidecar("proxy")])
    pod = await node.running()
    pod["spec"]["initContainers"][0]["image"] = "proxy:2"
    await node.client.update(PODS, pod)
    await node.clock.sleep(60)
    [status] = (await node.pod())["status"]["initContainerStatuses"]
    assert status["restartCount"] == restarts
    messages = [message for reason, message in await node.events() if reason == "Killing"]
    assert messages == ["Init container proxy definition changed"] * restarts


@pytest.mark.parametrize(
    ("version", "policy", "own", "restarts"),
    [
        ("1.36", "Never", {"restartPolicy": "OnFailure"}, True),
        ("1.36", "Always", {"restartPolicy": "Never"}, False),
        ("1.33", "Always", {"restartPolicy": "Never"}, True),
    ],
)
async def test_init_containers_have_policies_of_their_own(node, version, policy, own, restarts):
    """With ContainerRestartRules an init container's own policy decides whether it runs again."""
    await node.start(version)
    init = {"name": "init", "image": "x", "command": ["exit", "3"], **own}
    await node.create(initContainers=[init], restartPolicy=policy)
    await node.clock.sleep(30)
    status = (await node.pod())["status"]
    assert (status["initContainerStatuses"][0]["restartCount"] > 0) == restarts
    assert status["phase"] == ("Pending" if restarts else "Failed")
