"""The state directory: record, lock, modes."""

import stat
from pathlib import Path

import pytest

from kubeskew.cluster.failures import ClusterError, UserError
from kubeskew.cluster.state import Process, State, StateDir


def test_the_record_comes_back_as_it_was_written(tmp_path: Path):
    """A saved record is loaded unchanged."""
    directory = StateDir(tmp_path / "state")
    state = State(runtime_config={"resource.k8s.io/v1beta1": True}, nodes={"a": {"name": "a"}})
    state.processes["kubelet-1"] = Process(
        "kubelet-1", "kubelet", "1.35", {"A": True}, 1, 2, "3", nodes=["a"]
    )
    directory.save(state)

    assert directory.load() == state


def test_no_cluster_says_how_to_start_one(tmp_path: Path):
    """A command on a directory without a cluster says what to do."""
    with pytest.raises(UserError, match="start one with `kubeskew up`"):
        StateDir(tmp_path).load()


def test_a_broken_record_is_reported(tmp_path: Path):
    """A record that cannot be read is a failure that names the file."""
    (tmp_path / "state.json").write_text("{")
    with pytest.raises(ClusterError, match=r"cannot read .*state\.json"):
        StateDir(tmp_path).load()


def test_only_the_owner_can_read_it(tmp_path: Path):
    """The directory is 0700, files with secrets are 0600."""
    directory = StateDir(tmp_path / "state")
    with directory.locked():
        directory.save(State(runtime_config={}))

    assert stat.S_IMODE(directory.path.stat().st_mode) == 0o700
    assert stat.S_IMODE(directory.record.stat().st_mode) == 0o600


def test_git_leaves_it_out(tmp_path: Path):
    """A new directory has a .gitignore of everything, which a purge removes; somebody's own one stays."""
    for name in ("new", "theirs"):
        (tmp_path / name).mkdir()
    (tmp_path / "theirs" / ".gitignore").write_text("mine\n")
    for name in ("made", "new", "theirs"):
        directory = StateDir(tmp_path / name)
        with directory.locked():
            written = directory.ignored.read_text()
            assert written == "mine\n" if name == "theirs" else written.splitlines()[-1] == "*"
            directory.purge()

    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == [
        "theirs",
        "theirs/.gitignore",
    ]


def test_two_commands_do_not_change_a_cluster_at_once(tmp_path: Path):
    """While one command changes the cluster, another is refused."""
    directory = StateDir(tmp_path)
    with (
        directory.locked(),
        pytest.raises(ClusterError, match="another kubeskew command"),
        directory.locked(),
    ):
        pass
