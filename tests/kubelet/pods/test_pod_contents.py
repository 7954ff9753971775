"""Containers get data from the API, ephemeral containers, resizing: the node's side of it."""

import pytest

from kubeskew.apimachinery.client.refs import CONFIG_MAPS, EVENTS, PODS, SECRETS
from kubeskew.apimachinery.client.rest import MERGE_PATCH

pytestmark = pytest.mark.looptime


async def _config(node, name="cm", **data):
    await node.client.create(CONFIG_MAPS, {"metadata": {"name": name, "namespace": "default"}, "data": data})


def _ref(kind, name, key):
    return {"valueFrom": {f"{kind}KeyRef": {"name": name, "key": key}}}


def _env(node, name="main"):
    [found] = [container for container in node.agent.containers() if container["container"] == name]
    return found["env"]


async def test_environment_from_everywhere(node):
    """Configmaps, secrets, the pod's own fields and resources, and references between variables."""
    await node.start()
    await _config(node, k="v", other="o")
    secret = {"metadata": {"name": "s", "namespace": "default"}, "data": {"pw": "aHVzaA=="}}
    await node.client.create(SECRETS, secret)
    env = [
        {"name": "PLAIN", "value": "x"},
        {"name": "BOTH", "value": "$(PLAIN)-$(K)-$$(PLAIN)-$(NONE)"},
        {"name": "K", **_ref("configMap", "cm", "k")},
        {"name": "PW", **_ref("secret", "s", "pw")},
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
    ]
    main = {"name": "main", "image": "i", "env": env, "envFrom": [{"configMapRef": {"name": "cm"}}]}
    await node.create(containers=[main | {"resources": {"limits": {"cpu": "250m"}}}])
    await node.running()
    assert _env(node) == {
        "k": "v", "other": "o", "PLAIN": "x", "BOTH": "x-$(K)-$(PLAIN)-$(NONE)", "K": "v", "PW": "hush",
        "POD": "pod-1", "NODE": "node-1", "CPU": "250",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("version", "names", "invalid"),
    [
        (
            "1.29",
            {"p-1"},
            ["[2-1, 2-p] from the EnvFrom configMap default/cm", "[..c] from the EnvFrom secret default/s"],
        ),
        ("1.30", {"p-1", "..c", "2-1", "2-p"}, []),
        ("1.36", {"p-1", "..c", "2-1", "2-p"}, []),
    ],
)
async def test_names_that_are_no_variables(node, version, names, invalid):
    """Since 1.30 a prefix may make any name of a key; before, the kubelet left out odd ones and said so."""
    await node.start(version)
    await _config(node, **{"1": "x", "p": "y"})
    secret = {"metadata": {"name": "s", "namespace": "default"}, "data": {"c": "eg=="}}
    await node.client.create(SECRETS, secret)
    cm = {"configMapRef": {"name": "cm"}}
    sources = [{"prefix": "2-"} | cm, {"prefix": "p-"} | cm, {"prefix": "..", "secretRef": {"name": "s"}}]
    await node.create(containers=[{"name": "main", "image": "i", "envFrom": sources}])
    await node.running()
    assert set(_env(node)) == names | {"p-p"}
    events = (await node.client.list(EVENTS, "default"))["items"]
    found = [each["message"] for each in events if each["reason"] == "InvalidEnvironmentVariableNames"]
    why = "were skipped since they are considered invalid environment variable names."
    assert found == [f"Keys {text} {why}" for text in invalid]


REFUSED = "grpc: error while marshaling: string field contains invalid UTF-8"


@pytest.mark.parametrize(
    ("version", "value"),
    [("1.33", "5$\u00c3\ufffdclair"), ("1.34.3", None), ("1.34.4", "5$éclair"), ("1.36", "5$éclair")],
)
async def test_a_dollar_before_a_letter_of_several_bytes(node, version, value):
    """The letter stays; in old releases it was cut in two, and 1.34 cannot show a runtime (136325)."""
    await node.start(version)
    await node.create(
        containers=[{"name": "main", "image": "i", "env": [{"name": "P", "value": "5$éclair"}]}]
    )
    await _refused_or_running(node, value)
    assert value is None or _env(node)["P"] == value


