"""Lists of indexes of jobs, as `1,3-5`. Source: pkg/apis/batch/validation (validateIndexesFormat), 1.36."""

import json
import re


class IndexesError(ValueError):
    """A text that is no list of indexes; the message is upstream's."""


def intervals(text: str, completions: int) -> list[tuple[int, int]]:
    """Returns the first and last of each interval; raises IndexesError."""
    found: list[tuple[int, int]] = []
    for part in text.split(",") if text else ():
        start, end = _interval(part, completions)
        if found and found[-1][1] >= start:
            raise IndexesError(f"non-increasing order, previous: {found[-1][1]}, current: {start}")
        found.append((start, end))
    return found


def count(found: list[tuple[int, int]]) -> int:
    return sum(end - start + 1 for start, end in found)


def overlap(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> int | None:
    """Returns the first index in both."""
    both = [max(a, c) for a, b in one for c, d in other if max(a, c) <= min(b, d)]
    return min(both, default=None)


def _interval(part: str, completions: int) -> tuple[int, int]:
    limits = part.split("-")
    if len(limits) > 2:
        raise IndexesError(
            f"the fragment {json.dumps(part)} violates the requirement that an index interval can have at "
            "most two parts separated by '-'"
        )
    start = _number(limits[0], completions)
    if len(limits) == 1:
        return start, start
    end = _number(limits[1], completions)
    if start >= end:
        raise IndexesError(f"non-increasing order, previous: {start}, current: {end}")
    return start, end


def _number(text: str, completions: int) -> int:
    if not re.fullmatch(r"[+-]?[0-9]+", text, re.ASCII):
        raise IndexesError(f"cannot convert string to integer for index: {json.dumps(text)}")
    if int(text) >= completions:
        raise IndexesError(f"too large index: {json.dumps(text)}")
    return int(text)
