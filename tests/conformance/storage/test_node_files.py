"""An audit says of the files of a node what the next kubelet says of them at its start."""

import orjson
import pytest

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.conformance.storage.nodes import KeptNode, read_by
from kubeskew.kubelet.checkpoints import cpu_manager_state, pod_allocations
from kubeskew.kubelet.checkpoints.cpu_manager_state import CPUManagerState
from kubeskew.kubelet.checkpoints.pod_allocations import PodsState
from kubeskew.kubelet.dra.claims import ClaimInfo
from kubeskew.kubelet.dra.generations import generation_of
from kubeskew.kubelet.dra.plugin import PreparedDevice
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.node.config import node_config
from kubeskew.kubelet.restoration import restored

RESIZING = "InPlacePodVerticalScaling"
DRA = "DynamicResourceAllocation"
CLAIMS, DEVICES = "dra_manager_state", "device-plugins/kubelet_internal_checkpoint"


def gates(version, **overrides):
    return FeatureGates(Version.parse(version), overrides)


def features(version, **overrides):
    return KubeletFeatures.of(gates(version, **overrides))


def node(files, **settings):
    return KeptNode.of(node_config({"name": "n", **settings}), files)


def claims(version):
    device = PreparedDevice("p", "d", ("r",), ("v/c=d",), "share-1")
    info = ClaimInfo("ns", "c", "uid", {"pod"}, {"drv": [device]}, {"drv": frozenset({"NodePrepare"})})
    return {CLAIMS: generation_of(FeatureGates(Version.parse(version))).codec.encode([info])}


def given(version):
    form = features(version, **{RESIZING: True}).allocation_form
    assert form is not None
    return pod_allocations.encode(PodsState({"pod": {"c": {"requests": {"cpu": "1"}}}}), form)


def losses(kept, before, after):
    return [(each.stored, each.what, *each.details) for each in read_by(kept, 1, before, after)[0]]


def test_what_an_older_kubelet_would_not_know_of_a_claim_is_lost():
    """1.36 knows no calls to leave out, and 1.34 no shares."""
    skips = (CLAIMS, "lost", "entries.ns/c.skippedCalls: {drv: [NodePrepare]}")
    assert losses(node(claims("1.37")), gates("1.37"), gates("1.36")) == [skips]
    shares = (CLAIMS, "lost", "entries.ns/c.devices.drv.0.shareID: share-1")
    assert losses(node(claims("1.35")), gates("1.35"), gates("1.34")) == [shares]
    assert losses(node(claims("1.34")), gates("1.34"), gates("1.35")) == []


def test_a_file_that_the_next_kubelet_does_not_read_is_lost_if_it_holds_anything():
    """1.32 does not look at what 1.33 keeps of resizing, nor a kubelet without the gate at claims."""
    on = {RESIZING: True}
    unread = "a kubelet 1.32 with its gates does not read this file"
    kept = node({"allocated_pods_state": given("1.33")})
    assert losses(kept, gates("1.33"), gates("1.32", **on)) == [("allocated_pods_state", "lost", unread)]
    ((file, what, why),) = losses(node(claims("1.33")), gates("1.33", **{DRA: True}), gates("1.33"))
    assert (file, what) == (CLAIMS, "lost")
    assert "1.33 with its gates" in why
    empty = node({CLAIMS: generation_of(FeatureGates(Version.parse("1.33"))).codec.encode([])})
    assert losses(empty, gates("1.33", **{DRA: True}), gates("1.33")) == []


def test_what_a_pod_was_given_as_a_whole_is_lost_on_the_way_to_1_34():
    """1.34 reads the entries of 1.35, but for what the pod has as a whole."""
    form = features("1.35", **{RESIZING: True}).allocation_form
    resources = {"requests": {"cpu": "1"}}
    state = PodsState({"pod": {"c": resources}}, pod_level={"pod": resources})
    files = {"allocated_pods_state": pod_allocations.encode(state, form)}
    ((file, what, lost),) = losses(node(files), gates("1.35"), gates("1.34"))
    assert (file, what) == ("allocated_pods_state", "lost")
    assert lost == "pods: {pod: {requests: {cpu: 1}}}"
    assert losses(node({"allocated_pods_state": given("1.34")}), gates("1.34"), gates("1.33")) == []


@pytest.mark.parametrize(
    ("files", "settings", "refusal"),
    [
        (claims("1.30"), {}, "failed to get checkpoint dra_manager_state: checkpoint is corrupted"),
        (
            {"cpu_manager_state": b'{"policyName": 1}'},
            {},
            "please drain this node and delete the CPU manager",
        ),
        (
            {
                "cpu_manager_state": cpu_manager_state.encode(
                    CPUManagerState("none"), features("1.33").cpu_state
                )
            },
            {"cpuManagerPolicy": "static", "kubeReserved": {"cpu": "1"}},
            'configured policy "static" differs from state checkpoint policy "none"',
        ),
    ],
)
def test_what_keeps_a_kubelet_from_starting_is_reported_in_its_words(files, settings, refusal):
    """The file is refused, and what it holds is not said to be lost on top of it."""
    found = losses(node(files, **settings), gates("1.33", **{DRA: True}), gates("1.34"))
    assert [each[:2] for each in found] == [(*files, "undrained")]
    assert refusal in found[0][2]


def test_a_kubelet_goes_on_without_a_file_of_devices_that_it_cannot_read():
    """Upstream logs it, and takes the devices of running containers for free."""
    ((file, what, why),) = losses(node({DEVICES: b"xx"}), gates("1.35"), gates("1.34"))
    assert (file, what) == (DEVICES, "lost")
    assert why == (
        "Continue after failing to read checkpoint file. Device allocation info may NOT be up-to-date: "
        "invalid character 'x' looking for beginning of value"
    )


def test_files_go_on_as_the_next_kubelet_writes_them():
    """A step later they are read as that one left them; what it refused is gone, with a new file for it."""
    on = gates("1.31", **{DRA: True})
    _, after = read_by(node(claims("1.30")), 1, gates("1.30", **{DRA: True}), on)
    assert orjson.loads(after.files[CLAIMS])["Data"]
    assert losses(after, on, gates("1.32", **{DRA: True})) == []
    found, files = restored(after.config, on, after.files)
    assert [each.refused for each in found] == [""] * len(found)
    assert {*files} == {CLAIMS, "cpu_manager_state", "memory_manager_state"}
