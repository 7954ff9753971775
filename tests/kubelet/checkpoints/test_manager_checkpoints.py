"""Checkpoints of CPUs and memory: upstream's bytes and sums, and which minor reads which."""

import json
from dataclasses import replace

import pytest

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.checkpoints import cpu_manager_state, memory_manager_state
from kubeskew.kubelet.checkpoints.checkpoint_manager import CheckpointError
from kubeskew.kubelet.checkpoints.cpu_manager_state import CPUManagerState, CPUSetError
from kubeskew.kubelet.checkpoints.memory_manager_state import MemoryManagerState
from kubeskew.kubelet.features import KubeletFeatures

STATE = CPUManagerState("static", frozenset({0, 3}), {"p-1": {"c": frozenset({1, 2})}})
V2 = '{"policyName":"static","defaultCpuSet":"0,3","entries":{"p-1":{"c":"1-2"}},"checksum":2876075270}'
V4 = (
    V2[:-1] + ',"data":"{\\"policyName\\":\\"static\\",\\"defaultCpuSet\\":\\"0,3\\",'
    '\\"entries\\":{\\"p-1\\":{\\"c\\":\\"1-2\\"}}}","dataChecksum":2670317007}'
)
MACHINE = {
    "0": {
        "numberOfAssignments": 1,
        "memoryMap": {
            "memory": {
                "total": 8192, "systemReserved": 1024, "allocatable": 7168, "reserved": 512, "free": 6656,
            }
        },
        "cells": [0],
    }
}  # fmt: skip
BLOCK = {"numaAffinity": [0], "type": "memory", "size": 512}
MEMORY = MemoryManagerState("Static", MACHINE, {"p-1": {"c": [BLOCK]}})


def formats(minor, *, pod_level=None):
    """Returns the formats of both files in a release."""
    gates = {} if pod_level is None else {"PodLevelResourceManagers": pod_level}
    version = Version(minor)
    features = KubeletFeatures.of(FeatureGates(version, gates))
    return features.cpu_state, features.memory_state


@pytest.mark.parametrize(
    ("minor", "pod_level", "sum_"),
    [(26, None, 2876075270), (35, None, 2876075270), (36, None, 2876075270), (36, True, 3137771204)],
)
def test_each_minor_writes_its_own_cpu_state(minor, pod_level, sum_):
    """Up to 1.36 the file is upstream's V2; with PodLevelResourceManagers on its sum is that of V3."""
    written = cpu_manager_state.encode(STATE, formats(minor, pod_level=pod_level)[0]).decode()
    assert written == V2.replace("2876075270", str(sum_))


def test_the_newest_cpu_state_has_an_older_one_around_it():
    """1.37 writes V4, as upstream's documentation of it shows, which older kubelets read as V2."""
    written = cpu_manager_state.encode(STATE, formats(37)[0])
    assert written.decode() == V4
    assert cpu_manager_state.decode(written, formats(34)[0]) == STATE


@pytest.mark.parametrize("written", [26, 36, 37])
@pytest.mark.parametrize("read", [26, 36, 37])
def test_kubelets_read_each_others_files(written, read):
    """Without alpha gates every release reads the CPUs and the memory that another has stored."""
    cpus, memory = formats(written)
    assert cpu_manager_state.decode(cpu_manager_state.encode(STATE, cpus), formats(read)[0]) == STATE
    stored = memory_manager_state.encode(MEMORY, memory)
    assert memory_manager_state.decode(stored, formats(read)[1]) == MEMORY


@pytest.mark.parametrize(
    ("minor", "error"),
    [
        (35, "checkpoint is corrupted"),
        (
            36,
            (
                "json: cannot unmarshal object into Go struct field CPUManagerCheckpointV1.entries of type "
                "string"
            ),
        ),
    ],
)
def test_files_of_the_alpha_gate_are_read_with_it_alone(minor, error):
    """Files that 1.36 stores with PodLevelResourceManagers on are corrupted for older kubelets and without
    the gate, and readable for 1.37."""
    cpus, memory = formats(36, pod_level=True)
    stored = cpu_manager_state.encode(STATE, cpus)
    with pytest.raises(CheckpointError, match=error.replace(".", r"\.")):
        cpu_manager_state.decode(stored, formats(minor)[0])
    assert cpu_manager_state.decode(stored, formats(37)[0]) == STATE
    stored = memory_manager_state.encode(MEMORY, memory)
    with pytest.raises(CheckpointError, match="checkpoint is corrupted"):
        memory_manager_state.decode(stored, formats(minor)[1])
    assert memory_manager_state.decode(stored, formats(37)[1]) == MEMORY


OF_PODS = replace(STATE, shared=frozenset({0}), pods={"p-2": frozenset({3, 7, 8, 9})})
MEMORY_OF_PODS = replace(MEMORY, pods={"p-2": [BLOCK]})


