"""The environment of components."""

from kubeskew.cluster.environment import environment


def test_bytecode_is_kept_in_the_cache_where_it_may_not_lie_beside_the_sources():
    """PYTHONDONTWRITEBYTECODE would have every component compile itself at every start."""
    found = environment({"PYTHONDONTWRITEBYTECODE": "1", "XDG_CACHE_HOME": "/caches"})

    assert found["PYTHONPYCACHEPREFIX"] == "/caches/kubeskew/bytecode"
    assert not found["PYTHONDONTWRITEBYTECODE"]


def test_bytecode_stays_where_it_is_put():
    """Without that variable, or with a place for bytecode, Python's own way holds."""
    chosen = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": "/elsewhere"}

    assert "PYTHONPYCACHEPREFIX" not in environment({})
    assert "PYTHONPYCACHEPREFIX" not in environment(chosen)
