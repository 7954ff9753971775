"""Writes docs/limits.md from what real servers answered: `python hack/documents/limits_page.py`."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from limits import Limit

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "limits.md"
RECORDINGS = ROOT / "tests" / "data" / "limits"
_HEAD = """\
# Limits of what a client may send

<!-- Written by hack/documents/limits_page.py from hack/differential/limits.py and tests/data/limits. -->

Each of these was asked of real API servers of {releases}:
below the limit, at it and above it. Ours answers with the same code, reason and message; `make test` holds
that without any program (`tests/apiserver/http/test_limits.py`). Who has the programs asks again:

    ETCD=/usr/bin/etcd hack/differential/run limits 1.36 --binaries DIR

*up to* is the most that is taken; *near* means that it lies between the two numbers, as the rest of the
request counts, too. *answer* is that to more.
"""
_OTHER_ROWS = (
    ("the head of a request", "1 MiB and 4 KiB, then 431", "the same", "http/test_bad_input_https.py"),
    (
        "the framing of a body in chunks", "16 KiB besides 16 bytes a chunk and twice its data",
        "64 KiB and eight times the data", "http/test_serving.py",
    ),
    ("requests at once", "flow control by priority levels", "the same", "filters/test_fairness.py"),
    (
        "open watches", "none", "none; one that does not read ends at 10,000 events or 64 MiB",
        "storage/test_storage_watches.py",
    ),
    (
        "a request of etcd's API", "1.5 MiB, 128 operations of a transaction", "the same",
        "storage/etcd/test_etcd_bad_input.py",
    ),
)  # fmt: skip
_OTHERS = """
Other inputs have limits that no single request shows:

| what | real | here | tested by |
| --- | --- | --- | --- |
"""


def _read() -> dict[str, dict[str, Any]]:
    files = sorted(RECORDINGS.glob("*.json"), key=lambda file: int(file.stem[2:]))
    recordings = [json.loads(file.read_text()) for file in files]
    return {recording["release"]: recording["limits"] for recording in recordings}


def _row(limit: "Limit", answers: dict[str, Any], first: str) -> str:
    codes = {int(number): answer for number, answer in answers.items()}
    taken = [number for number, answer in codes.items() if answer[0] < 400]
    refused = [number for number, answer in codes.items() if answer[0] >= 400]
    near = limit.slack > 1 and not limit.ours and not limit.searched
    exact = max(taken) if limit.searched else limit.most
    most = f"near: {max(taken):,} to {min(refused):,}" if near else f"{exact:,}"
    ours = f"{limit.ours:,}" if limit.ours else "the same"
    answer = codes[min(refused)]
    message = answer[2].rpartition("Invalid value: ")[2].replace("|", "\\|").replace("…", " … ")
    return f"| {limit.what} | {limit.unit} | {most} | {ours} | {answer[0]} | `{message[:110]}` | {first} |"


def page() -> str:
    sys.path.append(str(ROOT / "hack" / "differential"))
    others = [
        f"| {what} | {real} | {ours} | `tests/apiserver/{test}` |" for what, real, ours, test in _OTHER_ROWS
    ]
    return "\n".join(_lines()) + "\n" + _OTHERS + "\n".join(others) + "\n"


def _lines() -> Iterator[str]:
    from limits import LIMITS

    recordings = _read()
    yield _HEAD.format(releases=", ".join(recordings))
    yield "| what | counted in | up to | here | answer | text | since |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for limit in LIMITS:
        having = [release for release, limits in recordings.items() if limit.what in limits]
        first = "" if len(having) == len(recordings) else having[0].rpartition(".")[0]
        yield _row(limit, recordings[having[-1]][limit.what], first)


if __name__ == "__main__":
    PAGE.write_text(page())
