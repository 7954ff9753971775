"""JSON values nest only so deep."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeskew.apiserver.decoding.go_json import nests_deeper_than

VALUES = st.recursive(
    st.sampled_from([None, 1, "{", "[]", {}, []]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "{}"]), inner),
    max_leaves=20,
)


def depth(value: object) -> int:
    """Counts how many objects and lists are inside each other."""
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


@given(VALUES, st.integers(1, 6))
def test_the_limit_counts_objects_and_lists(value: object, limit: int):
    """Brackets in texts, empty objects and many of them side by side are no depth."""
    assert nests_deeper_than(value, limit) == (depth(value) > limit)


@pytest.mark.parametrize("levels", [253, 300, 100_000])
def test_no_depth_is_too_much_to_be_found(levels: int):
    """A value's depth is measured without recursion, even if it is too deep to be encoded."""
    value: list[object] = []
    for _ in range(levels - 1):
        value = [value]

    assert nests_deeper_than(value, levels - 1)
    assert not nests_deeper_than(value, levels)
