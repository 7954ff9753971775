"""The choice of cells: scenarios, profiles, patterns, shards; and the command line that shows it."""

import json
from pathlib import Path

import pytest

from kubeskew.cli.main import main
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.matrix import PROFILES, cells_of, find, of_profile, of_scenarios, shard

MINE = """
apiVersion: kubeskew.io/v1alpha1
kind: Scenario
spec: {cluster: {}, parameters: {n: [1, 2, 3]}}
---
apiVersion: chainsaw.kyverno.io/v1alpha1
kind: Test
metadata: {name: mine}
spec: {steps: [{try: [{sleep: {duration: 1s}}]}]}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.yaml").write_text(MINE)
    (tmp_path / "profile.yaml").write_text(
        "scenarios: [mine.yaml, kep-5004/names]\ncells: [mine/1, '*/1.36']\n"
    )
    return tmp_path


def test_a_cell_may_be_named_in_place_of_its_scenario():
    """The named cells of a scenario are chosen, and all of one that is named itself, in any order."""

    def names(*asked: str) -> list[str]:
        return [cell.name for cell in of_scenarios(asked).cells()]

    assert names("kep-5004/quota/1.35") == ["kep-5004/quota/1.35"]
    both = ["kep-5004/quota/1.34", "kep-5004/quota/1.36"]
    assert names(*both) == both
    assert names("kep-5004/quota/1.35", "kep-5004/quota") == names("kep-5004/quota")
    assert names("kep-5004/quota/1.35", "kep-5004/names")[1:] == names("kep-5004/names")


def test_a_cell_that_a_scenario_does_not_have_is_reported():
    """The error names the cells that there are, and the one that was probably meant."""
    said = r"there is no cell kep-5004/quota/1\.3; there are kep-5004/quota/1\.34, .*did you mean kep-5004/"
    with pytest.raises(ScenarioError, match=said):
        of_scenarios(["kep-5004/quota/1.3"])


def test_a_profile_in_a_file_lists_scenarios_and_patterns(folder: Path):
    """Files are found next to the profile, others by name."""
    cells = of_profile(str(folder / "profile.yaml")).cells()

    assert [cell.name for cell in cells] == ["mine/1", "kep-5004/names/1.36"]
    assert [cell.name for cell in of_profile(str(folder / "profile.yaml")).cells(["mine/*"])] == ["mine/1"]


def test_shards_have_every_cell_once(folder: Path):
    """All parts together are the whole."""
    cells = of_scenarios([str(folder / "mine.yaml")] * 2).cells()
    parts = [[cell.name for cell in shard(cells, number, 2)] for number in (1, 2)]

    assert parts == [["mine/1", "mine/3"], ["mine/2"]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cell: [a]", "unknown key cell; known are scenarios, cells; did you mean cells"),
        ("cells: mine/1", "cells: expected a list of names"),
        ("scenarios: [mine.yaml]\ncells: [mine/4]", "no cell has the name mine/4; did you mean mine/"),
        (
            "scenarios: [kep-5004/name]",
            "there is no scenario kep-5004/name, and no such file; did you mean kep-5004/names",
        ),
        ("- a", "expected a mapping with scenarios, cells"),
    ],
)
def test_a_profile_is_checked(folder: Path, text: str, message: str):
    """A profile that names what is not there is refused."""
    (folder / "profile.yaml").write_text(text)
    with pytest.raises(ScenarioError, match=message):
        of_profile(str(folder / "profile.yaml")).cells()


def test_two_files_may_not_have_the_same_cell(folder: Path):
    """Cells are known by their names, in reports and in the record."""
    (folder / "copy.yaml").write_text(MINE)
    with pytest.raises(ScenarioError, match=r"two files have a cell mine/1: .*mine.yaml and .*copy.yaml"):
        of_scenarios([str(folder / "mine.yaml"), str(folder / "copy.yaml")]).cells()


@pytest.mark.parametrize("profile", list(PROFILES))
def test_every_profile_that_comes_along_has_cells(profile: str):
    """Each of its patterns is the name of some cell."""
    assert cells_of(profile)


def shown(capsys: pytest.CaptureFixture[str], code: int, *arguments: str) -> str:
    """Returns what the command prints, and checks that it exits with that status."""
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    captured = capsys.readouterr()
    assert ended.value.code == code, captured.err
    return captured.out + captured.err


def test_the_cells_can_be_listed(folder: Path, capsys: pytest.CaptureFixture[str]):
    """`--list` starts nothing; as JSON it has the parameters, too."""
    listed = shown(
        capsys, 0, "matrix", str(folder / "mine.yaml"), "--only", "mine/[12]", "--list", "-o", "json"
    )

    assert [(cell["name"], cell["parameters"]) for cell in json.loads(listed)] == [
        ("mine/1", {"n": 1}),
        ("mine/2", {"n": 2}),
    ]
    assert "mine/3" in shown(capsys, 0, "run", str(folder / "mine.yaml"), "--list")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["kep-5004/names", "--profile", "full"], "name scenarios or a profile, not both"),
        (["--profile", "ful"], "there is no profile ful; .*; did you mean full"),
        (
            ["--only", "nothing/*"],
            "--only nothing/\\*: no cell of matrix first has such a name; --list shows them",
        ),
        (["--shard", "3/2"], "'3/2' is no part such as 1/4"),
        (["--shard", "4/4"], "--shard 4/4: empty, there are 2 cells in all"),
        (["--compare", "--record"], "choose one"),
    ],
)
def test_wrong_usage_is_reported(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str):
    """Exit status 2, with what is wrong."""
    import re

    assert re.search(message, shown(capsys, 2, "matrix", *arguments))


def test_a_wrong_file_is_reported_once(folder: Path, capsys: pytest.CaptureFixture[str]):
    """One line for the file, however many cells it has, before a cluster is started."""
    path = folder / "mine.yaml"
    path.write_text(MINE.replace("cluster: {}", "cluster: {version: ($v.from)}"))

    output = shown(capsys, 2, "matrix", str(path))
    assert (
        output
        == f"kubeskew: {path}:4: cluster: ($v.from): nothing is bound to $v here; bound are $namespace, $n\n"
    )


def test_files_of_a_scenario_are_found_wherever_the_cell_runs(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """A simulation, in a directory of its own, finds what a scenario names that has a relative path."""
    (folder / "class.yaml").write_text(
        "{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: from-a-file}, spec: {}}"
    )
    text = MINE.replace("[{sleep: {duration: 1s}}]", "[{create: {file: class.yaml}}]")
    (folder / "mine.yaml").write_text(text.replace("{cluster: {}", "{cluster: {nodes: []}"))
    monkeypatch.chdir(folder)

    with pytest.raises(SystemExit) as ended:
        main(["matrix", "mine.yaml", "--only", "mine/1", "--simulate", "--jobs", "1"])
    assert ended.value.code == 0


def test_a_file_that_is_not_there_is_reported_with_the_nearest(tmp_path: Path):
    """A scenario's file that cannot be found is named, with the one of the folder that may be meant."""
    (tmp_path / "pdb.yaml").write_text("")
    with pytest.raises(
        ScenarioError, match=r"pdb\.yml: No such file or directory; did you mean pdb\.yaml\?$"
    ):
        find("pdb.yml", tmp_path)
