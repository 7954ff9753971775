"""The DRA manager's checkpoint: what each release writes, and what it cannot read."""

import orjson
import pytest

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.checkpoints.checkpoint_manager import CheckpointError
from kubeskew.kubelet.dra.checkpoint import CheckpointFile
from kubeskew.kubelet.dra.claims import ClaimInfo
from kubeskew.kubelet.dra.generations import generation_of
from kubeskew.kubelet.dra.plugin import PreparedDevice
from kubeskew.kubelet.files import UNJOURNALLED


def claim():
    devices = [PreparedDevice("node-1", "gpu-0", ("req",), ("gpu.example.com/claim=u-req",), "share")]
    return ClaimInfo("default", "c", "u", {"pod-a", "pod-b"}, {"gpu.example.com": devices, "idle": []})


@pytest.mark.parametrize(
    ("written", "read"), [(28, 28), (30, 29), (31, 36), (35, 36), (36, 35), (36, 34), (34, 37)]
)
def test_what_is_stored_is_restored(tmp_path, written, read):
    """Releases with the same format read each other's files."""
    CheckpointFile(tmp_path, generation_of(FeatureGates(Version(written))).codec).store([claim()])
    (restored,) = CheckpointFile(tmp_path, generation_of(FeatureGates(Version(read))).codec).load()

    assert (restored.name, restored.uid, restored.pod_uids) == ("c", "u", {"pod-a", "pod-b"})
    assert restored.devices["gpu.example.com"][0].cdi_ids == ("gpu.example.com/claim=u-req",)
    assert restored.devices["idle"] == []
    assert not restored.prepared


@pytest.mark.parametrize(("written", "read"), [(30, 31), (31, 30), (28, 36)])
@pytest.mark.parametrize("infos", [[], [claim()]], ids=["empty", "one claim"])
def test_the_format_changed_with_1_31(tmp_path, written, read, infos):
    """A kubelet across the change of format finds its checkpoint corrupted, even if nothing is in it."""
    CheckpointFile(tmp_path, generation_of(FeatureGates(Version(written))).codec).store(infos)

    with pytest.raises(CheckpointError, match="checkpoint is corrupted"):
        CheckpointFile(tmp_path, generation_of(FeatureGates(Version(read))).codec).load()


def test_what_a_driver_does_without_is_kept_since_1_37(tmp_path):
    """1.36 ignores it, and loses it with its next write."""
    info = claim()
    info.skips = {"idle": frozenset({"NodePrepareResources", "NodeUnprepareResources"})}
    newer, older = (
        CheckpointFile(tmp_path, generation_of(FeatureGates(Version(minor))).codec) for minor in (37, 36)
    )
    newer.store([info])
    assert newer.load()[0].skips == info.skips
    older.store(older.load())
    assert newer.load()[0].skips == {}


def test_an_older_kubelet_loses_share_ids(tmp_path):
    """1.33 reads a file of 1.36, but what it writes back has no share IDs."""
    CheckpointFile(tmp_path, generation_of(FeatureGates(Version(36))).codec).store([claim()])
    older = CheckpointFile(tmp_path, generation_of(FeatureGates(Version(33))).codec)
    older.store(older.load())
    (restored,) = CheckpointFile(tmp_path, generation_of(FeatureGates(Version(36))).codec).load()

    assert restored.devices["gpu.example.com"][0].share_id == ""


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param(b"{", "unexpected end of JSON input", id="cut short"),
        pytest.param(b"garbage", "invalid character 'g' looking for beginning of value", id="no JSON"),
        pytest.param(b'{"Data": "{}", "Checksum": 1}', "checkpoint is corrupted", id="wrong checksum"),
        pytest.param(b"", "unexpected end of JSON input", id="empty"),
        pytest.param(
            b"[]", "json: cannot unmarshal array into Go value of type state.Checkpoint", id="not an object"
        ),
        pytest.param(
            b'{"Data": 7, "Checksum": 1}',
            "json: cannot unmarshal number into Go struct field Checkpoint.Data of type string",
            id="wrong type",
        ),
        pytest.param(
            b'{"Data": "", "Checksum": 0}',
            "GetEntries.* checkpoint: unexpected end of JSON input",
            id="no claims",
        ),
    ],
)
def test_a_broken_file_is_refused(tmp_path, content, text):
    """A checkpoint that is cut short, of another shape or of a wrong checksum is refused with an error."""
    file = generation_of(FeatureGates(Version(36))).checkpoint(tmp_path, UNJOURNALLED)
    file.store([])
    (tmp_path / "dra_manager_state").write_bytes(content)

    with pytest.raises(CheckpointError, match=text):
        file.load()


