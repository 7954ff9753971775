"""Completion indexes of indexed jobs: their text in a status, and their place in pods. Pure functions.

Behaviour of k8s.io/kubernetes/pkg/controller/job/indexed_job_utils.go, 1.36.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.framework import pods

INDEX = "batch.kubernetes.io/job-completion-index"  # annotation, and label from 1.28 on


def parse(text: str | None, limit: int) -> set[int]:
    """Returns the indexes below `limit` in a text like `1,3-5`; skips invalid parts."""
    found: set[int] = set()
    for part in (text or "").split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (not last or last.isdigit()):
            found |= set(range(int(first), min(int(last or first) + 1, limit)))
    return {index for index in found if index < limit}


def show(indexes: Iterable[int]) -> str:
    """Returns the text of indexes: `1,3-5`; two in a row are written `1,2`."""
    parts: list[str] = []
    ordered = sorted(indexes)
    while ordered:
        length = 1
        while length < len(ordered) and ordered[length] == ordered[0] + length:
            length += 1
        run, ordered = ordered[:length], ordered[length:]
        if length > 2:
            parts.append(f"{run[0]}-{run[-1]}")
        else:
            parts += [str(index) for index in run]
    return ",".join(parts)


def index_of(pod: Object) -> int | None:
    """Returns the pod's completion index, None if it has no valid one."""
    text = str((pod["metadata"].get("annotations") or {}).get(INDEX, ""))
    return int(text) if text.isascii() and text.isdigit() and int(text) < 2**31 else None


def valid_index(pod: Object, completions: int) -> int | None:
    index = index_of(pod)
    return index if index is not None and index < completions else None


def pending(taken: Collection[int], completions: int, count: int) -> list[int]:
    """Returns the first `count` indexes that are not taken."""
    found: list[int] = []
    for index in range(completions):
        if len(found) == count:
            break
        if index not in taken:
            found.append(index)
    return found


def superfluous(
    active: Sequence[Object], completions: int, now: datetime
) -> tuple[list[Object], list[Object]]:
    """Returns (pods without a valid index or beside another of their index, the others)."""
    gone, left = [], []
    by_index: dict[int, list[Object]] = {}
    for pod in active:
        index = valid_index(pod, completions)
        if index is None:
            gone.append(pod)
        else:
            by_index.setdefault(index, []).append(pod)
    for index in sorted(by_index):
        *worse, best = pods.deletion_order(by_index[index], {}, now)
        gone += worse
        left.append(best)
    return gone, left
