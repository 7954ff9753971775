"""Files of a volume that hide each other: the warnings, and that many files do not take long."""

import time

from kubeskew.apiserver.registry.shared.podtemplate.warnings import overlap_warnings


def warned(paths: list[str]) -> list[str]:
    items = [{"key": "k", "path": path} for path in paths]
    return list(overlap_warnings([{"name": "v", "configMap": {"name": "c", "items": items}}]))


def test_each_pair_is_reported_with_the_earlier_ones_in_order():
    """A path overlaps with itself, with what is above and with what is below, not with its namesakes."""
    pairs = [text.partition("overlapping paths: ")[2] for text in warned(["a/b", "ab", "a/", "a/b/c", "a/b"])]
    assert pairs == [
        '"a" with "a/b"',
        '"a/b/c" with "a/b"',
        '"a/b/c" with "a"',
        '"a/b" with "a/b"',
        '"a/b" with "a"',
        '"a/b" with "a/b/c"',
    ]


def test_many_paths_do_not_take_long():
    """Thousands of paths are compared quickly, whether none overlap or all do."""
    began = time.process_time()
    assert warned([f"a/b{number}" for number in range(8000)]) == []
    assert len(warned(["a"] * 8000)) == 1000
    assert time.process_time() - began < 5  # every pair compared: half a minute