def test_the_file_looks_like_upstreams(tmp_path):
    """Keys and nesting as Go writes them, for tools that read the file."""
    file = CheckpointFile(tmp_path, generation_of(FeatureGates(Version(36))).codec)
    file.store([claim()])
    outer = orjson.loads((tmp_path / "dra_manager_state").read_bytes())
    data = orjson.loads(outer["Data"])

    assert set(outer) == {"Data", "Checksum"}
    assert data["kind"] == "DRACheckpoint"
    assert data["apiVersion"] == "checkpoint.dra.kubelet.k8s.io/v1"
    assert data["ClaimInfoStateList"][0]["PodUIDs"] == {"pod-a": {}, "pod-b": {}}
    assert data["ClaimInfoStateList"][0]["DriverState"]["idle"] == {"Devices": None}


@pytest.mark.parametrize(("names", "checksum"), [(["dev-1"], 1656016162), (["dev-1", "dev-2"], 3369508096)])
def test_bytes_are_upstreams(tmp_path, names, checksum):
    """The checksums of upstream's own test (checkpointer_test.go, 1.33) come out to the bit."""
    requests, ids = ("test request",), ("example.com/example=cdi-example",)
    devices = [PreparedDevice("worker-1", name, requests, ids) for name in names]
    pod, uid = "139cdb46-f989-4f17-9561-ca10cfb509a6", "067798be-454e-4be4-9047-1aa06aea63f7"
    info = ClaimInfo("default", "example", uid, {pod}, {"test-driver.cdi.k8s.io": devices})
    CheckpointFile(tmp_path, generation_of(FeatureGates(Version(33))).codec).store([info])
    assert orjson.loads((tmp_path / "dra_manager_state").read_bytes())["Checksum"] == checksum


EXAMPLE = ("ns1", "claim-a", "c-1", {"p-1"}, "gpu.example.com", "gpu", "example.com/gpu=g0", "x")
UPSTREAM = (
    "default",
    "example",
    "067798be-454e-4be4-9047-1aa06aea63f7",
    {"139cdb46-f989-4f17-9561-ca10cfb509a6"},
    "test-driver.cdi.k8s.io",
    "class-name",
    "example.com/example=cdi-example",
    '{"a": "b"}',
)


def classic_claim(namespace, name, uid, pods, driver, class_name, cdi_id, data):
    devices = {driver: [PreparedDevice("", "", cdi_ids=(cdi_id,))]}
    handles = ({"driverName": driver, "data": data},)
    return ClaimInfo(
        namespace, name, uid, pods, devices, driver=driver, class_name=class_name, handles=handles
    )


@pytest.mark.parametrize(
    ("minor", "parts", "checksum"),
    [
        (27, UPSTREAM, 153446146),
        (30, UPSTREAM, 113577689),
        (27, EXAMPLE, 4291645839),
        (28, EXAMPLE, 4228243268),
        (29, EXAMPLE, 4228243268),
        (30, EXAMPLE, 3420367557),
    ],
)
def test_older_bytes_are_upstreams(tmp_path, minor, parts, checksum):
    """Checkpoints of releases in which drivers allocate have upstream's bytes (state_checkpoint_test.go, and
    real files).
    """
    CheckpointFile(tmp_path, generation_of(FeatureGates(Version(minor))).codec).store([classic_claim(*parts)])
    stored = orjson.loads((tmp_path / "dra_manager_state").read_bytes())

    assert stored["checksum"] == checksum
    assert stored["version"] == "v1"
    assert ("ResourceHandles" in stored["entries"][0]) is (minor >= 28)


@pytest.mark.parametrize(
    ("written", "read", "fits"),
    [
        (27, 28, True),
        (27, 30, True),
        (28, 29, True),
        (29, 28, True),
        (28, 27, False),
        (29, 30, False),
        (30, 29, False),
        (30, 31, False),
        (31, 30, False),
    ],
)
def test_moves_between_releases_in_which_drivers_allocate(tmp_path, written, read, fits):
    """A field of the API's own types is enough to break the file: 1.30 cannot read 1.29's (123552)."""
    CheckpointFile(tmp_path, generation_of(FeatureGates(Version(written))).codec).store(
        [classic_claim(*EXAMPLE)]
    )
    file = CheckpointFile(tmp_path, generation_of(FeatureGates(Version(read))).codec)
    if not fits:
        with pytest.raises(CheckpointError, match="checkpoint is corrupted"):
            file.load()
        return
    (restored,) = file.load()

    assert restored.cdi_ids("") == ["example.com/gpu=g0"]
    assert restored.handles[0]["driverName"] == "gpu.example.com"
    assert restored.handles[0]["data"] == ("" if written == 27 else "x")


def test_1_26_keeps_nothing(tmp_path):
    """No file is written, and what another release left is not looked at."""
    file = CheckpointFile(tmp_path, generation_of(FeatureGates(Version(26))).codec)
    file.store([classic_claim(*EXAMPLE)])

    assert not (tmp_path / "dra_manager_state").exists()
    (tmp_path / "dra_manager_state").write_text("broken")
    assert file.load() == []


def test_a_new_node_gets_an_empty_checkpoint(tmp_path):
    """A node has a checkpoint from the start, as upstream's."""
    file = CheckpointFile(tmp_path, generation_of(FeatureGates(Version(36))).codec)
    assert file.load() == []
    assert (tmp_path / "dra_manager_state").exists()
    assert file.load() == []
