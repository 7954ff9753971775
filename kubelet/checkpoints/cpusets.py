"""Sets of CPUs as text: `0-3,8` (k8s.io/utils/cpuset)."""

import re
from collections.abc import Iterable, Iterator

CPUSet = frozenset[int]
_NUMBER = re.compile(r"[+-]?[0-9]+")


class CPUSetError(ValueError):
    """The text is no set of CPUs; the message is Go's."""


def parse(text: str) -> CPUSet:
    """Returns the set. Raises CPUSetError."""
    if not text:
        return frozenset()
    return frozenset(cpu for part in text.split(",") for cpu in _range(part))


def format_set(cpus: Iterable[int]) -> str:
    """Returns the shortest text of a set."""
    return ",".join(
        str(first) if first == last else f"{first}-{last}" for first, last in _ranges(sorted(cpus))
    )


def _range(part: str) -> range:
    ends = [_number(end) for end in part.split("-", 1)]
    first, last = ends[0], ends[-1]
    if first > last:
        raise CPUSetError(f'invalid range "{part}" ({first} > {last})')
    return range(first, last + 1)


def _number(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise CPUSetError(f'strconv.Atoi: parsing "{text}": invalid syntax')
    return int(text)


def _ranges(cpus: list[int]) -> Iterator[tuple[int, int]]:
    begin = 0
    for at in range(1, len(cpus) + 1):
        if at == len(cpus) or cpus[at] != cpus[at - 1] + 1:
            yield cpus[begin], cpus[at - 1]
            begin = at
