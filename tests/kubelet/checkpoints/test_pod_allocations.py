"""The files of in-place resizing: upstream's bytes and sums, and what is kept over a restart."""

import pytest

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.allocation import ACTUATED, ALLOCATED, STATUS_MANAGER, PodAllocations, Resizer
from kubeskew.kubelet.checkpoints import pod_allocations
from kubeskew.kubelet.checkpoints.checkpoint_manager import CheckpointError
from kubeskew.kubelet.checkpoints.pod_allocations import AllocationForm, PodsState
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.files import UNJOURNALLED, StateFiles

EXAMPLE = PodsState({"p-1": {"c": {"requests": {"cpu": "500m"}}}})
GATE = "InPlacePodVerticalScaling"


def pod(uid, cpu="500m", **resources):
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu, **resources}}}]}
    return {"metadata": {"uid": uid}, "spec": spec}


def allocations(directory, minor, *, gate=True):
    """Returns the allocations that a kubelet of a release loads."""
    found = PodAllocations(directory, features_of_minor(minor, gate=gate), UNJOURNALLED)
    found.load()
    return found


def features_of_minor(minor, *, gate=True):
    version = Version(minor)
    return KubeletFeatures.of(FeatureGates(version, {GATE: gate}))


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (
            AllocationForm.TEXT,
            (
                '{"data":"{\\"allocationEntries\\":{\\"p-1\\":{\\"c\\":{\\"requests\\":{\\"cpu\\":\\"500m\\"}}}}}",'
                '"checksum":3903385002}'
            ),
        ),
        (
            AllocationForm.POD_ENTRIES,
            (
                '{"data":"{\\"entries\\":{\\"p-1\\":{\\"ContainerResources\\":{\\"c\\":{\\"requests\\":'
                '{\\"cpu\\":\\"500m\\"}}}}}}","checksum":689418746}'
            ),
        ),
    ],
)
def test_files_are_upstreams(form, text):
    """A file is written and read as upstream's, byte for byte."""
    assert pod_allocations.encode(EXAMPLE, form).decode() == text
    assert pod_allocations.decode(text.encode(), form) == EXAMPLE


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (
            AllocationForm.TEXT,
            (
                '{"data":"{\\"allocationEntries\\":{\\"pod1\\":{\\"container1\\":{\\"requests\\":{\\"cpu\\":'
                '\\"1Ki\\",\\"memory\\":\\"1Ki\\"}}}}}","checksum":1555601526}'
            ),
        ),
        (
            AllocationForm.POD_ENTRIES,
            (
                '{"data":"{\\"entries\\":{\\"pod1\\":{\\"ContainerResources\\":{\\"container1\\":{\\"requests\\":'
                '{\\"cpu\\":\\"1Ki\\",\\"memory\\":\\"1Ki\\"}}}}}}","checksum":1178570812}'
            ),
        ),
    ],
)
def test_sums_of_upstreams_tests_fit(form, text):
    """The files in upstream's tests are read."""
    found = pod_allocations.decode(text.encode(), form)
    assert found == PodsState({"pod1": {"container1": {"requests": {"cpu": "1Ki", "memory": "1Ki"}}}})


@pytest.mark.parametrize("amount", ["1000", "1024Ki", "1024Mi", "1024Gi", "1024Ei"])
def test_quantities_that_fail_in_upstreams_own_test(amount):
    """Before 1.32 a quantity that is written otherwise than it was made leaves a file that cannot be read."""
    state = PodsState({"p": {"c": {"requests": {"cpu": amount}}}})
    written = pod_allocations.encode(state, AllocationForm.STRUCTS)
    with pytest.raises(CheckpointError, match="checkpoint is corrupted"):
        pod_allocations.decode(written, AllocationForm.STRUCTS)


@pytest.mark.parametrize("unit", ["Ti", "Pi", "n", "u", "m", "k", "M", "G", "T", "P"])
def test_quantities_that_pass_in_upstreams_own_test(unit):
    """Other quantities of the same test leave a file that can be read."""
    state = PodsState({"p": {"c": {"requests": {"cpu": f"1024{unit}"}}}})
    written = pod_allocations.encode(state, AllocationForm.STRUCTS)
    assert sorted(pod_allocations.decode(written, AllocationForm.STRUCTS).allocated) == ["p"]


@pytest.mark.parametrize(("written", "read"), [(31, 32), (32, 31)])
def test_the_release_with_another_sum_does_not_start(tmp_path, written, read):
    """1.31 and 1.32 cannot read each other's file, even if no pod is in it."""
    allocations(tmp_path, written)
    with pytest.raises(CheckpointError) as refused:
        allocations(tmp_path, read)
    assert str(refused.value) == (
        "could not restore state from checkpoint: checkpoint is corrupted, please drain this node and delete "
        'pod allocation checkpoint file "/var/lib/kubelet/pod_status_manager_state" before restarting Kubelet'
    )


