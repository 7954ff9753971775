"""The journal of a node's files: what they were at each revision, whoever wrote them and however he ended."""

import dataclasses
import os
import socket
from pathlib import Path

import pytest

from kubeskew.kubelet import journal
from kubeskew.kubelet.files import TEMPORARY
from kubeskew.kubelet.journal import FilesForgottenError, JournalledFiles, node_files_at, restore_node


@dataclasses.dataclass
class Writer:
    """A process that writes, and the newest revision that it has seen."""

    seen: int = 0

    def newest(self):
        return self.seen


@pytest.fixture
def node(tmp_path):
    return tmp_path / "node-1"


@pytest.fixture
def kubelet():
    return Writer()


@pytest.fixture
def files(node, kubelet):
    return JournalledFiles(node, kubelet.newest)


def on_disk(node):
    """Returns the node's files as they are."""
    paths = [path for path in node.rglob("*") if path.is_file() and "journal" not in path.parts]
    return {path.relative_to(node).as_posix(): path.read_bytes() for path in paths}


def test_files_are_known_at_each_revision(node, kubelet, files):
    """A file is at a revision what was written last when that revision, or an older one, was current."""
    checkpoint, events = node / "kubelet" / "state", node / "runtime" / "events.jsonl"
    kubelet.seen = 3
    files.write(checkpoint, b"one")
    files.append(events, b"a\n")
    kubelet.seen = 5
    files.write(checkpoint, b"\xff\x00")
    files.append(events, b"b\n")
    kubelet.seen = 8
    files.remove(checkpoint)
    assert node_files_at(node, 2) == {}
    assert node_files_at(node, 4) == {"kubelet/state": b"one", "runtime/events.jsonl": b"a\n"}
    assert node_files_at(node, 5) == {"kubelet/state": b"\xff\x00", "runtime/events.jsonl": b"a\nb\n"}
    assert node_files_at(node, 100) == on_disk(node) == {"runtime/events.jsonl": b"a\nb\n"}


def test_a_plugin_that_saw_less_writes_no_earlier_than_it_was_called(node, kubelet, files):
    """A driver's writes in a call count from the revision at which the kubelet called it."""
    driver = JournalledFiles(node, Writer(2).newest)
    kubelet.seen = 7
    files.mark()
    files.mark()
    driver.write(node / "cdi" / "claim.json", b"{}")
    assert node_files_at(node, 6) == {}
    assert node_files_at(node, 7) == {"cdi/claim.json": b"{}"}
    records = journal.segment_path(node / "journal", 1).read_bytes().splitlines()
    assert len(records) == 2, "a revision is marked once"


def test_a_new_process_begins_with_what_it_finds(node, kubelet, files):
    """A file that was written, removed or edited past the journal is journalled when a kubelet starts."""
    kubelet.seen = 4
    for name in ("edited", "removed", "kept"):
        files.write(node / "kubelet" / name, b"old")
    files.make_directory(node / "kubelet" / "device-plugins")
    (node / "kubelet" / "edited").write_bytes(b"new")
    (node / "kubelet" / "removed").unlink()
    (node / "kubelet" / "written").write_bytes(b"by a kubelet that died before it could say so")
    (node / "kubelet" / f".written.1{TEMPORARY}").write_bytes(b"half")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(node / "s"))
        JournalledFiles(node, Writer().newest).reconcile()
    found = node_files_at(node, 4)
    assert found.pop("kubelet/device-plugins/") == b""
    assert found == {name: on_disk(node)[name] for name in found}
    assert sorted(found) == ["kubelet/edited", "kubelet/kept", "kubelet/written"]


def test_a_directory_that_is_gone_is_forgotten(node, files):
    """A directory that somebody has removed is none of the node's any more after a start."""
    files.make_directory(node / "device-plugins")
    files.make_directory(node / "device-plugins")
    (node / "device-plugins").rmdir()
    files.reconcile()
    assert node_files_at(node, 0) == {}


