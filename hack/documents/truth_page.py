"""Writes docs/truth.md from what is recorded of real programs: `python hack/documents/truth_page.py`.

The page counts, and judges nothing: cells by the recordings of `matrix --record-real` and the record of
emulated cells, answers by the recordings that tests play, files by the tables of kubelets' checkpoints, specs
by the records of upstream's suite, random histories and mended differences by their lists.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from seen_bugs import seen_bugs

from kubeskew.apimachinery.known_bugs import known_bugs
from kubeskew.conformance import outcomes, real_outcomes
from kubeskew.conformance.outcomes import ON_REAL, Outcome

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "truth.md"
_DATA = ROOT / "tests" / "data"
_HEAD = """\
# What was held against the real thing

<!-- Written by hack/documents/truth_page.py from recordings. -->

A green cell is worth as much as the comparison behind it. This page counts what was compared with real
components of which release, how much agreed, what was found wrong and mended, and which differences have a
name. What it does not count was not compared: it rests on upstream's sources, or has a row in
[fidelity](fidelity.md).

"""


def page() -> str:
    parts = (_cells, _bugs, _answers, _files, _suites, _histories, _mended, _named)
    return _HEAD + "\n".join(line for part in parts for line in (*part(), "")).rstrip() + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    yield _row(head)
    yield _row(["---"] * len(head))
    for row in rows:
        yield _row(row)


def _row(cells: Sequence[object]) -> str:
    return f"| {' | '.join(str(cell) for cell in cells)} |"


# Cells


def _cells() -> Iterator[str]:
    yield "## Cells"
    yield ""
    yield (
        "Every step of these cells was run with real programs in some slots, and is held against "
        "the same step of the emulated cell. A path between two minors counts for the newer one. "
        "Steps that a real program cannot do are not compared, nor are cells that only ours can "
        "run. The programs of each release are below."
    )
    yield ""
    emulated, named = outcomes.read(outcomes.RECORD), real_outcomes.read_named(real_outcomes.DIRECTORY)
    counts: dict[tuple[str, str, str], Counter[str]] = {}
    programs: dict[str, set[str]] = {}
    for file in sorted(real_outcomes.DIRECTORY.glob("outcomes-*.json")):
        minor = file.stem.removeprefix("outcomes-")
        for cell, ways in json.loads(file.read_text()).items():
            for slots, way in ways.items():
                count = counts.setdefault((minor, slots, cell.partition("/")[0]), Counter())
                count["cells"] += 1
                count.update(_steps(cell, way, emulated, named))
                programs.setdefault(minor, set()).update(_versions(way))
    head = (
        "release",
        "real slots",
        "area",
        "cells",
        "steps compared",
        "agree",
        "named",
        "apart",
        "not comparable",
    )
    yield from _table(
        head,
        (
            (minor, slots.replace(",", ", "), area, *(count[key] for key in _COUNTED))
            for (minor, slots, area), count in sorted(counts.items(), reverse=True, key=_newest_first)
        ),
    )
    yield ""
    for minor in sorted(programs, reverse=True):
        yield f"- {minor}: {', '.join(sorted(programs[minor]))}"


_COUNTED = ("cells", "compared", "agree", "named", "apart", "incomparable")


def _newest_first(item: tuple[tuple[str, str, str], Counter[str]]) -> tuple[str, str, str]:
    return item[0]


def _steps(
    cell: str, way: Outcome, emulated: Mapping[str, Outcome], named: Sequence[real_outcomes.Named]
) -> Iterator[str]:
    """Yields what counts: each step once as compared or not, and once as what came of it."""
    ours = {name: outcomes.comparable(text) for name, text in emulated[cell]["steps"].items()}
    apart = {step: (old, new) for step, old, new in real_outcomes.differing(way, {"steps": ours})}
    for step in dict.fromkeys([*way["steps"], *ours]):
        if all(text.startswith(ON_REAL) for text in real_outcomes.alternatives(way, step)):
            yield "incomparable"
            continue
        yield "compared"
        if step not in apart:
            yield "agree"
            continue
        old, new = apart[step]
        has_name = any(name.covers(cell, step, text, new) for name in named for text in old)
        yield "named" if has_name else "apart"


def _versions(way: Outcome) -> Iterator[str]:
    for found in way["real"].values():
        yield from found


# Known bugs


def _bugs() -> Iterator[str]:
    found = seen_bugs()
    seen = [bug for bug, entry in found.items() if entry.seen]
    both = [bug for bug in seen if found[bug].absent]
    built = sum(bool(bug.switch) for bug in known_bugs().values())
    yield "## Known bugs"
    yield ""
    yield (
        f"Of the {built} [known bugs](known-bugs.md) that clusters here have, {len(seen)} were seen "
        f"on a real program that has them, {len(both)} of these also absent from one without. The "
        "others are read in the sources, or are as they were reported."
    )
    yield ""
    yield from _table(
        ("bug", "seen in", "not in"),
        ((bug, ", ".join(found[bug].seen) or "-", ", ".join(found[bug].absent) or "-") for bug in found),
    )


# Recorded answers


def _answers() -> Iterator[str]:
    counts: dict[str, Counter[str]] = {}
    for file in sorted(_DATA.glob("**/*.golden.json")):
        recording = json.loads(file.read_text())
        if "server" not in recording:
            continue  # sessions of kubectl, which has tests of its own
        server = " ".join(recording["server"].replace(",", "").split()[:2])
        count = counts.setdefault(server, Counter())
        count["sequences"] += len(recording["sequences"])
        count["answers"] += sum(len(sequence["steps"]) for sequence in recording["sequences"])
    yield "## Recorded answers of API servers"
    yield ""
    yield (
        "The test suite sends each request of these recordings to the emulated server and compares "
        "status, body and events with the real server's answer, but for what a server draws. They "
        "all agree."
    )
    yield ""
    rows = ((server, count["sequences"], count["answers"]) for server, count in sorted(counts.items()))
    yield from _table(("server", "sequences", "answers"), rows)


# Files of kubelets


def _files() -> Iterator[str]:
    counts: dict[str, Counter[str]] = {}
    for name in ("checkpoints.jsonl", "neighbours.jsonl"):
        for line in (_DATA / "kubelet-files" / name).read_text().splitlines():
            entry = json.loads(line)
            count = counts.setdefault(entry["writer"], Counter())
            count["files"] += 1
            count["readings"] += len(entry["readers"])
    yield "## Files of kubelets"
    yield ""
    yield (
        "Checkpoints that real kubelets wrote (1.37: ours), and what real kubelets of other minors "
        "made of them: read, or refused with which words. Ours are held to each reading."
    )
    yield ""
    rows = ((writer, count["files"], count["readings"]) for writer, count in sorted(counts.items()))
    yield from _table(("written by", "files", "readings by kubelets"), rows)


# Upstream's suites


def _suites() -> Iterator[str]:
    yield "## Upstream's e2e.test, unmodified"
    yield ""
    rows = []
    reasons: list[str] = []
    for file in sorted((ROOT / "hack" / "e2e").glob("expected-*.json")):
        record = json.loads(file.read_text())
        failed = sum(len(specs) for specs in record["failed"].values())
        rows.append((record["release"], record["runtime"], len(record["passed"]), failed))
        reasons += [
            f"- {record['runtime']}: {reason}: {len(specs)}"
            for reason, specs in sorted(record["failed"].items())
        ]
    yield from _table(("release", "runtime", "passed", "failed with a reason"), rows)
    yield ""
    yield "Reasons, and how many specs each has:"
    yield ""
    yield from reasons


# Random histories, mended and named differences


def _histories() -> Iterator[str]:
    yield "## Random histories"
    yield ""
    yield (
        "`hack/differential/run` has a real program and ours answer the same random requests or "
        "problems (`hack/differential/README.md`). A seed repeats its history."
    )
    yield ""
    yield from _table(
        ("what", "release", "seeds", "histories", "apart", "classes of differences", "date"),
        (
            (
                *(batch["what"], batch["release"], batch["seeds"], batch["count"], batch.get("apart", "-")),
                *(batch["classes"], batch["date"]),
            )
            for batch in _yaml(ROOT / "hack" / "differential" / "batches.yaml")
        ),
    )


def _mended() -> Iterator[str]:
    ways = _yaml(ROOT / "hack" / "documents" / "mended.yaml")
    yield "## Found wrong, and mended"
    yield ""
    yield "The commit has the reason and the test. Releases are those at which kubeskew was wrong."
    yield ""
    yield from _table(
        ("found by", "area", "releases", "what was wrong", "commit"),
        (
            (way["found"], entry["area"], entry["releases"], entry["what"], f"`{entry['commit']}`")
            for way in ways
            for entry in way["mended"]
        ),
    )


def _named() -> Iterator[str]:
    named = real_outcomes.read_named(real_outcomes.DIRECTORY)
    yield "## Differences with a name"
    yield ""
    if named:
        yield from _table(
            ("cells", "step", "reason"), ((each.cells, each.step, each.reason) for each in named)
        )
    else:
        yield "No step of a recorded cell has one. [Fidelity](fidelity.md) lists what differs elsewhere:"
    yield ""
    marks = Counter(_marks((ROOT / "docs" / "fidelity.md").read_text()))
    yield from _table(("mark", "rows"), sorted(marks.items()))


def _marks(text: str) -> Iterator[str]:
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and len(cells) == 4 and cells[3] in _MARKS:
            yield cells[3]


_MARKS = ("later", "by design", "memory", "preview", "unknown")


def _yaml(path: Path) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = yaml.safe_load(path.read_text())
    return found


if __name__ == "__main__":
    PAGE.write_text(page())