def test_a_broken_file_of_the_allocation_manager(tmp_path):
    """Since 1.33 the text names another file, and says what the kubelet keeps there."""
    (tmp_path / ALLOCATED).write_text("{")
    with pytest.raises(CheckpointError) as refused:
        allocations(tmp_path, 36)
    assert str(refused.value) == (
        "could not restore state from checkpoint: unexpected end of JSON input, please drain this node and "
        "delete pod resource information checkpoint file "
        '"/var/lib/kubelet/allocated_pods_state" before restarting Kubelet'
    )


@pytest.mark.parametrize("minor", [27, 31, 32, 33, 36])
def test_allocations_outlive_the_kubelet(tmp_path, minor):
    """The next kubelet of the release knows what a pod was given."""
    allocations(tmp_path, minor).give(pod("p-1"))
    assert allocations(tmp_path, minor).of(pod("p-1"))["c"]["requests"] == {"cpu": "500m"}


@pytest.mark.parametrize("minor", [27, 31])
def test_what_became_of_a_resize_outlives_the_kubelet(tmp_path, minor):
    """Up to 1.31 the file has the status of a resize until it is done or its pod is gone."""
    found = allocations(tmp_path, minor)
    found.give(pod("p-1"))
    found.decide("p-1", "Deferred")
    allocations(tmp_path, minor)
    file = tmp_path / STATUS_MANAGER
    assert '"resizeStatusEntries":{"p-1":"Deferred"}' in file.read_text().replace("\\", "")
    state = pod_allocations.decode(file.read_bytes(), features_of_minor(minor).allocation_form)
    assert state.resize_statuses == {"p-1": "Deferred"}
    found.decide("p-1", "")
    assert "resizeStatusEntries" not in file.read_text()
    found.decide("p-1", "Infeasible")
    found.remove("p-1")
    assert "resizeStatusEntries" not in file.read_text()


@pytest.mark.parametrize(("minor", "file"), [(32, STATUS_MANAGER), (33, ALLOCATED)])
def test_since_1_32_no_file_has_what_became_of_a_resize(tmp_path, minor, file):
    """The pod's status says it alone."""
    found = allocations(tmp_path, minor)
    found.give(pod("p-1"))
    found.decide("p-1", "Deferred")
    assert "Deferred" not in (tmp_path / file).read_text()


@pytest.mark.parametrize("minor", [34, 36])
def test_what_a_pod_has_as_a_whole_is_kept_with_its_gate(tmp_path, minor):
    """Since 1.35 the files have it: what was given with the gate of its resizing, what is actuated always."""
    whole = pod("p-1")
    whole["spec"]["resources"] = {"requests": {"cpu": "1"}}
    version = Version(minor)
    gates = dict.fromkeys(("PodLevelResources", "InPlacePodLevelResourcesVerticalScaling"), minor == 36)
    features = KubeletFeatures.of(FeatureGates(version, {n: v for n, v in gates.items() if v}))
    found = PodAllocations(tmp_path, features, UNJOURNALLED)
    found.give(whole)
    found.actuate(whole, whole["spec"]["containers"][0])
    for name in (ALLOCATED, ACTUATED):
        state = pod_allocations.decode((tmp_path / name).read_bytes(), features.allocation_form)
        assert state.pod_level == ({"p-1": {"requests": {"cpu": "1"}}} if minor == 36 else {})


def test_a_status_is_part_of_the_sum(tmp_path):
    """A file whose status was changed by hand is not read."""
    found = allocations(tmp_path, 31)
    found.give(pod("p-1"))
    found.decide("p-1", "Deferred")
    file = tmp_path / STATUS_MANAGER
    file.write_text(file.read_text().replace("Deferred", "Infeasible"))
    with pytest.raises(CheckpointError, match="checkpoint is corrupted"):
        allocations(tmp_path, 31)


