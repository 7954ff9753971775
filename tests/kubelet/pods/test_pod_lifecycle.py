"""Pods on a node, from binding to deletion, in virtual time."""

import asyncio
import re

import pytest

from kubeskew.apimachinery.client.refs import PODS
from kubeskew.apimachinery.client.rest import STRATEGIC_PATCH

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]


def conditions(pod):
    return {condition["type"]: condition["status"] for condition in pod["status"]["conditions"]}


def state(pod, index=0, field="containerStatuses"):
    return pod["status"][field][index]["state"]


def shell(script, name="main", **more):
    return {"name": name, "image": "busybox", "command": ["sh", "-c", script], **more}


async def test_the_node_registers_and_becomes_ready(node):
    """A fresh node is Ready, shows its version and resources, and has a lease."""
    await node.start()
    found = await node.node()
    by_type = {condition["type"]: condition for condition in found["status"]["conditions"]}

    assert by_type["Ready"]["reason"] == "KubeletReady"
    assert by_type["MemoryPressure"]["status"] == "False"
    assert found["metadata"]["labels"]["kubernetes.io/hostname"] == "node-1"
    assert found["status"]["nodeInfo"]["kubeletVersion"] == "v1.36.5"
    assert found["status"]["allocatable"]["pods"] == "110"
    assert found["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]


async def test_a_pod_runs_and_is_ready(node):
    """A plain pod gets an address, a container that runs, and its conditions in upstream's order."""
    await node.start()
    await node.create()
    pod = await node.running()

    assert [c["type"] for c in pod["status"]["conditions"]] == [
        "PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled",
    ]  # fmt: skip
    assert set(conditions(pod).values()) == {"True"}
    status = pod["status"]["containerStatuses"][0]
    assert status["ready"]
    assert status["started"]
    assert status["restartCount"] == 0
    assert status["containerID"].startswith("containerd://")
    assert status["image"] == "docker.io/library/nginx:latest"
    assert pod["status"]["podIP"] == pod["status"]["podIPs"][0]["ip"]
    assert pod["status"]["hostIPs"] == [{"ip": pod["status"]["hostIP"]}]


async def test_what_others_write_of_a_status_is_put_right(node, client, server):
    """A condition of the kubelet's that another changed is its own again after ten seconds; then nothing is
    written any more."""
    await node.start()
    await node.create()
    await node.running()
    changed = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulerError"}]}
    await client.patch(PODS, "pod-1", "default", {"status": changed}, STRATEGIC_PATCH, subresource="status")
    assert conditions(await node.pod())["PodScheduled"] == "False"

    pod = await node.until_pod(
        lambda status: conditions({"status": status})["PodScheduled"] == "True", seconds=11
    )
    assert set(conditions(pod).values()) == {"True"}
    writes = [
        request for request in server.requests if request.method == "PATCH" and "pods" in request.target
    ]
    await asyncio.sleep(100)
    assert writes == [
        request for request in server.requests if request.method == "PATCH" and "pods" in request.target
    ]


async def test_old_kubelets_say_less(node):
    """Fields and conditions of newer versions are not written by an older kubelet."""
    await node.start("1.28")
    await node.create()
    pod = await node.running()

    assert "PodReadyToStartContainers" not in conditions(pod)
    assert "hostIPs" not in pod["status"]
    assert "observedGeneration" not in pod["status"]


@pytest.mark.parametrize("minor", range(26, 38))
async def test_a_kubelet_writes_only_what_its_version_knows(node, minor):
    """A pod with all that shows in its status runs on each release; the server drops none of its fields."""
    await node.start(f"1.{minor}")
    amounts = {"requests": {"cpu": "1"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    mounts = [{"name": "v", "mountPath": "/v", "readOnly": True}]
    main = {"name": "main", "image": "x", "resources": amounts, "volumeMounts": mounts}
    init = {"name": "init", "image": "x", "command": ["sleep", "1"], "volumeMounts": mounts}
    await node.create(containers=[main], initContainers=[init])
    pod = await node.running()

    status = pod["status"]["containerStatuses"][0]
    assert ("resources" in status) == (minor >= 33)
    assert ("volumeMounts" in status) == (minor >= 31)
    assert ("observedGeneration" in pod["status"]) == (minor >= 34)


async def test_the_events_of_a_start_are_upstreams(node):
    """Pulled, Created, Started, worded as the version does."""
    await node.start("1.34")
    await node.create()
    await node.running()
    await asyncio.sleep(1)

    assert [event for event in await node.events() if not event[0].startswith("Node")][1:] == [
        ("Pulled", 'Container image "nginx" already present on machine'),
        ("Created", "Created container: main"),
        ("Started", "Started container main"),
    ]


async def test_an_image_that_is_always_pulled_is(node):
    """The events of a pull, with a size since 1.30."""
    await node.start("1.36")
    await node.create(containers=[{"name": "main", "image": "nginx", "imagePullPolicy": "Always"}])
    await node.running()
    await asyncio.sleep(1)

    pulling, pulled, *_ = [event for event in await node.events() if event[0].startswith("Pull")]
    assert pulling == ("Pulling", 'Pulling image "nginx"')
    said = r'Successfully pulled image "nginx" in (\d+ms) \(\1 including waiting\)\. Image size: \d+ bytes\.'
    assert re.fullmatch(said, pulled[1])


async def test_deletion_ends_with_the_object_gone(node):
    """A deleted pod is stopped at once on SIGTERM, reported as ended, and its object removed."""
    await node.start()
    await node.create()
    await node.running()
    before = node.clock.monotonic()
    await node.delete()
    await node.gone()

    assert node.clock.monotonic() - before < 1
    assert node.agent.containers() == []
    await asyncio.sleep(1)
    assert ("Killing", "Stopping container main") in await node.events()


async def test_a_container_that_ignores_sigterm_is_killed_after_its_grace(node):
    """The whole grace period passes before such a container is killed and its pod goes."""
    await node.start()
    await node.create(
        annotations={"kubelet.kubeskew.io/on-sigterm": "ignore"}, terminationGracePeriodSeconds=20
    )
    await node.running()
    before = node.clock.monotonic()
    await node.delete()
    await node.gone()

    assert 20 <= node.clock.monotonic() - before < 22


async def test_a_pod_that_completes_succeeds(node):
    """With restartPolicy Never a container that exits 0 makes its pod Succeeded."""
    await node.start()
    await node.create(containers=[shell("sleep 5")], restartPolicy="Never")
    pod = await node.until_pod(lambda status: status.get("phase") == "Succeeded")

    assert state(pod)["terminated"]["reason"] == "Completed"
    assert conditions(pod)["Ready"] == "False"
    ready = next(c for c in pod["status"]["conditions"] if c["type"] == "Ready")
    assert ready["reason"] == "PodCompleted"


async def test_a_pod_that_fails_is_failed(node):
    """With restartPolicy Never a container that exits 3 makes its pod Failed."""
    await node.start()
    await node.create(containers=[shell("exit 3")], restartPolicy="Never")
    pod = await node.until_pod(lambda status: status.get("phase") == "Failed")

    assert state(pod)["terminated"]["exitCode"] == 3
    assert state(pod)["terminated"]["reason"] == "Error"


async def test_a_crashing_container_backs_off(node):
    """The first restart is immediate; then 10 s, 20 s, … pass, shown as CrashLoopBackOff."""
    await node.start()
    await node.create(containers=[shell("exit 1")])
    pod = await node.until_pod(
        lambda s: "CrashLoopBackOff" in str(s) and s["containerStatuses"][0]["restartCount"] == 1
    )
    uid = pod["metadata"]["uid"]

    assert state(pod)["waiting"]["message"] == (
        f"back-off 10s restarting failed container=main pod=pod-1_default({uid})"
    )
    assert pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 1
    assert pod["status"]["phase"] == "Running"
    assert conditions(pod)["Ready"] == "False"
    before = node.clock.monotonic()
    await node.until_pod(lambda status: status["containerStatuses"][0]["restartCount"] == 2)
    middle = node.clock.monotonic()
    await node.until_pod(lambda status: status["containerStatuses"][0]["restartCount"] == 3)
    assert 9 < middle - before < 11
    assert 19 < node.clock.monotonic() - middle < 21


async def test_init_containers_run_one_after_the_other(node):
    """Regular containers wait for the init containers, in order; a sidecar goes on next to them."""
    await node.start()
    await node.create(
        initContainers=[
            shell("sleep 5", "first"),
            {"name": "sidecar", "image": "proxy", "restartPolicy": "Always"},
            shell("sleep 5", "second"),
        ]
    )
    pod = await node.until_pod(lambda s: "running" in str(s.get("initContainerStatuses", "")))
    assert state(pod)["waiting"]["reason"] == "PodInitializing"
    assert conditions(pod)["Initialized"] == "False"
    pod = await node.running()

    assert [next(iter(s["state"])) for s in pod["status"]["initContainerStatuses"]] == [
        "terminated", "running", "terminated",
    ]  # fmt: skip
    assert 10 <= node.clock.monotonic() < 12
    assert conditions(pod)["Initialized"] == "True"


async def test_sidecars_end_with_their_pod(node):
    """A pod whose regular containers are done succeeds once its sidecars are stopped."""
    await node.start()
    await node.create(
        initContainers=[{"name": "sidecar", "image": "proxy", "restartPolicy": "Always"}],
        containers=[shell("sleep 3")],
        restartPolicy="Never",
    )
    pod = await node.until_pod(lambda status: status.get("phase") == "Succeeded")

    assert "terminated" in state(pod, field="initContainerStatuses")


async def test_a_deadline_fails_the_pod(node):
    """activeDeadlineSeconds ends a pod with reason DeadlineExceeded."""
    await node.start()
    await node.create(activeDeadlineSeconds=7)
    pod = await node.until_pod(lambda status: status.get("phase") == "Failed")

    assert pod["status"]["reason"] == "DeadlineExceeded"
    assert 6 <= node.clock.monotonic() < 9


async def test_a_pod_that_does_not_fit_is_rejected(node):
    """Bound to a node without room, a pod fails with OutOfcpu."""
    await node.start()
    big = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "9"}}}
    await node.create(containers=[big])
    pod = await node.until_pod(lambda status: status.get("phase") == "Failed")

    assert pod["status"]["reason"] == "OutOfcpu"
    assert pod["status"]["message"] == (
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 9000, used: 0, capacity: 8000"
    )


