"""Faults of the keys of list maps, each of which shows all keys."""

import pytest

from kubeskew.apiserver.structuralschema.definitions import _map_list


@pytest.mark.parametrize("names", [100, 20_000])
def test_the_keys_are_not_shown_without_end(names: int):
    """The number of reported errors is bounded as upstream's is, and so is the size of their texts."""
    keys = [f"k{number:05}" for number in range(names // 2)] + ["k00000"] * (names // 2)
    found = list(_map_list({"items": {"type": "object"}}, keys, "x"))
    assert len(found) == (150 if names == 100 else 16)
    assert sum(len(str(error)) for error in found) < 4 << 20
