"""`kubeskew help` and `kubeskew man`. Both print the text of `--help`."""

import re
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import click

from kubeskew.cli import completion
from kubeskew.cluster.failures import UserError

VERBATIM = "\b"  # click's mark of a paragraph whose lines are kept


@click.command("help")
@click.argument("command", nargs=-1, metavar="[COMMAND...]", shell_complete=completion.commands)
@click.pass_context
def show_help(context: click.Context, command: tuple[str, ...]) -> None:
    """Show the help of a command, as its --help does; without one, list the commands.

    \b
    kubeskew help upgrade
    kubeskew help matrix compare
    """
    root = context.find_root()
    root.command.main([*command, "--help"], prog_name=root.info_name, standalone_mode=False)


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.pass_context
def man(context: click.Context, directory: Path) -> None:
    """Write a manual page for each command into a directory, for man(1).

    The directory is one of section 1, by convention man1. The pages have the text of `--help`.

    \b
    kubeskew man ~/.local/share/man/man1
    man kubeskew-upgrade
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make {directory}: {error.strerror}") from error
    found = [*contexts(context.find_root())]
    for each in found:
        (directory / f"{_title(each)}.1").write_text(page(each))
    click.echo(f"{len(found)} pages are in {directory}.")


def contexts(context: click.Context) -> Iterator[click.Context]:
    yield context
    command = context.command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None:
                yield from contexts(click.Context(child, info_name=name, parent=context))


def _title(context: click.Context) -> str:
    return context.command_path.replace(" ", "-")


def page(context: click.Context) -> str:
    command, title = context.command, _title(context)
    pieces = " ".join(command.collect_usage_pieces(context))
    lines = [
        f'.TH "{title.upper()}" "1" "" "kubeskew {version("kubeskew")}"',
        ".SH NAME",
        f"{_plain(title)} \\- {_plain(command.get_short_help_str(200))}",
        ".SH SYNOPSIS",
        f"\\fB{_plain(context.command_path)}\\fR {_plain(pieces)}",
        ".SH DESCRIPTION",
        *_paragraphs(command.help or ""),
        ".SH OPTIONS",
        *_options(context),
        *_commands(context),
    ]
    return "\n".join(lines) + "\n"


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        lines = [line.strip() for line in paragraph.splitlines()]
        if lines[0] == VERBATIM:
            yield from (".PP", ".RS", ".nf", *map(_plain, lines[1:]), ".fi", ".RE")
        else:
            yield from (".PP", _plain(" ".join(lines)))


def _options(context: click.Context) -> Iterator[str]:
    for parameter in context.command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None:
            yield from (".TP", f"\\fB{_plain(record[0])}\\fR", _plain(record[1]))


def _commands(context: click.Context) -> Iterator[str]:
    children = [each for each in contexts(context) if each.parent is context]
    if children:
        yield ".SH COMMANDS"
    for child in children:
        yield from (
            ".TP",
            f"\\fB{_plain(_title(child))}\\fR(1)",
            _plain(child.command.get_short_help_str(200)),
        )


def _plain(text: str) -> str:
    """Escapes everything in a line that groff would take for an instruction."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    escaped = "".join(each if each.isascii() else f"\\[u{ord(each):04X}]" for each in escaped)
    return f"\\&{escaped}" if escaped.startswith(".") else escaped
