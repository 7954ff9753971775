"""`kubeskew release`: from a source tree to a release that commands take."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from imported import enhanced

from kubeskew.apimachinery.imported_releases import ENVIRONMENT
from kubeskew.cli.commands.release import difference_lines, release
from kubeskew.cluster.failures import UserError
from kubeskew.releases.comparison import Difference


@pytest.fixture(scope="module", name="tree")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return enhanced().write(tmp_path_factory.mktemp("tree"))


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "releases"))
    return tmp_path / "releases"


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(release, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def printed(*arguments: str) -> Any:
    return json.loads(run(*arguments, "-o", "json").stdout)


def test_the_life_of_a_release(tree: Path, tmp_path: Path):
    """A release is imported, listed, shown, compared, exported, removed, and imported from its file."""
    made = printed("import", str(tree), "--name", "1.37+life", "--base", "1.37")
    listed = printed("list")
    shown = printed("show", "1.37+life")
    differences = printed("diff", "1.37", "1.37+life", "--subject", "gates")
    exported = printed("export", "1.37+life", str(tmp_path / "life.tar.gz"))
    removed = printed("remove", "1.37+life")
    without = printed("list")
    again = printed("import", str(tmp_path / "life.tar.gz"))

    assert made == shown == again
    assert listed == [made]
    assert exported == {"exported": "1.37+life", "file": str(tmp_path / "life.tar.gz")}
    assert removed == {"removed": "1.37+life", "from": str(tmp_path / "releases")}
    assert without == []
    assert made["reported"]["gates that the base does not have"] == ["Fancy"]
    assert differences == [
        {
            "subject": "gates",
            "name": "Fancy",
            "change": "added",
            "before": None,
            "after": {"stage": "Alpha", "default": False, "locked": False},
        }
    ]


def test_tables_for_people(tree: Path):
    """Tables and progress say what was read, and what to do next."""
    imported = run("import", str(tree), "--name", "1.37+people", "--base", "1.37")
    listed = run("list").output
    compared = run("diff", "1.37", "1.37+people").output

    assert "reading the API's types" in imported.stderr
    assert imported.stdout.endswith("kubeskew up --version 1.37+people\n")
    assert "resources without code of their own here:\n  widgets.scheduling.k8s.io" in imported.stdout
    assert all(len(line) <= 100 for line in imported.stdout.splitlines())
    assert listed.splitlines()[0].split() == ["NAME", "BASE", "TREE", "COMMIT", "GATES", "RESOURCES"]
    assert "fields\n  added core.v1.PodSpec.fancy\n    {" in compared


def test_a_tree_is_imported_again(tree: Path):
    """A changed tree takes the place of what was imported of it, and a refused one does not."""
    arguments = ["import", str(tree), "--name", "1.37+again", "--replace"]
    run(*arguments)
    run(*arguments, "--base", "1.37.0")
    with pytest.raises(UserError, match=r"already: choose another name, or replace it with --replace"):
        run(*arguments[:-1])
    with pytest.raises(UserError, match="does not suit"):
        run(*arguments, "--base", "1.34")

    assert [each["base"] for each in printed("list")] == ["1.37.0"]


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        (None, {"stage": "Alpha"}, ['{"stage":"Alpha"}']),
        ({"verbs": ["get"]}, None, ['{"verbs":["get"]}']),
        (
            {"stage": "Alpha", "default": False, "locked": False},
            {"stage": "Beta", "default": True, "locked": False},
            ["default: false → true", "stage: Alpha → Beta"],
        ),
        ({"gates": ["A"]}, {}, ['gates: ["A"] → -']),
        ({"values": ["A", "B"]}, {"values": ["B", "C"]}, ["values: without A", "values: with C"]),
        ({"short": ["a", "b"]}, {"short": ["b", "a"]}, ['short: ["a","b"] → ["b","a"]']),
        ([["optional"]], [["optional"], ["maxLength", 5]], ['with ["maxLength",5]']),
        ("v1", "v1beta1", ["v1 → v1beta1"]),
    ],
)
def test_the_lines_of_a_difference(before: Any, after: Any, lines: list[str]):
    """Of a changed thing the keys and items that differ are shown, and nothing else."""
    difference = Difference("fields", "name", "changed", before, after)

    assert [line.strip() for line in difference_lines([difference])][2:] == lines


def test_another_directory(tree: Path, tmp_path: Path):
    """A release that is imported into another directory comes with the setting that makes it usable."""
    output = run(
        "import", str(tree), "--name", "1.37+there", "--base", "1.37", "--into", str(tmp_path / "there")
    )

    assert f"Set {ENVIRONMENT}={tmp_path / 'there'}, and use it" in output.stdout
    assert (tmp_path / "there" / "1.37+there" / "catalogue.json").is_file()
    assert printed("list") == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["import", "{tree}"], "name the release with --name"),
        (["import", "{tree}", "--name", "1.37"], "is a release that kubeskew has itself"),
        (
            ["import", "{tree}", "--name", "1.37+mine", "--base", "1.34"],
            "--base 1.34 does not suit 1.37+mine",
        ),
        (["import", "{nothing}"], "name a Kubernetes source tree, or a file of `kubeskew release export`"),
        (["import", "{file}"], "is no exported release"),
        (["show", "1.37+none"], "there is no imported release 1.37+none"),
        (["remove", "1.37+none"], "there is no imported release 1.37+none"),
        (["export", "1.37+none", "x"], "there is no imported release 1.37+none"),
        (["diff", "1.36", "1.37", "--subject", "gate"], "there is no subject 'gate': choose from types"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str, tree: Path, tmp_path: Path):
    """One line says what is wrong and what to do."""
    (tmp_path / "file").write_text("no archive")
    places = {"tree": tree, "nothing": tmp_path / "nothing", "file": tmp_path / "file"}

    with pytest.raises(UserError) as error:
        run(*(argument.format(**places) for argument in arguments))

    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_an_empty_directory(tmp_path: Path):
    """The command exits with 2, and says why in at most three lines."""
    (tmp_path / "empty").mkdir()
    arguments = ["release", "import", str(tmp_path / "empty"), "--name", "9.99"]
    command = [sys.executable, "-m", "kubeskew", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)

    assert ended.returncode == 2
    assert ended.stdout == ""
    assert len(ended.stderr.splitlines()) <= 3
