"""The configurations of sandboxes and containers that follow from a pod."""

from pathlib import Path

import pytest

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.containers.acting import KIND
from kubeskew.kubelet.containers.runtime_service import (
    ContainerResources,
    ContainerSecurity,
    Device,
    DNSConfig,
    Mount,
    PortMapping,
)
from kubeskew.kubelet.containers.usage import Demand
from kubeskew.kubelet.device_managers import CDIDevice, ContainerDevices, DeviceNode
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.pods.container_configs import (
    acted,
    container_config,
    container_hash,
    sandbox_config,
)
from kubeskew.kubelet.volumes.pod_volumes import MountedFiles

FEATURES = KubeletFeatures.of(FeatureGates.parse(Version(36), ""))
DNS = DNSConfig(["10.96.0.10"])


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
    found = sandbox_config(pod(**spec), Path("/logs"), "node", FEATURES, DNS, attempt=2)
    assert (found.uid, found.namespace, found.name, found.hostname, found.attempt) == ("u", "ns", "p", "p", 2)
    assert (found.log_directory, found.dns) == (Path("/logs/ns_p_u"), DNS)
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
        ({"subdomain": "s"}, "p"),
        ({"subdomain": "s", "setHostnameAsFQDN": True}, "p.s.ns.svc.cluster.local"),
    ],
)
def test_the_host_name(spec, hostname):
    """The pod's own, or the node's with its network."""
    assert sandbox_config(pod(**spec), Path(), "node", FEATURES).hostname == hostname


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
        annotations={"vendor/x": "1"},
        cdi=[CDIDevice("v/c=x", {"A": "cdi"})],
    )
    files = MountedFiles([Mount("/data", Path("/volumes/data"))], {"io.kubernetes.container.x": "y"})
    found = container_config(
        given, spec, {"A": "own", "B": "b"}, devices, files, security=ContainerSecurity(run_as_user=5),
        features=FEATURES.container, demand=Demand(0.25, 4096),
    )  # fmt: skip
    assert found.stop_signal == ""
    signalled = KubeletFeatures.of(FeatureGates.parse(Version(36), "ContainerStopSignals=true")).container
    found = container_config(
        given, spec, {"A": "own", "B": "b"}, devices, files, security=ContainerSecurity(run_as_user=5),
        features=signalled, demand=Demand(0.25, 4096),
    )  # fmt: skip
    assert (found.command, found.args) == (["run", "cdi"], ["b", "$(C)"])
    assert found.env == {"A": "cdi", "D": "d", "B": "b"}
    assert (found.working_directory, found.stdin, found.stdin_once, found.tty) == ("/w", True, False, True)
    assert found.mounts == files.mounts
    assert found.security == ContainerSecurity(run_as_user=5)
    assert found.resources == ContainerResources(2, 0, 100_000, 0, "", 1000)
    assert found.devices == [Device("/dev/x", "/dev/y", "rw")]
    assert [device.name for device in found.cdi_devices] == ["v/c=x"]
    assert found.stop_signal == "SIGINT"
    assert found.annotations == {
        "vendor/x": "1",
        "io.kubernetes.container.x": "y",
        "io.kubernetes.container.hash": "f434d456",
        "io.kubernetes.container.terminationMessagePath": "",
        "io.kubernetes.container.terminationMessagePolicy": "",
        "io.kubernetes.container.ports": '[{"containerPort":80}]',
        "kubelet.kubeskew.io/runs-for": "5",
        "kubelet.kubeskew.io/exit-code": "1",
        "kubelet.kubeskew.io/cores": "0.25",
        "kubelet.kubeskew.io/memory": "4096",
    }


@pytest.mark.parametrize(
    ("owner", "name", "kind"),
    [
        ("Job", "main", "job"),
        ("Job", "first", "init"),
        ("Job", "sidecar", None),
        ("ReplicaSet", "main", None),
        ("ReplicaSet", "first", "init"),
        (None, "main", None),
    ],
)
def test_programs_that_have_to_end(owner, name, kind):
    """Those of init containers and of Jobs have to end, those of sidecars must not."""
    first, sidecar, main = {"name": "first"}, {"name": "sidecar", "restartPolicy": "Always"}, {"name": "main"}
    references = [{"kind": owner, "name": "a", "controller": True}] if owner else []
    pod = {
        "metadata": {"name": "a", "ownerReferences": references},
        "spec": {"initContainers": [first, sidecar], "containers": [main]},
    }
    spec = {each["name"]: each for each in (first, sidecar, main)}[name]
    assert acted(pod, spec, Demand(0.0, 0)).get(KIND) == kind


def test_the_hash_of_a_container_is_upstreams():
    """A container has it as with a real kubelet 1.35.6; its command does not change it."""
    spec = {"name": "demo", "image": "nvidia/cuda:8.0-runtime", "command": ["sleep", "1"]}
    assert container_hash(spec) == "e09dd37e"