def test_what_whole_pods_have_is_lost_by_who_does_not_know_it():
    """1.36 with the gate and 1.37 read what they write of whole pods; others read the older file in it."""
    cpus, memory = formats(36, pod_level=True)
    written = cpu_manager_state.encode(OF_PODS, cpus)
    assert b'"podEntries":{"p-2":{"cpuSet":"3,7-9"}}' in written
    assert cpu_manager_state.decode(written, cpus) == OF_PODS
    assert cpu_manager_state.decode(written, formats(37)[0]) == OF_PODS
    written = memory_manager_state.encode(MEMORY_OF_PODS, memory)
    assert memory_manager_state.decode(written, memory) == MEMORY_OF_PODS
    cpus, memory = formats(37)
    written = cpu_manager_state.encode(OF_PODS, cpus)
    assert cpu_manager_state.decode(written, cpus) == OF_PODS
    for older in (formats(36), formats(37, pod_level=False)):
        assert cpu_manager_state.decode(written, older[0]) == replace(OF_PODS, pods={})
    written = memory_manager_state.encode(MEMORY_OF_PODS, memory)
    assert memory_manager_state.decode(written, memory) == MEMORY_OF_PODS
    for older in (formats(36), formats(37, pod_level=False)):
        assert memory_manager_state.decode(written, older[1]) == MEMORY


def test_empty_files_are_those_of_real_nodes():
    """A node without policies has the files that every node has."""
    cpus, memory = formats(35)
    empty = cpu_manager_state.encode(CPUManagerState("none"), cpus).decode()
    assert empty == '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'
    empty = memory_manager_state.encode(MemoryManagerState("None"), memory).decode()
    assert empty == '{"policyName":"None","machineState":{},"checksum":4236770233}'


def data_of(contents, sum_, **outer):
    """Returns a file whose text has these contents."""
    return json.dumps({**outer, "data": json.dumps(contents, separators=(",", ":")), "dataChecksum": sum_})


CPU_ENTRIES = {"container1": "4-6", "container2": "1-3"}
OUTER = {"policyName": "other", "defaultCPUSet": "1-9", "checksum": 1234}


@pytest.mark.parametrize(
    ("text", "shared"),
    [
        (data_of({"policyName": "none", "defaultCPUSet": "4-6"}, 657950972, **OUTER), "4-6"),
        (
            data_of({"policyName": "none", "defaultCPUSet": "4-6", "unknownField": "value"}, 3492408555),
            "4-6",
        ),
        (
            data_of(
                {"policyName": "static", "defaultCPUSet": "7-9", "entries": {"pod": CPU_ENTRIES}}, 1420829534
            ),
            "7-9",
        ),
        (
            (
                '{"policyName": "static", "defaultCPUSet": "7-9", "entries": {"pod": '
                '{"container1": "4-6", "container2": "1-3"}}, "checksum": 1942532442}'
            ),
            "7-9",
        ),
        (
            (
                '{"policyName": "static", "defaultCPUSet": "1-2", "entries": {"pod1": {"container1": "5-6",'
                '"container2": "3-4"}}, "podEntries": {"pod2": {"cpuSet": "7-9"}}, "checksum": 766259872}'
            ),
            "1-2",
        ),
    ],
)
def test_upstreams_own_cpu_files_are_read(text, shared):
    """The sums of upstream's tests fit, also those of the CPUs of whole pods and of data with new fields."""
    state = cpu_manager_state.decode(text.encode(), formats(37)[0])
    assert state.shared == cpu_manager_state.parse_set(shared)
    assert state.pods == ({"pod2": cpu_manager_state.parse_set("7-9")} if "podEntries" in text else {})


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{", "unexpected end of JSON input"),
        (
            '{"policyName": "static", "checksum": 1942532442, "dataChecksum": 1234}',
            (
                "could not load v4 checkpoint: failed to deserialize cpu manager checkpoint data: "
                "unexpected end of JSON input"
            ),
        ),
        (
            data_of({"policyName": "static"}, 0),
            "could not load v4 checkpoint: checkpoint is corrupted",
        ),
        (
            data_of({"policyName": "none", "defaultCPUSet": "1.3"}, 3033143655),
            'could not parse default CPU set "1.3": strconv.Atoi: parsing "1.3": invalid syntax',
        ),
        (
            data_of(
                {
                    "policyName": "static",
                    "defaultCPUSet": "1-3",
                    "entries": {"pod": {"container1": "4-6", "container2": "asd"}},
                },
                3794806925,
            ),
            (
                'could not parse cpuset "asd" for container "container2" in pod "pod": '
                'strconv.Atoi: parsing "asd": invalid syntax'
            ),
        ),
        ('{"policyName": "none", "defaultCPUSet": "1-3", "checksum": 1694838852}', "checkpoint is corrupted"),
        (
            (
                '{"policyName": "static", "defaultCPUSet": "7-9", '
                '"entries": {"containerID1": "4-6"}, "checksum": 2026311253}'
            ),
            (
                "json: cannot unmarshal string into Go struct field CPUManagerCheckpointV2.entries of type "
                "map[string]string"
            ),
        ),
        ("7", "json: cannot unmarshal number into Go value"),
        (
            '{"policyName": 7}',
            (
                "json: cannot unmarshal number into Go struct field CPUManagerCheckpointV2.policyName "
                "of type string"
            ),
        ),
    ],
)
def test_upstreams_errors_over_cpu_files(text, error):
    """A file that 1.37 cannot read has the error of upstream's tests."""
    with pytest.raises(CheckpointError) as refused:
        cpu_manager_state.decode(text.encode(), formats(37)[0])
    assert str(refused.value) == error