@pytest.mark.parametrize("way", ["stop", "kill"])
async def test_a_restarted_kubelet_adopts_what_runs(node, way):
    """After a restart, upgrade or kill the containers are the same: id, start and restart count."""
    await node.start("1.35")
    await node.create()
    before = await node.running()
    await getattr(node, way)()
    await asyncio.sleep(60)
    await node.start("1.36")
    await asyncio.sleep(30)
    after = await node.running()

    assert after["status"]["containerStatuses"] == before["status"]["containerStatuses"]
    assert (await node.node())["status"]["nodeInfo"]["kubeletVersion"] == "v1.36.5"


async def test_a_pod_deleted_while_the_kubelet_was_down_is_stopped(node):
    """Containers of a pod deleted while the kubelet was down are stopped when it comes back."""
    await node.start()
    await node.create()
    await node.running()
    await node.stop()
    await node.delete(grace_period=0)
    await node.start()

    await node.until(lambda: node.agent.containers() == [])


async def test_a_pod_being_deleted_while_the_kubelet_was_down_is_finished(node):
    """A graceful deletion that began without a kubelet is carried out by the next one."""
    await node.start()
    await node.create()
    await node.running()
    await node.stop()
    await node.delete()
    await node.start()

    await node.gone()


async def test_force_deleted_pods_are_stopped(node):
    """A pod whose object goes at once loses its containers."""
    await node.start()
    await node.create()
    await node.running()
    await node.delete(grace_period=0)

    await node.until(lambda: node.agent.containers() == [])


