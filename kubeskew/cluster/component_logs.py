"""Reads the logs that the processes of a cluster write, one file each."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

TIMED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ")  # as component.py has lines begin


def lines_behind(path: Path, offset: int) -> tuple[str, int]:
    """Returns the whole lines of a log behind an offset, and the offset behind them."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            content = file.read()
    except FileNotFoundError:
        return "", offset
    whole = content[: content.rfind(b"\n") + 1]  # a line that is being written comes the next time
    return whole.decode(errors="replace"), offset + len(whole)


def interleaved(logs: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yields (process, line) of several logs in the order of their times.

    Lines without a time, such as those of a traceback, stay with the line before them.
    """
    entries = [(*entry, name) for name, text in logs.items() for entry in _with_times(text)]
    entries.sort(key=lambda entry: entry[0])  # stable: lines of one moment and log keep their order
    for _, line, name in entries:
        yield name, line


def _with_times(text: str) -> Iterator[tuple[str, str]]:
    time = ""
    for line in text.splitlines():
        if found := TIMED.match(line):
            time = found[0]
        yield time, line