def test_limits_are_those_that_a_pod_has_now_where_requests_alone_are_kept(tmp_path):
    """Up to 1.31 the file has requests; since 1.32 it has limits, too."""
    limited = pod("p-1")
    limited["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "2"}
    for minor, expected in ((31, {"cpu": "3"}), (32, {"cpu": "2"})):
        directory = tmp_path / str(minor)
        directory.mkdir()
        allocations(directory, minor).give(limited)
        raised = pod("p-1", cpu="1")
        raised["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "3"}
        found = allocations(directory, minor).of(raised)["c"]
        assert found == {"limits": expected, "requests": {"cpu": "500m"}}


@pytest.mark.parametrize(("written", "read"), [(32, 33), (33, 32)])
def test_allocations_are_lost_where_another_file_is_looked_for(tmp_path, written, read):
    """A release that has another file starts without any allocation."""
    allocations(tmp_path, written).give(pod("p-1"))
    assert not allocations(tmp_path, read).of(pod("p-1"))


@pytest.mark.parametrize(("written", "read"), [(33, 36), (36, 33), (34, 35)])
def test_allocations_of_other_releases_with_the_same_files_are_read(tmp_path, written, read):
    """The entries since 1.33 are the same but for what the pod has as a whole."""
    allocations(tmp_path, written).give(pod("p-1"))
    assert allocations(tmp_path, read).of(pod("p-1"))


def test_no_file_is_touched_without_the_gate(tmp_path):
    """With the gate off nothing is read and nothing written."""
    (tmp_path / STATUS_MANAGER).write_text("broken")
    without = allocations(tmp_path, 31, gate=False)
    without.give(pod("p-1"))
    without.actuate(pod("p-1"), pod("p-1")["spec"]["containers"][0])
    without.remove("p-1")
    without.retain([])
    assert not without.of(pod("p-1"))
    assert [path.name for path in tmp_path.iterdir()] == [STATUS_MANAGER]


@pytest.mark.parametrize(("minor", "kept"), [(32, False), (36, True)])
def test_pods_that_are_gone(tmp_path, minor, kept):
    """A pod that is removed is gone from the file at once up to 1.32, and with the next change since."""
    name = STATUS_MANAGER if minor == 32 else ALLOCATED
    found = allocations(tmp_path, minor)
    found.give(pod("p-1"))
    found.give(pod("p-2"))
    found.remove("p-1")
    assert ("p-1" in (tmp_path / name).read_text()) == kept
    found.give(pod("p-3"))
    assert "p-1" not in (tmp_path / name).read_text()
    found.retain(["p-3"])
    assert not found.of(pod("p-2"))


def test_what_runs_is_kept_next_to_what_is_given(tmp_path):
    """Since 1.33 a second file has what containers were started with."""
    found = allocations(tmp_path, 36)
    found.actuate(pod("p-1"), {"name": "c", "resources": {"requests": {"cpu": "1"}}})
    written = (tmp_path / ACTUATED).read_bytes()
    assert pod_allocations.decode(written, AllocationForm.POD_LEVEL) == PodsState(
        {"p-1": {"c": {"requests": {"cpu": "1"}}}}
    )
    assert not (tmp_path / ALLOCATED).exists()


def test_missing_amounts_become_zeros_that_cannot_be_read(tmp_path):
    """In 1.27 the second start after a pod without a request of memory fails (issue 117589)."""
    allocations(tmp_path, 27).give(pod("p-1"))
    allocations(tmp_path, 27).give(pod("p-1"))
    assert '"c":{"cpu":"500m","memory":"0"}' in (tmp_path / STATUS_MANAGER).read_text()
    with pytest.raises(CheckpointError, match="checkpoint is corrupted"):
        allocations(tmp_path, 27)


def test_a_restarted_kubelet_goes_on_from_what_was_given():
    """A resize that was not given before a restart is still to be given after it."""
    resizer = Resizer({"c": {"requests": {"cpu": "500m"}}})
    wanted = pod("p-1", cpu="2")
    assert resizer.allocated(wanted)["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "500m"}}
    assert resizer.resize(wanted, None) == []
    assert Resizer({}).allocated(wanted) is wanted


class _FullDisk(StateFiles):
    """Files on a disk that is full for a while."""

    full = False

    def write(self, path, content, *, synced=False):
        if self.full:
            raise OSError(28, "No space left on device")
        super().write(path, content, synced=synced)


@pytest.mark.parametrize("goes_on", [True, False])
def test_what_cannot_be_written_counts_all_the_same_where_a_kubelet_goes_on(tmp_path, goes_on):
    """It is in the file after another change only, and so not where the kubelet restarts before."""
    version = Version(36)
    features = KubeletFeatures.of(FeatureGates(version, bugs={"k8s-141206": goes_on}))
    files = _FullDisk()
    found = PodAllocations(tmp_path, features, files)
    found.load()
    found.give(pod("p-1"))
    files.full = True
    if goes_on:
        found.give(pod("p-2"))
    else:
        with pytest.raises(OSError, match="No space left"):
            found.give(pod("p-2"))

    assert bool(found.of(pod("p-2"))) is goes_on
    assert not allocations(tmp_path, 36).of(pod("p-2"))
    files.full = False
    found.give(pod("p-2"))
    assert bool(allocations(tmp_path, 36).of(pod("p-2"))) is not goes_on
    found.give(pod("p-3"))
    assert allocations(tmp_path, 36).of(pod("p-2"))
