"""The configurations of sandboxes and containers that follow from a pod."""

from pathlib import Path

import pytest

from kubeskew.kubelet.containers.runtime_service import (
    ContainerResources,
    ContainerSecurity,
    Device,
    DNSConfig,
    Image,
    Mount,
    PortMapping,
)
from kubeskew.kubelet.containers.usage import Demand
from kubeskew.kubelet.device_managers import CDIDevice, ContainerDevices, DeviceNode, HostMount
from kubeskew.kubelet.pods.container_configs import (
    container_config,
    container_resources,
    container_security,
    dns_config,
    oom_score,
    refused_user,
    sandbox_config,
)

IMAGE = Image("sha256:1", "i@sha256:1", 1)
CLUSTER = DNSConfig(
    ["10.96.0.10"], ["ns.svc.cluster.local", "svc.cluster.local", "cluster.local"], ["ndots:5"]
)


def pod(**spec):
    metadata = {"name": "p", "namespace": "ns", "uid": "u", "labels": {"a": "b"}}
    return {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def test_a_sandbox():
    """Names, labels, log directory, ports of the node, parameters and namespaces."""
    port = {"containerPort": 80, "hostPort": 8080, "hostIP": "127.0.0.1"}
    spec = {
        "containers": [{"name": "c", "ports": [port, {"containerPort": 81}]}],
        "securityContext": {"sysctls": [{"name": "kernel.x", "value": "1"}]},
        "shareProcessNamespace": True,
        "hostIPC": True,
        "hostUsers": False,
    }
    found = sandbox_config(pod(**spec), Path("/logs"), "node", attempt=2)
    assert (found.uid, found.namespace, found.name, found.hostname, found.attempt) == ("u", "ns", "p", "p", 2)
    assert found.log_directory == Path("/logs/ns_p_u")
    assert found.labels == {
        "a": "b",
        "io.kubernetes.pod.name": "p",
        "io.kubernetes.pod.namespace": "ns",
        "io.kubernetes.pod.uid": "u",
    }
    assert found.port_mappings == [PortMapping(80, 8080, "TCP", "127.0.0.1")]
    assert found.sysctls == {"kernel.x": "1"}
    assert (found.shares_pid, found.host_ipc, found.host_pid, found.host_users) == (True, True, False, False)


@pytest.mark.parametrize(
    ("spec", "hostname"),
    [
        ({"hostname": "h"}, "h"),
        ({"hostNetwork": True}, "node"),
        ({"hostname": "h" * 62 + "-x"}, "h" * 62),
        ({"hostnameOverride": "o.x", "hostname": "h"}, "o.x"),
    ],
)
def test_the_host_name(spec, hostname):
    """The pod's own, or the node's with its network."""
    assert sandbox_config(pod(**spec), Path(), "node").hostname == hostname


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, CLUSTER),
        ({"dnsPolicy": "Default"}, None),
        ({"hostNetwork": True}, None),
        ({"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}, CLUSTER),
        (
            {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["1.1.1.1"], "options": [{"name": "rotate"}]}},
            DNSConfig(["1.1.1.1"], [], ["rotate"]),
        ),
        (
            {"dnsConfig": {"searches": ["x", "cluster.local"], "options": [{"name": "ndots", "value": "2"}]}},
            DNSConfig(CLUSTER.servers, [*CLUSTER.searches, "x"], ["ndots:2"]),
        ),
    ],
)
def test_the_names_that_a_pod_resolves(spec, expected):
    """The policy decides, and the pod's own configuration adds to it."""
    assert dns_config(pod(**spec)) == expected


def test_a_container():
    """Command, environment, mounts, devices and what a runtime acts by."""
    spec = {
        "name": "c",
        "image": "i",
        "command": ["run", "$(A)"],
        "args": ["$(B)", "$(C)"],
        "workingDir": "/w",
        "stdin": True,
        "tty": True,
        "ports": [{"containerPort": 80}],
        "lifecycle": {"stopSignal": "SIGINT"},
    }
    given = pod(containers=[spec])
    given["metadata"]["annotations"] = {
        "kubelet.kubeskew.io/runs-for": "5",
        "kubelet.kubeskew.io/exit-code.c": "1",
        "kubelet.kubeskew.io/exit-code.d": "2",
        "other": "x",
    }
    devices = ContainerDevices(
        env={"A": "cdi"},
        default_env={"A": "default", "D": "d"},
        nodes=[DeviceNode("/dev/x", "/dev/y", "rw")],
        mounts=[HostMount("/lib/x", "/y", read_only=True)],
        annotations={"vendor/x": "1"},
        cdi=[CDIDevice("v/c=x", {"A": "cdi"})],
    )
    found = container_config(
        given, spec, {"A": "own", "B": "b"}, devices, IMAGE,
        mounts=[Mount("/data", Path("/volumes/data"))], demand=Demand(0.25, 4096),
    )  # fmt: skip
    assert (found.command, found.args) == (["run", "cdi"], ["b", "$(C)"])
    assert found.env == {"A": "cdi", "D": "d", "B": "b"}
    assert (found.working_directory, found.stdin, found.stdin_once, found.tty) == ("/w", True, False, True)
    assert found.mounts == [
        Mount("/data", Path("/volumes/data")), Mount("/lib/x", Path("/y"), read_only=True),
    ]  # fmt: skip
    assert found.devices == [Device("/dev/x", "/dev/y", "rw")]
    assert [device.name for device in found.cdi_devices] == ["v/c=x"]
    assert found.stop_signal == "SIGINT"
    assert found.annotations == {
        "vendor/x": "1",
        "io.kubernetes.container.terminationMessagePath": "",
        "io.kubernetes.container.terminationMessagePolicy": "",
        "io.kubernetes.container.ports": '[{"containerPort":80}]',
        "kubelet.kubeskew.io/runs-for": "5",
        "kubelet.kubeskew.io/exit-code": "1",
        "kubelet.kubeskew.io/cores": "0.25",
        "kubelet.kubeskew.io/memory": "4096",
    }