@pytest.mark.parametrize("policy", ["Always", "Never"])
async def test_another_image_replaces_the_container(node, policy):
    """A pod whose image is changed gets a new container in place of the old one, regardless of its policy."""
    await node.start()
    await node.create(restartPolicy=policy)
    pod = await node.running()
    pod["spec"]["containers"][0]["image"] = "nginx:2"
    await node.client.update(PODS, pod)
    pod = await node.until_pod(lambda status: status["containerStatuses"][0]["restartCount"] == 1)

    status = pod["status"]["containerStatuses"][0]
    assert status["image"] == "docker.io/library/nginx:2"
    assert "running" in status["state"]
    assert status["lastState"]["terminated"]["reason"] == "Completed"
    await asyncio.sleep(1)
    assert ("Killing", "Container main definition changed, will be restarted") in await node.events()


async def test_others_parts_of_the_status_stay(node, client):
    """Conditions and fields that are not the kubelet's survive its writes."""
    await node.start()
    theirs = {"type": "example.com/checked", "status": "True", "lastProbeTime": None}
    theirs["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    claims = [{"name": "unused"}]
    await node.create(status={"conditions": [theirs], "resourceClaimStatuses": claims})
    pod = await node.running()

    assert theirs in pod["status"]["conditions"]
    assert pod["status"]["resourceClaimStatuses"] == claims


async def test_a_quiet_pod_costs_nothing(node, server):
    """Once a pod runs, its kubelet writes no more about it."""
    await node.start()
    await node.create()
    await node.running()
    await asyncio.sleep(5)
    before = len(server.requests)
    await asyncio.sleep(120)

    later = [request for request in server.requests[before:] if PODS.plural in request.target]
    assert later == []


RESTART_ALL = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}