@pytest.mark.parametrize(("version", "runs"), [("1.33", True), ("1.34.8", False), ("1.36.2", True)])
@pytest.mark.parametrize("everything", [False, True])
async def test_a_secret_of_bytes_that_are_no_text(node, version, runs, everything):
    """A variable has what a program would read; kubelets with bug 139194 cannot show a runtime of it."""
    await node.start(version)
    secret = {"metadata": {"name": "s", "namespace": "default"}, "data": {"K": "/4C/QQ=="}}
    await node.client.create(SECRETS, secret)
    one = {"env": [{"name": "K", **_ref("secret", "s", "K")}]}
    named = {"envFrom": [{"secretRef": {"name": "s"}}]} if everything else one
    await node.create(containers=[{"name": "main", "image": "i", **named}])
    await _refused_or_running(node, "" if runs else None)
    assert not runs or _env(node)["K"] == "\ufffd\ufffd\ufffdA"


async def _refused_or_running(node, value):
    """Waits until the container runs, or without a value until it is informed why it cannot be made."""
    if value is not None:
        await node.running()
        return

    def check(status):
        [one] = status.get("containerStatuses") or [{}]
        waiting = (one.get("state") or {}).get("waiting") or {}
        return waiting == {"reason": "CreateContainerError", "message": REFUSED}

    await node.until_pod(check)


async def test_a_container_waits_for_its_configuration(node):
    """A missing configmap, then a missing key, are reported; once there, the container starts."""
    await node.start()
    main = {"name": "main", "image": "i", "env": [{"name": "K", **_ref("configMap", "cm", "k")}]}
    await node.create(containers=[main])

    def waiting(message):
        def check(status):
            [one] = status.get("containerStatuses") or [{}]
            state = (one.get("state") or {}).get("waiting") or {}
            return state == {"reason": "CreateContainerConfigError", "message": message}

        return check

    await node.until_pod(waiting('configmap "cm" not found'))
    await _config(node, other="o")
    await node.until_pod(waiting("couldn't find key k in ConfigMap default/cm"))
    await node.client.patch(CONFIG_MAPS, "cm", "default", {"data": {"k": "v"}}, MERGE_PATCH)
    await node.running()
    assert ("Failed", 'Error: configmap "cm" not found') in await node.events()
    [pulled] = [obj for obj in (await node.client.list(EVENTS))["items"] if obj["reason"] == "Pulled"]
    assert pulled["count"] == 3  # one per try, ten seconds apart