@pytest.mark.parametrize(
    ("common", "own", "user", "expected"),
    [
        ({}, {}, "", ContainerSecurity(supplemental_groups=[])),
        (
            {"runAsUser": 1, "runAsGroup": 2, "fsGroup": 3, "supplementalGroups": [4, 3]},
            {"runAsUser": 0},
            "9",
            ContainerSecurity(0, 2, [4, 3]),
        ),
        ({}, {}, "7:8", ContainerSecurity(7, supplemental_groups=[])),
        ({}, {}, "nobody", ContainerSecurity(supplemental_groups=[])),
        (
            {"supplementalGroupsPolicy": "Strict"},
            {
                "privileged": True,
                "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]},
                "readOnlyRootFilesystem": True,
                "allowPrivilegeEscalation": False,
                "procMount": "Unmasked",
            },
            "",
            ContainerSecurity(None, None, [], True, True, ["NET_ADMIN"], ["ALL"], True, True, True),
        ),
    ],
)
def test_the_security_of_a_container(common, own, user, expected):
    """The container's own fields come before the pod's, and these before the image's user."""
    image = Image("", "", 0, user=user)
    found = container_security(pod(securityContext=common), {"name": "c", "securityContext": own}, image)
    assert found == expected


@pytest.mark.parametrize(
    ("own", "user", "text"),
    [
        ({}, "", ""),
        ({"runAsNonRoot": True, "runAsUser": 5}, "", ""),
        ({"runAsNonRoot": True, "runAsUser": 0}, "5", "container's runAsUser breaks non-root policy"),
        ({"runAsNonRoot": True}, "5:5", ""),
        ({"runAsNonRoot": True}, "", "container has runAsNonRoot and image will run as root"),
        ({"runAsNonRoot": True}, "0", "container has runAsNonRoot and image will run as root"),
        (
            {"runAsNonRoot": True},
            "app",
            "container has runAsNonRoot and image has non-numeric user (app), cannot verify user is non-root",
        ),
    ],
)
def test_a_container_that_must_not_be_root(own, user, text):
    """The refusal has upstream's words."""
    found = refused_user(pod(), {"name": "c", "securityContext": own}, Image("", "", 0, user=user))
    assert found == (f'{text} (pod: "p_ns(u)", container: c)' if text else "")


def _resources(requests=None, limits=None):
    return {"name": "c", "resources": {"requests": requests or {}, "limits": limits or {}}}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (_resources(), ContainerResources(2, 0, 100_000, 0, "", 1000)),
        (_resources({"cpu": "500m"}), ContainerResources(512, 0, 100_000, 0, "", 999)),
        (_resources(None, {"cpu": "2"}), ContainerResources(2048, 200_000, 100_000, 0, "", 999)),
        (_resources({"cpu": "0"}, {"cpu": "5m"}), ContainerResources(2, 1_000, 100_000, 0, "", 999)),
        (
            _resources({"cpu": "1", "memory": "1Gi"}, {"cpu": "1", "memory": "1Gi"}),
            ContainerResources(1024, 100_000, 100_000, 1 << 30, "", -997),
        ),
        (_resources({"memory": "1Gi"}), ContainerResources(2, 0, 100_000, 0, "", 750)),
    ],
)
def test_the_limits_of_a_container(spec, expected):
    """Shares, quota and memory are as upstream computes them for cgroups."""
    assert container_resources(pod(containers=[spec]), spec, 4 << 30) == expected


def test_a_critical_pod_is_ended_last():
    """The score of a pod that the node needs is that of a guaranteed one."""
    spec = _resources({"memory": "1Gi"})
    assert oom_score(pod(containers=[spec], priorityClassName="system-node-critical"), spec, 4 << 30) == -997
