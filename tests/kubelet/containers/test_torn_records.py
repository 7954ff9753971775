"""Torn files that nobody waits for count as nothing after a crash of the machine, and hide nothing."""

from pathlib import Path
from typing import ClassVar

import pytest

from kubeskew.kubelet.containers.cri.records import Records
from kubeskew.kubelet.containers.journal import Journal
from kubeskew.kubelet.containers.remote.pod_cache import RequestFiles
from kubeskew.kubelet.files import StateFiles
from kubeskew.kubelet.protocols.messages import cri_v1_pb2 as messages


@pytest.mark.parametrize("torn", [b"", bytes(512), b'{"request": "', b'{"request"' + bytes(30)])
def test_a_record_of_which_a_part_is_left_is_removed(tmp_path, torn):
    """The others are read."""
    folder = tmp_path / "sandboxes"
    folder.mkdir()
    (folder / "torn.json").write_bytes(torn)
    (folder / "whole.json").write_bytes(b'{"request": "", "created_at": 7}')
    records = Records(tmp_path, StateFiles())
    records.load()
    assert [*records.sandboxes] == ["whole"]
    assert not (folder / "torn.json").exists()


@pytest.mark.parametrize("torn", [b'{"b": ', bytes(100), b'{"b"' + bytes(9) + b"\n", b"\xff\n"])
def test_a_line_that_is_cut_off_hides_no_other(tmp_path, torn):
    """Neither those before it nor what the next process adds."""
    path = tmp_path / "events.jsonl"
    Journal(path).append({"a": 1})
    with path.open("ab") as file:
        file.write(torn)
    journal = Journal(path)
    assert journal.entries() == [{"a": 1}]
    for number in (2, 3):
        journal.append({"a": number})
    assert journal.entries() == Journal(path).entries() == [{"a": 1}, {"a": 2}, {"a": 3}]


class _FillingDisk(StateFiles):
    """Files on a disk with room for so many bytes more; none: for all."""

    room: int | None = None

    def append(self, path: Path, content: bytes) -> None:
        super().append(path, content[: self.room])
        if self.room is not None:
            raise OSError(28, "No space left on device")


@pytest.mark.parametrize("room", [0, 1, 4, 8])
@pytest.mark.parametrize("failures", [1, 2])
def test_an_entry_after_a_failed_one_has_a_line_of_its_own(tmp_path, room, failures):
    """It is not lost to the part of a line that a full disk had room for; the failed one may be."""
    files = _FillingDisk()
    journal = Journal(tmp_path / "events.jsonl", files)
    journal.append({"a": 1})
    files.room = room
    for _ in range(failures):
        with pytest.raises(OSError, match="No space left"):
            journal.append({"a": 2})
    files.room = None
    for number in (3, 4):
        journal.append({"a": number})
    assert [entry for entry in journal.entries() if entry != {"a": 2}] == [{"a": 1}, {"a": 3}, {"a": 4}]


@pytest.mark.parametrize("part", [0, 1, 20])
def test_a_request_of_which_a_part_is_left_is_unknown(tmp_path, part):
    """A node starts without it."""
    requests = RequestFiles(tmp_path, StateFiles())
    sandbox = messages.PodSandboxConfig(hostname="web", labels={"app": "web" * 9})
    container = messages.ContainerConfig(working_dir="/work", labels={"app": "web" * 9})
    requests.keep(sandbox, "s")
    requests.keep(container, "c")
    assert (requests.sandbox("s"), requests.container("c")) == (sandbox, container)
    for path in requests.kept():
        path.write_bytes(path.read_bytes()[:part] or bytes(100))
    assert requests.sandbox("s") == messages.PodSandboxConfig()
    assert requests.container("c") == messages.ContainerConfig()


def test_requests_are_on_the_disk(tmp_path):
    """A crash of the machine does not take what a container was asked for, which no runtime tells."""

    class Noted(StateFiles):
        synced: ClassVar[list] = []

        def write(self, path, content, *, synced=False):
            self.synced.append((path.name, synced))

    requests = RequestFiles(tmp_path, Noted())
    requests.keep(messages.PodSandboxConfig(), "s")
    requests.keep(messages.ContainerConfig(), "c")
    assert Noted.synced == [("s", True), ("c", True)]
