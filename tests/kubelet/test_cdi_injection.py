"""CDI specs: what is read, what is refused, and what a container gets of it."""

import json

import pytest
import yaml

from kubeskew.kubelet.cdi import SpecError, check_spec, injected, least_version
from kubeskew.kubelet.device_managers import CDIDevice, DeviceNode, HostMount, InjectionError

KIND = "example.com/gpu"


def spec(**changes):
    made = {
        "cdiVersion": "0.6.0",
        "kind": KIND,
        "containerEdits": {"env": ["COMMON=1", "WINS=spec"]},
        "devices": [
            {
                "name": "gpu0",
                "containerEdits": {
                    "env": ["WINS=device", "GPU=0"],
                    "deviceNodes": [{"path": "/dev/gpu0"}],
                    "mounts": [
                        {"hostPath": "/opt/lib", "containerPath": "/lib/gpu", "options": ["ro", "bind"]}
                    ],
                },
            },
            {
                "name": "gpu1",
                "containerEdits": {"deviceNodes": [{"path": "/dev/gpu1", "permissions": "rw"}]},
            },
        ],
    }
    return {**made, **changes}


def one(**edits):
    return spec(devices=[{"name": "x", "containerEdits": edits}], containerEdits={})


def write(directory, name, content):
    text = yaml.safe_dump(content) if name.endswith(".yaml") else json.dumps(content)
    (directory / name).write_text(text)


@pytest.mark.parametrize("name", ["gpu.json", "gpu.yaml"])
def test_a_container_gets_what_spec_and_device_ask_for(tmp_path, name):
    """The spec's edits once, then each device's; the later one wins. Each device can be injected by
    itself, too."""
    write(tmp_path, name, spec())
    got = injected(tmp_path, [f"{KIND}=gpu0", f"{KIND}=gpu1", f"{KIND}=gpu0"])
    assert got.env == {"COMMON": "1", "WINS": "device", "GPU": "0"}
    assert got.nodes == [
        DeviceNode("/dev/gpu0", "/dev/gpu0", "rwm"),
        DeviceNode("/dev/gpu1", "/dev/gpu1", "rw"),
    ]
    assert got.mounts == [HostMount("/lib/gpu", "/opt/lib", read_only=True, must_exist=True)]
    assert got.cdi == [
        CDIDevice(f"{KIND}=gpu0", {"COMMON": "1", "WINS": "device", "GPU": "0"}, ["/dev/gpu0"], ["/lib/gpu"]),
        CDIDevice(f"{KIND}=gpu1", {"COMMON": "1", "WINS": "spec"}, ["/dev/gpu1"], []),
    ]


def test_unknown_devices_are_refused_all_at_once(tmp_path):
    """Containerd's words, with every name."""
    write(tmp_path, "gpu.json", spec())
    with pytest.raises(InjectionError) as caught:
        injected(tmp_path, [f"{KIND}=gpu0", f"{KIND}=gpu7", "other.com/nic=a"])
    assert str(caught.value) == (
        "failed to create containerd container: CDI device injection failed: "
        f"unresolvable CDI devices {KIND}=gpu7, other.com/nic=a"
    )


def test_a_name_that_two_specs_claim_is_nobodys(tmp_path):
    """Within a directory there is no better one of two."""
    write(tmp_path, "a.json", spec())
    write(tmp_path, "b.json", spec(devices=[spec()["devices"][0]]))
    with pytest.raises(InjectionError, match=r"gpu0$"):
        injected(tmp_path, [f"{KIND}=gpu0", f"{KIND}=gpu1"])


def test_a_broken_file_takes_only_its_own_devices_away(tmp_path):
    """Other files, hidden ones and other suffixes do not matter."""
    write(tmp_path, "good.json", spec())
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "bad.yaml").write_text("- a list")
    (tmp_path / "note.txt").write_text("nothing")
    write(tmp_path, "wrong.json", {"cdiVersion": "0.6.0", "kind": "other.com/nic", "devices": "all"})
    assert injected(tmp_path, [f"{KIND}=gpu1"]).nodes


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        (spec(cdiVersion="9.9"), 'the spec version "9.9" is invalid'),
        (spec(cdiVersion=""), 'the spec version "" is invalid'),
        (spec(kind="gpu"), 'invalid class ""'),
        (spec(kind="-bad/gpu"), 'invalid vendor "-bad"'),
        (spec(devices=[]), "invalid spec, no devices"),
        (spec(devices=[{"name": "x"}]), 'invalid device "x", empty device edits'),
        (spec(devices=spec()["devices"][:1] * 2), 'invalid spec, multiple device "gpu0"'),
        (one(env=["NOVALUE"]), 'invalid environment variable "NOVALUE"'),
        (one(deviceNodes=[{"path": ""}]), "invalid (empty) device path"),
        (one(deviceNodes=[{"path": "/dev/x", "type": "z"}]), 'device "/dev/x": invalid type "z"'),
        (one(mounts=[{"containerPath": "/x"}]), "invalid mount, empty host path"),
        (one(hooks=[{"hookName": "sometime", "path": "/x"}]), 'invalid hook name "sometime"'),
        (one(additionalGids=[4]), "the spec version must be at least v0.7.0"),
        (spec(extra=1), 'error unmarshaling JSON: while decoding JSON: json: unknown field "extra"'),
    ],
)
def test_what_the_library_refuses_is_refused(changed, text):
    """One broken rule, in the library's words."""
    with pytest.raises(SpecError) as caught:
        check_spec(changed)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("made", "version"),
    [
        (one(env=["A=b"]), "0.3.0"),
        (one(mounts=[{"hostPath": "/a", "containerPath": "/b", "type": "bind"}]), "0.4.0"),
        (one(deviceNodes=[{"path": "/dev/a", "hostPath": "/dev/b"}]), "0.5.0"),
        (one(env=["A=b"]) | {"annotations": {"a": "b"}}, "0.6.0"),
        (one(additionalGids=[4]), "0.7.0"),
        (one(intelRdt={"enableCMT": True}), "0.7.0"),
        (one(intelRdt={"enableMonitoring": True}), "1.1.0"),
        (one(netDevices=[{"hostInterfaceName": "eth1", "name": "net0"}]), "1.1.0"),
    ],
)
def test_what_a_spec_uses_asks_for_a_version(made, version):
    """The format's own history."""
    assert least_version(made) == version
