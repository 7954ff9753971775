"""The short directory for sockets: made, found again, made again, removed."""

import shutil
from pathlib import Path

import pytest

from kubeskew.cluster import platform
from kubeskew.cluster.state import State


@pytest.fixture
def state():
    """A record whose directory goes with the test."""
    made = State(runtime_config={})
    yield made
    platform.remove_runtime_dir(made)


def test_it_is_short_private_and_stays(state):
    """One is made for this user alone, and kept as long as it is there."""
    platform.ensure_runtime_dir(state, platform.make_runtime_dir)
    first = Path(state.runtime_dir)
    assert (first.stat().st_mode & 0o777, len(str(first)) < 30) == (0o700, True)
    platform.ensure_runtime_dir(state, platform.make_runtime_dir)
    assert Path(state.runtime_dir) == first


def test_one_that_the_machine_lost_comes_back(state):
    """A reboot empties such places; the record's path stays true."""
    platform.ensure_runtime_dir(state, platform.make_runtime_dir)
    first = Path(state.runtime_dir)
    shutil.rmtree(first)
    platform.ensure_runtime_dir(state, platform.make_runtime_dir)
    assert Path(state.runtime_dir) == first
    assert first.is_dir()


def test_one_that_is_not_ours_is_left_alone(state, tmp_path):
    """A runtime directory that another has replaced is not used."""
    (tmp_path / "link").symlink_to(tmp_path)
    state.runtime_dir = str(tmp_path / "link")
    platform.ensure_runtime_dir(state, platform.make_runtime_dir)
    assert state.runtime_dir != str(tmp_path / "link")


def test_removing_takes_all_of_it(state):
    """Nothing is left, neither on disk nor in the record."""
    platform.ensure_runtime_dir(state, platform.make_runtime_dir)
    found = Path(state.runtime_dir)
    (found / "node-1").mkdir()
    platform.remove_runtime_dir(state)
    assert (found.exists(), state.runtime_dir) == (False, "")
