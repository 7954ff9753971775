"""The files of real kubelets, 1.31 to 1.36: what each reads, refuses and writes."""

import json
from pathlib import Path

import pytest

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.allocation import PodAllocations
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.files import FilesInMemory
from kubeskew.kubelet.node.config import DEFAULT_CAPACITY, NodeConfig
from kubeskew.kubelet.restoration import restored

_DATA = Path(__file__).parent.parent / "data" / "kubelet-files"
_BAD = json.loads((_DATA / "bad-files.json").read_text())
_FILES = [json.loads(line) for line in (_DATA / "files.jsonl").read_text().splitlines()]
_NEIGHBOURS = [json.loads(line) for line in (_DATA / "neighbours.jsonl").read_text().splitlines()]
_TABLE = [json.loads(line) for line in (_DATA / "checkpoints.jsonl").read_text().splitlines()]
_READABLE = [row for row in _FILES if row["file"] not in ("dra_health_state", "kubelet_internal_checkpoint")]
_DIRECTORIES = {"kubelet_internal_checkpoint": "device-plugins/"}


_NODE = NodeConfig("node", capacity=DEFAULT_CAPACITY)
_STATIC_NODE = NodeConfig(
    "node-1",
    capacity={"cpu": "4", "memory": "8Gi"},
    cpu_manager_policy="static",
    memory_manager_policy="Static",
    kube_reserved={"cpu": "1", "memory": "1Gi"},
)


def _gates(minor, *more):
    version = Version.parse(minor)
    gates = {} if version.minor >= 34 else {"DynamicResourceAllocation": True}
    return FeatureGates(version, {**gates, **dict.fromkeys(more, True)})


def _gates_of(kubelet):
    """Returns the gates of a kubelet in the table."""
    minor, *more = kubelet.split("+")
    return _gates(minor, *more, *(["InPlacePodVerticalScaling"] if minor < "1.33" else []))


def _restored(minor, file, content):
    return _restored_by(_gates(minor), file, content)


def _restored_by(gates, file, content, node=_NODE):
    path = _DIRECTORIES.get(file, "") + file
    found, files = restored(node, gates, {path: content.encode()})
    return next((each for each in found if each.file == path), None), files.get(path, b"").decode()


@pytest.mark.parametrize("minor", ["1.31", "1.32", "1.33", "1.34", "1.35", "1.36"])
@pytest.mark.parametrize("row", _BAD, ids=[row["case"] for row in _BAD])
def test_a_bad_file_ends_a_kubelet_as_it_ended_the_real_one(row, minor):
    """A kubelet ends at the same files with the same words as the real one of its minor, or goes on."""
    code, text = row["kubelets"][minor]
    found, _ = _restored(minor, row["file"], row["text"])

    if found is None:  # no kubelet of this release reads the file
        assert (code, text) == (None, "")
        return
    assert (found.refused, found.exit_code) == ((text, code) if code else ("", None))
    if text and not code:
        assert found.given_up.endswith(f": {text}")


@pytest.mark.parametrize("row", _READABLE, ids=[f"{row['minor']} {row['file']}" for row in _READABLE])
def test_a_real_kubelets_file_is_read_and_written_to_the_byte(row):
    """A kubelet of the same minor reads what the real one wrote, and writes the same bytes."""
    found, written = _restored(row["minor"], row["file"], row["text"])

    assert (found.refused, found.given_up) == ("", "")
    assert written == row["text"]


@pytest.mark.parametrize("row", _TABLE, ids=[f"{row['writer']} {row['file']}" for row in _TABLE])
def test_each_kubelet_reads_or_refuses_the_files_of_each_other_one(row):
    """Real kubelets of each minor, and our newest one, wrote the files; ours of a minor says of them what the
    real one of that minor says, and those of our newest are read by real ones."""
    for reader, (code, text) in row["readers"].items():
        found, _ = _restored_by(_gates_of(reader), row["file"], row["text"], _STATIC_NODE)
        if found is None:  # no kubelet of the reader's release reads the file
            assert (code, text) == (None, ""), reader
            continue
        assert (found.refused, found.exit_code) == ((text, code) if code else ("", None)), reader
        assert not found.given_up, reader


@pytest.mark.parametrize("row", _NEIGHBOURS, ids=[f"{row['writer']} {row['file']}" for row in _NEIGHBOURS])
def test_neighbours_read_each_others_files(row):
    """A real kubelet of the next minor, up or down, went on with these files and with the pods in them; so
    does ours, and loses nothing that its release knows of."""
    (reader,) = row["readers"]
    found, _ = _restored(reader, row["file"], row["text"])
    if found is None:  # no kubelet of the reader's release reads the file
        assert row["file"] in ("allocated_pods_state", "actuated_pods_state")
        return
    assert (found.refused, found.given_up) == ("", "")
    assert found.contents == _restored(row["writer"], row["file"], row["text"])[0].contents


@pytest.mark.parametrize("row", _TABLE, ids=[f"{row['writer']} {row['file']}" for row in _TABLE])
def test_a_kubelet_writes_the_tables_files_to_the_byte(row):
    """So what real kubelets make of a real file holds of ours, too. A device's answer is protobuf, in which
    the entries of a map may have any order."""
    found, written = _restored_by(_gates_of(row["writer"]), row["file"], row["text"], _STATIC_NODE)

    assert (found.refused, found.given_up) == ("", "")
    if row["file"] != "kubelet_internal_checkpoint":  # written again only with its plugins' devices
        assert written == row["text"]


@pytest.mark.parametrize("content", [b"{}", b"null"])
def test_what_a_file_does_not_say_is_as_in_an_empty_one(content):
    """A file of pods' allocations without text and sum is an empty one, as in Go."""
    files = FilesInMemory({"allocated_pods_state": content})
    allocations = PodAllocations(Path(), KubeletFeatures.of(_gates("1.36")), files)
    allocations.load()
    assert not allocations.of({"metadata": {"uid": "p"}, "spec": {"containers": []}})
