"""The environment of components."""

import os
import pwd
from pathlib import Path

import pytest

from kubeskew.cluster.processes import environment


def test_bytecode_is_kept_in_the_cache_where_it_may_not_lie_next_to_the_sources(tmp_path: Path):
    """PYTHONDONTWRITEBYTECODE would have every component compile itself at every start."""
    found = environment({"PYTHONDONTWRITEBYTECODE": "1", "XDG_CACHE_HOME": str(tmp_path)})

    assert found["PYTHONPYCACHEPREFIX"] == str(tmp_path / "kubeskew" / "bytecode")
    assert not found["PYTHONDONTWRITEBYTECODE"]


def test_bytecode_stays_where_it_is_put():
    """Without that variable, or with a place for bytecode, Python's own way holds."""
    chosen = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": "/elsewhere"}

    assert "PYTHONPYCACHEPREFIX" not in environment({})
    assert "PYTHONPYCACHEPREFIX" not in environment(chosen)


def test_without_a_cache_bytecode_is_read_where_it_is(tmp_path: Path):
    """Python reads what was compiled next to the sources, where nothing can be kept in the user's cache."""
    (tmp_path / "file").touch()
    found = environment({"PYTHONDONTWRITEBYTECODE": "1", "XDG_CACHE_HOME": str(tmp_path / "file")})

    assert found == environment({})


def test_a_user_may_have_no_home(monkeypatch: pytest.MonkeyPatch):
    """A container's user may be a number of which the system knows nothing, without $HOME."""
    used = {entry.pw_uid for entry in pwd.getpwall()}
    unknown = next(uid for uid in range(50_000, 60_000) if uid not in used)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(os, "getuid", lambda: unknown)

    assert environment({"PYTHONDONTWRITEBYTECODE": "1"}) == environment({})
