"""Completion of the command line in a shell, and the schemas by which editors complete files."""

from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from kubeskew.cli.commands.shells import SHELLS, VARIABLE
from kubeskew.cli.main import cli, main


def completed(*words: str) -> list[str]:
    """Returns what completes the last of the words."""
    found = ShellComplete(cli, {}, "kubeskew", VARIABLE).get_completions([*words[:-1]], words[-1])
    return [item.value for item in found]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("upg",), ["upgrade"]),
        (("upgrade", "--to", "1.36"), ["1.36"]),
        (("up", "--version", "1.29"), ["1.29", "1.29+kep4381"]),
        (("run", "kep-5004/quo"), ["kep-5004/quota"]),
        (
            ("run", "kep-5004/quota/"),
            [f"kep-5004/quota/{version}" for version in ("1.34", "1.35", "1.36", "1.37")],
        ),
        (("matrix", "kep-5004/quota", "--only", "kep-5004/quota/1.36"), ["kep-5004/quota/1.36"]),
        (
            ("run", "kep-5004/quota/1.35", "--only", "kep-5004/quota/1.3"),
            [f"kep-5004/quota/{version}" for version in ("1.34", "1.35", "1.36", "1.37")],
        ),
        (("gates", "DRAPartitionable"), ["DRAPartitionableDevices", "DRAPartitionableDevicesType"]),
        (
            ("gates", "A=true,DRAExtendedResource="),
            [f"A=true,DRAExtendedResource={x}" for x in ("true", "false")],
        ),
        (("history", "resourceclaimt"), ["resourceclaimtemplates"]),
        (("restart", ""), []),
        (("completion", "f"), ["fish"]),
        (("help", "upg"), ["upgrade"]),
    ],
)
def test_arguments_are_completed(words, expected, tmp_path, monkeypatch):
    """Commands, releases, scenarios, cells, gates and resources are completed; components need a cluster."""
    monkeypatch.chdir(tmp_path)
    assert completed(*words) == expected


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_of_each_shell_asks_the_program(shell, capsys):
    """Each shell gets a script of its own, which asks the program."""
    with pytest.raises(SystemExit) as ended:
        main(["completion", shell])
    assert ended.value.code == 0
    assert f"{VARIABLE}={shell}_complete" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["cluster", "scenario"])
def test_the_schemas_are_printed(kind, capsys):
    """Whoever has only the wheel gets the schema of the documents, which is made of the readers' own keys."""
    with pytest.raises(SystemExit) as ended:
        main(["schema", kind])
    assert ended.value.code == 0
    committed = Path(__file__).parents[3] / "docs" / "schemas" / f"{kind}.schema.json"
    assert capsys.readouterr().out == committed.read_text()


def test_a_misspelt_command_gets_the_right_one(capsys):
    """A command that is not there is one line with the nearest name, and exit 2."""
    with pytest.raises(SystemExit) as ended:
        main(["upgrad", "--to", "1.36"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        "kubeskew: no such command 'upgrad'; did you mean upgrade?; see `kubeskew --help`\n"
    )
