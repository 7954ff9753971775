"""`kubeskew bugs`, and the page of known bugs."""

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kubeskew.apimachinery.known_bugs import known_bugs
from kubeskew.apimachinery.versions import Version
from kubeskew.cli.commands.bugs import bugs, meets, stops
from kubeskew.cluster.failures import UserError

ROOT = Path(__file__).parents[3]


def listed(*arguments: str) -> list[dict]:
    result = CliRunner().invoke(bugs, [*arguments, "-o", "json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_path_meets_the_bugs_of_each_of_its_stops():
    """A bug is listed with the stops that have it: both ends, and the newest patch of minors between."""
    found = {row["id"]: row for row in listed("--from", "1.33.5", "--to", "1.35")}

    assert found["k8s-132334"]["at"] == ["1.33.5"]
    assert found["k8s-132334"]["affected"] == "1.32.0-1.32, 1.33.0-1.33.5"
    assert found["k8s-132334"]["behaves"] is True
    assert "k8s-134773" not in found  # the newest 1.34 has its fix
    assert "k8s-134773" in {row["id"] for row in listed("--from", "1.34.1")}
    assert len(listed()) == len(known_bugs())


def test_a_way_down_stops_at_the_same_releases():
    """The stops of a way down are those of the way up, in reverse."""
    up = stops(Version.parse("1.33.5"), Version(36))

    assert list(map(str, up)) == ["1.33.5", "1.34", "1.35", "1.36"]
    assert stops(Version(36), Version.parse("1.33.5")) == up[::-1]
    assert stops(Version(36), Version(36)) == [Version(36)]


SUSPENDED = {"kind": "Job", "spec": {"suspend": True, "completions": 0}}


@pytest.mark.parametrize(
    ("id_", "obj", "is_met"),
    [
        ("k8s-132727", SUSPENDED, True),
        ("k8s-132727", {"kind": "Job", "spec": {"suspend": True, "completions": 1}}, False),
        ("k8s-132727", {"kind": "CronJob", "spec": {"jobTemplate": {"spec": SUSPENDED["spec"]}}}, True),
        ("k8s-132727", {"kind": "List", "items": [SUSPENDED]}, True),
        (
            "k8s-132334",
            {"kind": "Deployment", "spec": {"template": {"spec": {"resourceClaims": [{"name": "a"}]}}}},
            True,
        ),
        ("k8s-132334", {"kind": "Deployment", "spec": {"template": {"spec": {"resourceClaims": []}}}}, False),
        ("k8s-132334", {"kind": "ResourceClaimTemplate", "spec": {"spec": {}}}, True),
        ("k8s-132334", {"kind": "Pod", "spec": None}, False),
    ],
)
def test_a_workload_meets_a_bug_by_its_objects_and_what_they_make(id_: str, obj: dict, is_met: bool):
    """Fields are looked for in objects, items of lists, and templates of pods, jobs and claims."""
    assert meets(known_bugs()[id_], [obj]) is is_met


def test_a_workload_narrows_the_list(tmp_path: Path):
    """With -f only bugs are listed that its objects may meet."""
    manifest = tmp_path / "set.yaml"
    manifest.write_text("apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: a}\nspec: {}\n")

    found = {row["id"] for row in listed("--from", "1.34.1", "-f", str(manifest))}

    assert "k8s-134773" in found
    assert "k8s-134312" not in found


@pytest.mark.parametrize(
    ("content", "why"),
    [("", "expected objects of the API"), ("- a\n", "expected objects"), ("a: [\n", ":2: not YAML: ")],
)
def test_a_workload_that_is_none_is_refused(tmp_path: Path, content: str, why: str):
    """A file without objects is reported in one line."""
    manifest = tmp_path / "workload.yaml"
    manifest.write_text(content)
    with pytest.raises(UserError, match=why):
        CliRunner().invoke(bugs, ["-f", str(manifest)], standalone_mode=False, catch_exceptions=False)


def test_a_path_needs_a_beginning():
    """An end alone is no path."""
    with pytest.raises(UserError, match="by --from"):
        CliRunner().invoke(bugs, ["--to", "1.35"], standalone_mode=False, catch_exceptions=False)


def test_the_page_of_known_bugs_is_that_of_the_table(monkeypatch: pytest.MonkeyPatch):
    """docs/known-bugs.md is what the table and the scenarios make of it."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "hack" / "documents"), *sys.path])
    import known_bugs_page

    assert known_bugs_page.PAGE.read_text() == known_bugs_page.page(), "run hack/documents/known_bugs_page.py"


def test_a_bug_that_no_release_has_fixed_is_reported_at_the_newest():
    """The table says that no release is known to have the fix."""
    result = CliRunner().invoke(bugs, ["--from", "1.37"], catch_exceptions=False)
    (row,) = [line for line in result.stdout.splitlines() if line.startswith("k8s-141898 ")]

    assert " since 1.31.0 " in row
    assert " none known " in row