def test_a_record_cut_off_by_sigkill_is_none(node, kubelet, files):
    """A writer that died within a record hides no other record."""
    kubelet.seen = 4
    files.write(node / "a", b"1")
    with journal.segment_path(node / "journal", 1).open("ab") as segment:
        segment.write(b'{"revision": 4, "write": "a", "te')
    assert node_files_at(node, 4) == {"a": b"1"}
    files.write(node / "b", b"2")
    assert node_files_at(node, 4) == {"a": b"1", "b": b"2"}


def test_a_torn_end_of_a_segment_hides_no_later_one(node, kubelet):
    """A crash of the machine may leave zeros where a segment ended; what follows is known all the same."""
    files = JournalledFiles(node, kubelet.newest, most=2000)
    revision = 0
    while len(journal.segment_numbers(node / "journal")) < 2:
        revision = kubelet.seen = revision + 1
        files.write(node / "state", str(revision).encode())
    with journal.segment_path(node / "journal", 1).open("ab") as segment:
        segment.write(bytes(100))
    kubelet.seen = revision + 1
    files.write(node / "state", b"later")
    assert node_files_at(node, revision + 1) == {"state": b"later"}
    assert node_files_at(node, 3) == {"state": b"3"}


def test_what_is_synced_is_synced_before_anything_refers_to_it(node, files, monkeypatch):
    """A checkpoint, its name, and its record in the journal are on the disk when `write` returns."""
    synced = []
    real = os.fsync

    def fsync(descriptor):
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        synced.append(path.relative_to(node.parent).as_posix())
        real(descriptor)

    files.write(node / "kubelet" / "state", b"0", synced=True)
    monkeypatch.setattr(os, "fsync", fsync)
    files.write(node / "loose", b"1")
    assert synced == []
    files.write(node / "kubelet" / "state", b"2", synced=True)
    assert [name.replace(str(os.getpid()), "PID") for name in synced] == [
        f"node-1/kubelet/.state.PID{TEMPORARY}",
        "node-1/kubelet",
        "node-1/journal/00000001.jsonl",
    ]


def test_the_journal_is_bounded_and_says_where_it_begins(node, kubelet):
    """Old segments are removed; within the others every revision is known, and before them none."""
    files = JournalledFiles(node, kubelet.newest, most=2000)
    for revision in range(1, 200):
        kubelet.seen = revision
        files.write(node / "state", str(revision).encode())
        files.write(node / "other", b"always")
    numbers = journal.segment_numbers(node / "journal")
    assert len(numbers) == journal.KEPT
    assert sum(path.stat().st_size for path in (node / "journal").iterdir()) < journal.KEPT * 2500
    with pytest.raises(
        FilesForgottenError, match=r"node-1 are known from revision (\d+) on, not at 10"
    ) as refused:
        node_files_at(node, 10)
    first = int(str(refused.value).split("revision ")[1].split()[0])
    for revision in range(first, 200):
        assert node_files_at(node, revision)["state"] == str(revision).encode()


def test_files_larger_than_a_segment_are_not_copied_at_every_change(node, kubelet):
    """A segment has room for several times what it begins with."""
    files = JournalledFiles(node, kubelet.newest, most=1000)
    files.write(node / "large", b"x" * 5000)
    for number in range(20):
        files.write(node / "small", str(number).encode())
    assert journal.segment_numbers(node / "journal") == [1]


def test_restored_files_have_their_journal(node, kubelet, tmp_path):
    """A node that is restored at a revision knows its past, and goes on journalling from there."""
    files = JournalledFiles(node, kubelet.newest, most=2000)
    files.make_directory(node / "kubelet" / "device-plugins")
    for revision in range(1, 200):
        kubelet.seen = revision
        files.write(node / "kubelet" / "state", str(revision).encode())
    restored = tmp_path / "fork" / "node-1"
    restore_node(node, 150, restored)
    assert on_disk(restored) == {"kubelet/state": b"150"}
    assert (restored / "kubelet" / "device-plugins").is_dir()
    again = JournalledFiles(restored, Writer(151).newest)
    again.write(restored / "kubelet" / "state", b"otherwise")
    assert node_files_at(restored, 140)["kubelet/state"] == b"140"
    assert node_files_at(restored, 151)["kubelet/state"] == b"otherwise"
    assert node_files_at(node, 151)["kubelet/state"] == b"151"
