"""The device manager's checkpoint: upstream's bytes and checksums, and what becomes of broken files."""

import base64

import orjson
import pytest

from kubeskew.kubelet.deviceplugins import pod_devices
from kubeskew.kubelet.deviceplugins.pod_devices import (
    Allocation,
    Allocations,
    UnreadableCheckpointError,
    injected,
)
from kubeskew.kubelet.protocols.messages.device_plugin_v1beta1_pb2 import (
    CDIDevice,
    ContainerAllocateResponse,
    DeviceSpec,
    Mount,
)

# As kubelets wrote them: the second with an allocation.
REAL = [
    (
        '{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{"nvidia.com/gpu":'
        '["GPU-0650a168-e770-3ea8-8ac3-8a1d419763e0"]}},"Checksum":3952659280}'
    ),
    (
        '{"Data":{"PodDeviceEntries":[{"PodUID":"bf52b2cd-b611-4e79-86b1-280b283185c3","ContainerName":"check",'
        '"ResourceName":"nvidia.com/gpu","DeviceIDs":{"-1":["tegra"]},'
        '"AllocResp":"Ch8KFk5WSURJQV9WSVNJQkxFX0RFVklDRVMSBXRlZ3Jh"}],'
        '"RegisteredDevices":{"nvidia.com/gpu":["tegra"]}},"Checksum":3660592824}'
    ),
]


@pytest.mark.parametrize("text", REAL, ids=["empty", "one device"])
def test_files_of_real_kubelets_are_read_and_written_alike(text):
    """A checkpoint written by a real kubelet is read, and written again byte for byte."""
    allocations, _ = pod_devices.decode_checkpoint(text.encode())
    registered = orjson.loads(text)["Data"]["RegisteredDevices"]
    assert pod_devices.encode_checkpoint(allocations, registered).decode() == text


def test_a_real_allocation_is_understood():
    """Pod, container, device and environment of the real file."""
    allocations, resources = pod_devices.decode_checkpoint(REAL[1].encode())
    [(pod, container, resource, allocation)] = allocations
    assert (pod[:8], container, resource, resources) == (
        "bf52b2cd", "check", "nvidia.com/gpu", ["nvidia.com/gpu"],
    )  # fmt: skip
    assert allocation.ids == {"tegra"}
    assert injected({resource: allocation}).default_env == {"NVIDIA_VISIBLE_DEVICES": "tegra"}


def test_devices_of_numa_nodes_come_back():
    """A device near two nodes stands under both, and nodes are sorted as numbers."""
    allocations = Allocations()
    response = ContainerAllocateResponse(envs={"A": "1", "B": "2"})
    allocations.insert("u", "c", "a.b/c", Allocation({10: ("x",), 2: ("x", "y")}, response))
    content = pod_devices.encode_checkpoint(allocations, {"a.b/c": []})
    assert orjson.loads(content)["Data"]["PodDeviceEntries"][0]["DeviceIDs"] == {"2": ["x", "y"], "10": ["x"]}
    [(*_, found)] = pod_devices.decode_checkpoint(content)[0]
    assert found.devices == {2: ("x", "y"), 10: ("x",)}
    assert found.ids == {"x", "y"}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (REAL[1].replace("tegra", "other"), "^checkpoint is corrupted$"),
        (REAL[1].replace("Checksum", "checksum"), "Checksum"),
        (REAL[1][:80], "unexpected end"),
        ("[]", "list indices"),
        ('{"Data":{"PodDeviceEntries":[7],"RegisteredDevices":{}},"Checksum":1}', "not subscriptable"),
        ('{"Data":null,"Checksum":1}', "not subscriptable"),
    ],
    ids=["changed", "no checksum", "cut off", "a list", "no entries", "no data"],
)
def test_broken_files_are_reported(content, why):
    """For anything that is wrong with a file there is one kind of error."""
    with pytest.raises(UnreadableCheckpointError, match=why):
        pod_devices.decode_checkpoint(content.encode())


def test_an_answer_that_is_no_message_is_an_error():
    """A response that protobuf cannot read spoils the file, if the checksum is right."""
    garbage = base64.b64encode(b"\x0a\xff").decode()
    value = orjson.loads(REAL[1])
    value["Data"]["PodDeviceEntries"][0]["AllocResp"] = garbage
    value["Checksum"] = pod_devices.checksum(pod_devices._printed(value["Data"]))
    with pytest.raises(UnreadableCheckpointError):
        pod_devices.decode_checkpoint(orjson.dumps(value))


def test_the_first_resource_to_name_something_wins():
    """Variables, paths and annotations of several resources are put together, CDI devices without doubles."""
    first = ContainerAllocateResponse(
        envs={"WHO": "first", "ONE": "1"},
        devices=[DeviceSpec(container_path="/dev/x", host_path="/dev/first", permissions="rw")],
        annotations={"note": "first"},
        cdi_devices=[CDIDevice(name="v.com/c=1")],
    )
    second = ContainerAllocateResponse(
        envs={"WHO": "second"},
        devices=[DeviceSpec(container_path="/dev/x", host_path="/dev/second")],
        mounts=[Mount(container_path="/opt", host_path="/srv", read_only=True)],
        cdi_devices=[CDIDevice(name="v.com/c=1"), CDIDevice(name="v.com/c=2")],
    )
    allocations = Allocations()
    allocations.insert("u", "c", "b.com/two", Allocation({-1: ("x",)}, second))
    allocations.insert("u", "c", "a.com/one", Allocation({-1: ("y",)}, first))
    found = injected(allocations.of_container("u", "c"))
    assert found.default_env == {"WHO": "first", "ONE": "1"}
    assert [(node.path, node.host_path, node.permissions) for node in found.nodes] == [
        ("/dev/x", "/dev/first", "rw")
    ]
    assert [(mount.path, mount.host_path, mount.read_only) for mount in found.mounts] == [
        ("/opt", "/srv", True)
    ]
    assert found.annotations == {"note": "first"}
    assert found.cdi_ids == ["v.com/c=1", "v.com/c=2"]
    assert (found.env, injected({}).default_env) == ({}, {})