@pytest.mark.parametrize("on", [True, False])
async def test_all_restart(node, on):
    """By a rule of its own, one that ends has all containers begin again, init containers first; without the
    gate the kubelet refuses such a pod."""
    await node.start(gates=f"RestartAllContainersOnContainerExits={str(on).lower()}")
    await node.create(
        initContainers=[
            {"name": "first", "image": "tool", "command": ["true"]},
            {"name": "sidecar", "image": "proxy", "restartPolicy": "Always"},
        ],
        containers=[
            shell("sleep 60; exit 42", "source", restartPolicy="Never", restartPolicyRules=[RESTART_ALL]),
            shell("sleep 10000"),
        ],
        restartPolicy="Never",
    )
    if not on:
        pod = await node.until_pod(lambda status: status and status.get("phase") == "Failed")
        assert pod["status"]["reason"] == "PodFeatureUnsupported"
        return
    pod = await node.until_pod(lambda status: status and all_restarted({"status": status}))
    assert conditions(pod)["AllContainersRestarting"] == "False"
    assert conditions(pod)["Initialized"] == "True"
    assert {(status["name"], status["restartCount"]) for status in statuses(pod)} == {
        ("first", 1), ("sidecar", 1), ("source", 1), ("main", 1),
    }  # fmt: skip
    for status in statuses(pod):
        last = status["lastState"]["terminated"]
        assert (last["exitCode"], last["reason"]) == (137, "RestartingAllContainers")


async def test_rounds_of_restarts_leave_time_for_others(node):
    """Restarts of all because of a container that ends at once are a second apart: the node's other pods
    run, and what is noted of the containers does not grow."""
    await node.start(gates="RestartAllContainersOnContainerExits=true")
    await node.create(
        containers=[shell("exit 42", restartPolicy="Never", restartPolicyRules=[RESTART_ALL])],
        restartPolicy="Never",
    )
    await node.create("pod-2")
    await node.running("pod-2")
    before = (await node.until_pod(lambda status: status and status.get("containerStatuses")))["status"]
    await node.clock.sleep(20)
    after = (await node.pod())["status"]
    rounds = after["containerStatuses"][0]["restartCount"] - before["containerStatuses"][0]["restartCount"]
    assert 17 <= rounds <= 21
    [worker] = [
        worker for worker in node.agent._pods._workers.values() if worker.pod["metadata"]["name"] == "pod-1"
    ]
    assert len(worker._killer.removed) <= 2


def statuses(pod):
    return [*pod["status"]["containerStatuses"], *pod["status"]["initContainerStatuses"]]


def all_restarted(pod):
    return "running" in state(pod) and all(status["restartCount"] for status in statuses(pod))
