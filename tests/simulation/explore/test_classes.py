"""Classes of findings: the file of known ones, and what its mistakes are answered with."""

from pathlib import Path

import pytest
import yaml

from kubeskew.apimachinery.versions import Version
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.invariants.findings import FINDINGS
from kubeskew.simulation.explore.classes import Circumstances, Verdict, classify, read_entries

ENTRY = {
    "id": "stale-cache",
    "invariant": "I09",
    "message": "says that .* is used",
    "class": "upstream",
    "reason": "the controller counts what it has not seen yet",
    "source": "https://example.com",
}


def entries(tmp_path: Path, *changes: dict[str, object]) -> Path:
    """A file of entries, each the usual one with changes."""
    path = tmp_path / "findings.yaml"
    path.write_text(yaml.safe_dump({"findings": [{**ENTRY, **each} for each in changes]}))
    return path


def test_the_first_that_fits_decides(tmp_path: Path):
    """Invariant, message, faults (by kind, or by words of their line) and minors decide which entry it is;
    none is unknown."""
    known = read_entries(
        entries(
            tmp_path,
            {"id": "lost", "faults": ["lost-answer", "error: update resourcequotas/"], "class": "known:123"},
            {"id": "old", "versions": "1.30..1.32", "class": "defect"},
            {},
        )
    )
    text = "ResourceQuota a/b says that 3 of pods is used; it is 2"

    def classed(invariant: str, message: str, faults: tuple[str, ...], minor: int) -> Verdict:
        fired = {kind: [f"{kind}-1: quota: update resourcequotas/status, call 1"] for kind in faults}
        return classify(known, [(invariant, message)], Circumstances(fired, [Version(minor)], {}))[0]

    assert classed("I09", text, ("crash", "lost-answer"), 31).class_ == "known:123"
    assert classed("I09", text, ("error",), 31).class_ == "known:123"
    assert classed("I09", text, ("crash",), 31).class_ == "defect"
    assert classed("I09", text, (), 33) == Verdict(
        "upstream", "stale-cache", ENTRY["reason"], ENTRY["source"]
    )
    assert classed("I09", "another", (), 33).class_ == "unknown"
    assert classed("I10", text, ("lost-answer",), 33).class_ == "unknown"


def test_a_bug_that_a_release_does_not_have_is_not_what_was_found(tmp_path: Path):
    """A finding is a known bug's only where a component has the bug, by its patch or because it is on."""
    known = read_entries(entries(tmp_path, {"class": "known:126343"}))
    text = "ResourceQuota a/b says that 3 of pods is used; it is 2"

    def classed(version: str, **bugs: bool) -> str:
        settings = {name.replace("_", "-"): on for name, on in bugs.items()}
        run = Circumstances({}, [Version.parse(version)], settings)
        return classify(known, [("I09", text)], run)[0].class_

    assert classed("1.29.8") == "known:126343"
    assert classed("1.29.8", k8s_126343=False) == "unknown"
    assert classed("1.29.9") == "unknown"
    assert classed("1.29.9", k8s_126343=True) == "known:126343"


def test_what_follows_from_another_finding_needs_that_in_its_run(tmp_path: Path):
    """An entry with `with` matches only a finding in whose run another entry has reported something."""
    known = read_entries(
        entries(tmp_path, {"id": "cause", "message": "cause"}, {"id": "effect", "with": ["cause"]})
    )
    run = Circumstances({}, [Version(35)], {})

    def ids(*messages: str) -> list[str]:
        return [each.entry for each in classify(known, [("I09", text) for text in messages], run)]

    effect = "says that 3 is used"
    assert ids(effect) == [""]
    assert ids(effect, "the cause") == ["effect", "cause"]
    assert ids(effect, effect) == ["", ""]


def test_who_has_to_look():
    """Defects of ours and what nobody knows want somebody to look; upstream's do not."""
    assert [Verdict(each).fails for each in ("defect", "unknown", "upstream", "known:1")] == [
        *(True, True, False, False)
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"class": "ours"}, r"findings\[0\]: class: expected defect, upstream or known:ID, found 'ours'"),
        ({"invariant": "I99"}, r"invariant: there is no invariant I99; did you mean I19"),
        ({"message": "("}, r"message: '\(' is no regular expression"),
        ({"message": ".*"}, r"message: '\.\*' fits every message"),
        ({"faults": ["crush"]}, r"there is no kind of fault crush.*did you mean crash"),
        ({"versions": "1.99"}, r"versions: version 1\.99 is not supported"),
        ({"with": ["stale-cash"]}, r"with: no finding has the id stale-cash; did you mean stale-cache"),
        ({"with": "all"}, r"with: expected a list of ids, found 'all'"),
        ({"versions": "new"}, r"versions: expected such as 1\.34"),
        ({"source": ""}, r"source: expected a text, found ''"),
        ({"sauce": "x"}, r"unknown key sauce"),
    ],
)
def test_a_bad_entry_is_one_line(tmp_path: Path, change: dict[str, object], said: str):
    """A mistake in the file is reported in one line that names the entry and the key."""
    with pytest.raises(ScenarioError, match=said) as raised:
        read_entries(entries(tmp_path, change))
    assert "\n" not in str(raised.value)


def test_ids_are_unique(tmp_path: Path):
    """Two entries of one id are refused."""
    with pytest.raises(ScenarioError, match="two findings have the id stale-cache"):
        read_entries(entries(tmp_path, {}, {}))


def test_the_shipped_file_can_be_read():
    """The file that comes along is right, and every entry's source is an address."""
    assert all("://" in entry.source for entry in read_entries(FINDINGS))
