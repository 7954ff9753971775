"""Writes docs/known-bugs.md from the table of known bugs: `python hack/documents/known_bugs_page.py`."""

from pathlib import Path

from seen_bugs import Seen, seen_bugs

from kubeskew.apimachinery.known_bugs import KnownBug, known_bugs
from kubeskew.apimachinery.versions import NEWEST_MINOR
from kubeskew.conformance.matrix import bundled

PAGE = Path(__file__).parents[2] / "docs" / "known-bugs.md"
_HEAD = """\
# Known bugs of Kubernetes

<!-- Written by hack/documents/known_bugs_page.py from apimachinery/data/known_bugs.json. -->

Patch releases differ in upstream's bugs and their fixes, and in nothing else here. A component at a
release that has one of the bugs of the first table behaves so; `--bugs ID=off` is without it, and
`--bugs ID=on` has it at any version. A release without a patch is the newest of its minor.
`kubeskew bugs --from 1.33.5 --to 1.35 -f workload.yaml` lists those that a path meets. CONTRIBUTING.md
says how to add one.

"Red at" and "green at" are the cells of the bug's scenario, `kubeskew run known-bugs/ID`: the red one
carries an expected failure that says what is found. What no scenario can show is shown by a test.

"Real programs" are the cells in which a real component of the release was seen to have the bug, or not to
have it; without an entry the bug is known from its report and from the sources alone. [Truth](truth.md) says
what else was compared.

Of an open bug no release up to {newest} is known to have the fix: its pull request may have been merged for
a later one, or not. The newest release is affected, then, and `--bugs ID=off` shows how it is once it is
fixed. Where no release is without the bug, the cells `open` and `fixed` are of one release, as it is and
with the bug off.

The second table has the bugs that no switch brings or takes away: no component here behaves so, but where
the last column says that it does by its minor.
"""


def page() -> str:
    bugs = known_bugs().values()
    built = [bug for bug in bugs if bug.switch]
    unfixed = sum(bug.is_open for bug in built)
    lines = [_HEAD.format(newest=f"1.{NEWEST_MINOR}")]
    lines += [f"## The {len(built)} that clusters here have, {unfixed} of them open", ""]
    lines += ["| id | component | what | red at | green at | affected | gates | real programs |"]
    lines += ["| --- | --- | --- | --- | --- | --- | --- | --- |"]
    seen = seen_bugs()
    lines += [_built(bug, seen.get(bug.id)) for bug in built]
    noted = [bug for bug in bugs if bug.note]
    lines += ["", "Where releases are not from a release note:", ""]
    lines += [f"- {bug.id}: {bug.note.rstrip('.')}." for bug in noted]
    left = [bug for bug in bugs if not bug.switch]
    lines += ["", f"## The {len(left)} without a switch, and what is missing", ""]
    lines += ["| id | component | what | affected | missing |", "| --- | --- | --- | --- | --- |"]
    lines += [
        f"| {_link(bug)} | {bug.component} | {_cell(bug.title)} | {bug.affected} | {bug.missing} |"
        for bug in left
    ]
    return "\n".join(lines) + "\n"


def _built(bug: KnownBug, seen: Seen | None) -> str:
    components = ", ".join((bug.component, *bug.also))
    cells = [_link(bug), components, _cell(bug.title), *_shown(bug), _releases(bug), ", ".join(bug.gates)]
    cells.append(_on_real_programs(seen))
    return f"| {' | '.join(cells)} |"


def _shown(bug: KnownBug) -> tuple[str, str]:
    """Cells of the bug's scenario that fail, and those that pass."""
    from kubeskew.conformance.loader import load

    path = bundled().get(f"known-bugs/{bug.id}")
    if path is None:
        return "-", "-"
    red, green = [], []
    for cell in load(path).cells():
        label = cell.name.removeprefix(f"known-bugs/{bug.id}/")
        (red if cell.expected_failures() else green).append(label)
    return ", ".join(red), ", ".join(green)


def _on_real_programs(seen: Seen | None) -> str:
    if seen is None:
        return ""
    found = [("seen", seen.seen), ("absent", seen.absent)]
    return "; ".join(f"{word} at {', '.join(labels)}" for word, labels in found if labels)


def _releases(bug: KnownBug) -> str:
    return f"{bug.affected}, open" if bug.is_open else bug.affected


def _link(bug: KnownBug) -> str:
    return f"[{bug.id}]({bug.source})"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page())