async def test_a_pod_waits_for_its_volumes(node):
    """Without the secret of a volume there is no container."""
    await node.start()
    volume = {"name": "v", "secret": {"secretName": "s"}}
    main = {"name": "main", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    await node.create(containers=[main], volumes=[volume])
    event = ("FailedMount", 'MountVolume.SetUp failed for volume "v" : secret "s" not found')
    await node.until(lambda: _has_event(node, event))
    secret = {"metadata": {"name": "s", "namespace": "default"}, "data": {"key": "aHVzaA=="}}
    await node.client.create(SECRETS, secret)
    await node.running()


@pytest.mark.parametrize(
    ("volume", "lacking"),
    [
        ({"projected": {"sources": [{"configMap": {"name": "no"}}]}}, 'configmap "no" not found'),
        (
            {"projected": {"sources": [{"configMap": {"name": "no"}}, {"secret": {"name": "no"}}]}},
            '[configmap "no" not found, secret "no" not found]',
        ),
        (
            {"configMap": {"name": "there", "items": [{"key": "k", "path": "p"}]}},
            "configmap references non-existent config key: k",
        ),
    ],
)
async def test_what_a_volume_lacks(node, volume, lacking):
    """The event names what is missing, in every source and down to the keys."""
    await _config(node, "there")
    await node.start()
    mounts = [{"name": "v", "mountPath": "/v"}]
    await node.create(
        containers=[{"name": "main", "image": "i", "volumeMounts": mounts}],
        volumes=[{"name": "v", **volume}],
    )

    await node.until(
        lambda: _has_event(node, ("FailedMount", f'MountVolume.SetUp failed for volume "v" : {lacking}'))
    )


async def _has_event(node, event):
    return event in await node.events()


async def test_what_was_written_is_the_same_after_a_restart(node):
    """The log is a function of the start and the clock: another kubelet finds the same."""
    await node.start()
    script = ["sh", "-c", "echo 1; sleep 10; echo 2; sleep 10; echo 3; sleep 10"]
    await node.create(containers=[{"name": "main", "image": "i", "command": script}])
    await node.running()
    await node.clock.sleep(12)

    def log():
        [sandbox] = node.agent._runtime.sandboxes()
        return node.agent._runtime.logs(sandbox, sandbox.latest("main"))

    before = log()
    assert [line.data for line in before] == [b"1\n", b"2\n"]
    await node.kill()
    await node.start()
    assert log() == before


async def test_an_ephemeral_container_starts_next_to_the_others(node):
    """An ephemeral container runs once, is reported apart, and is never ready nor started again."""
    await node.start()
    await node.create()
    await node.running()
    pod = await node.pod()
    pod["spec"]["ephemeralContainers"] = [{"name": "debug", "image": "i", "command": ["sleep", "3"]}]
    await node.client.update(PODS, pod)
    pod = await node.until_pod(lambda status: status.get("ephemeralContainerStatuses"))
    await node.until_pod(lambda status: "terminated" in status["ephemeralContainerStatuses"][0]["state"])
    pod = await node.pod()
    [status] = pod["status"]["ephemeralContainerStatuses"]
    assert (status["name"], status["ready"], status["restartCount"]) == ("debug", False, 0)
    assert "started" not in status
    assert pod["status"]["phase"] == "Running"


def _main(cpu, **more):
    resources = {"requests": {"cpu": cpu}}
    return {"name": "main", "image": "i", "resources": resources, **more}


async def _resize(node, cpu, **more):
    pod = await node.pod()
    pod["spec"]["containers"] = [_main(cpu, **more)]
    await node.client.update(PODS, pod)


def _allocated(cpu):
    def check(status):
        [one] = status.get("containerStatuses") or [{}]
        return one.get("allocatedResources") == {"cpu": cpu}

    return check


def _pending(status):
    return next((c for c in status.get("conditions") or [] if c["type"] == "PodResizePending"), None)


async def test_a_pod_is_resized_in_place(node):
    """A resize that fits is done at once; one beyond the node is infeasible until it is withdrawn."""
    await node.start()
    await node.create(containers=[_main("1")])
    await node.running()
    await _resize(node, "2")
    pod = await node.until_pod(_allocated("2"))
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
    await _resize(node, "100")
    pod = await node.until_pod(_pending)
    found = _pending(pod["status"])
    assert (found["status"], found["reason"]) == ("True", "Infeasible")
    assert found["message"] == "Node didn't have enough capacity: cpu, requested: 100000, capacity: 8000"
    assert _allocated("2")(pod["status"])
    await _resize(node, "3")
    await node.until_pod(lambda status: _allocated("3")(status) and _pending(status) is None)


async def test_a_resize_waits_for_room(node):
    """A resize that fits the node but not next to other pods is deferred until they are gone."""
    await node.start()
    await node.create("other", containers=[_main("5")])
    await node.create(containers=[_main("1")])
    await node.running("other")
    await node.running()
    await _resize(node, "4")
    pod = await node.until_pod(_pending)
    assert _pending(pod["status"])["reason"] == "Deferred"
    await node.delete("other")
    await node.until_pod(_allocated("4"))


async def test_a_resize_that_restarts(node):
    """With RestartContainer the container is started again."""
    policy = {"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]}
    await node.start()
    await node.create(containers=[_main("1", **policy)])
    await node.running()
    await _resize(node, "2", **policy)
    await node.until_pod(lambda status: status["containerStatuses"][0]["restartCount"] == 1)
    assert ("Killing", "Container main resize requires restart") in await node.events()
