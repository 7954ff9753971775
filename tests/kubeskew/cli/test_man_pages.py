"""The manual pages, held against the commands and what their `--help` says."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kubeskew.cli.commands.manual import VERBATIM, contexts
from kubeskew.cli.main import COMMANDS, cli, main


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    directory = tmp_path_factory.mktemp("man") / "man1"
    result = CliRunner().invoke(cli, ["man", str(directory)], prog_name="kubeskew")
    assert result.exit_code == 0, result.output
    found = {path.name: path.read_text() for path in sorted(directory.iterdir())}
    assert result.output == f"{len(found)} pages are in {directory}.\n"
    return found


def test_every_command_has_a_page(pages: dict[str, str]):
    """There is a page for `kubeskew`, for each command, and for those of a group."""
    assert {"kubeskew.1", *(f"kubeskew-{name}.1" for name in COMMANDS)} <= {*pages}
    assert "kubeskew-storage-audit.1" in pages


@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_has_every_option(name: str, pages: dict[str, str]):
    """A page names the options that the command takes, and the examples of its help."""
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    text = pages[f"kubeskew-{name}.1"].replace("\\-", "-")
    shown = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    options = [text for each in shown for text in each.opts]

    assert [option for option in options if option not in text] == []
    assert ".SH SYNOPSIS" in text


def test_every_help_has_an_example():
    """The help of each command has an example of it, and each of its options has a text."""
    found = [*contexts(click.Context(cli, info_name="kubeskew"))]
    without = [each.command_path for each in found if VERBATIM not in (each.command.help or "")]
    silent = [
        f"{each.command_path} --{option.name}"
        for each in found
        for option in each.command.get_params(each)
        if isinstance(option, click.Option) and not option.help
    ]
    assert (without, silent) == ([], [])


# Words of this project that a help may use only together with what they mean.
EXPLAINED = {"cell": "parameters", "invariant": "rule", "finding": "broken"}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_help_explains_its_words(name: str):
    """A help that uses a word of this project's own in its description says what it means."""
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    described = (command.help or "").partition(VERBATIM)[0]
    used = {word for word in EXPLAINED if word in described.lower()}
    assert {word for word in used if EXPLAINED[word] not in described} == set()


@pytest.mark.parametrize("name", ["kubelet", "driver", "driver-controller", "metrics-server"])
def test_components_without_replicas_elect_no_leader(name: str):
    """Only the components that upstream runs as replicas have a flag about leader election."""
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert [each.name for each in command.params if "leader" in (each.name or "")] == []


def test_a_page_reads_as_the_help(pages: dict[str, str]):
    """Examples keep their lines, and no line of text is taken for an instruction."""
    text = pages["kubeskew-down.1"]

    assert ".nf\nkubeskew down\nkubeskew down \\-\\-purge\n.fi" in text
    known = (".TH", ".SH", ".PP", ".RS", ".RE", ".nf", ".fi", ".TP")
    lines = [line for each in pages.values() for line in each.splitlines() if line.startswith((".", "'"))]
    assert [line for line in lines if not line.startswith(known)] == []
    assert all(each.isascii() for each in pages.values())


def test_a_directory_that_cannot_be_is_reported(tmp_path: Path):
    """A file in the place of the directory is wrong usage, reported in one line."""
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(cli, ["man", str(tmp_path / "file")], prog_name="kubeskew")

    assert str(result.exception).startswith(f"cannot make {tmp_path / 'file'}: ")


@pytest.mark.parametrize("names", [[], ["upgrade"], ["matrix", "compare"]])
def test_help_of_a_command_is_what_its_flag_says(names: list[str]):
    """`kubeskew help upgrade` is `kubeskew upgrade --help`."""
    result = CliRunner().invoke(cli, ["help", *names], prog_name="kubeskew")
    said = CliRunner().invoke(cli, [*names, "--help"], prog_name="kubeskew")

    assert result.exit_code == 0
    assert result.output == said.output


def test_help_of_what_is_no_command_is_refused_in_a_line(capsys: pytest.CaptureFixture[str]):
    """A misspelt command is given the nearest."""
    with pytest.raises(SystemExit) as ended:
        main(["help", "upgrad"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        "kubeskew: no such command 'upgrad'; did you mean upgrade?; see `kubeskew --help`\n"
    )
