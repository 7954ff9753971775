"""Torn files that nobody waits for count as nothing after a crash of the machine, and hide nothing."""

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