def test_files_of_the_oldest_kubelets():
    """Up to 1.36 a file whose entries name containers' ids is read, and none of them is a fake node's."""
    old = b'{"policyName": "none", "defaultCPUSet": "1-3", "checksum": 1694838852}'
    for minor in (35, 36):
        assert cpu_manager_state.decode(old, formats(minor)[0]).shared == {1, 2, 3}
    entries = b'{"policyName": "static", "defaultCPUSet": "0", "entries": {"id": "1"}, "checksum": 0}'
    with pytest.raises(CheckpointError, match="containerID 'id' not found in initial containers list"):
        cpu_manager_state.decode(entries, formats(35)[0])


CONTENTS = {
    "policyName": "static",
    "machineState": {
        "0": {
            "numberOfAssignments": 0,
            "memoryMap": {
                "memory": {
                    "total": 2048,
                    "systemReserved": 512,
                    "allocatable": 1536,
                    "reserved": 512,
                    "free": 1024,
                }
            },
            "cells": [],
        }
    },
    "entries": {"pod": {"container1": [BLOCK]}},
}
PODS = {"podEntries": {"pod": {"memoryBlocks": [BLOCK]}}}


@pytest.mark.parametrize(
    ("minor", "text"),
    [
        (35, json.dumps({**CONTENTS, "checksum": 4215593881})),
        (35, json.dumps({**CONTENTS, "checksum": 0})),
        (37, json.dumps({**CONTENTS, "checksum": 4215593881})),
        (37, json.dumps({**CONTENTS, **PODS, "checksum": 1278640530})),
        (37, data_of(CONTENTS, 1849615440, policyName="other", checksum=1234)),
        (37, data_of({**CONTENTS, **PODS}, 637296054)),
    ],
)
def test_upstreams_own_memory_files_are_read(minor, text):
    """The sums of upstream's tests fit in each format."""
    pods = {"pod": [BLOCK]} if "podEntries" in text else {}
    expected = MemoryManagerState("static", CONTENTS["machineState"], CONTENTS["entries"])
    assert memory_manager_state.decode(text.encode(), formats(minor)[1]) == replace(expected, pods=pods)
    off = formats(minor, pod_level=False if minor > 35 else None)[1]
    assert memory_manager_state.decode(text.encode(), off) == expected


@pytest.mark.parametrize(
    ("minor", "text", "error"),
    [
        (35, json.dumps({**CONTENTS, "checksum": 101010}), "checkpoint is corrupted"),
        (37, json.dumps({**CONTENTS, **PODS, "checksum": 101010}), "checkpoint is corrupted"),
        (37, data_of(CONTENTS, 1234), "could not load v3 checkpoint: checkpoint is corrupted"),
        (
            37,
            '{"data": "{", "dataChecksum": 1234}',
            (
                "could not load v3 checkpoint: failed to deserialize memory manager checkpoint data: "
                "unexpected end of JSON input"
            ),
        ),
        (37, "{", "unexpected end of JSON input"),
    ],
)
def test_upstreams_errors_over_memory_files(minor, text, error):
    """A file that cannot be read has the error of upstream's tests."""
    with pytest.raises(CheckpointError) as refused:
        memory_manager_state.decode(text.encode(), formats(minor)[1])
    assert str(refused.value) == error


def test_a_release_without_the_gate_has_no_memory_manager():
    """MemoryManager could be turned off until 1.31."""
    version = Version(31)
    assert KubeletFeatures.of(FeatureGates(version, {"MemoryManager": False})).memory_state is None


@pytest.mark.parametrize(("text", "cpus"), [("", []), ("0", [0]), ("0-2,5", [0, 1, 2, 5]), ("7,1-1", [1, 7])])
def test_sets_of_cpus_are_read_as_go_reads_them(text, cpus):
    """A set is a list of numbers and ranges, in any order."""
    assert sorted(cpu_manager_state.parse_set(text)) == cpus


def test_sets_of_cpus_are_written_short():
    """A set is written as ranges, and read again the same."""
    assert cpu_manager_state.format_set([9, 0, 1, 2, 5]) == "0-2,5,9"
    with pytest.raises(CPUSetError, match=r'invalid range "3-1" \(3 > 1\)'):
        cpu_manager_state.parse_set("3-1")
