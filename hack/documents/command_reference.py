"""The site's page of all commands, made of their `--help`: hack/documents/site.py adds it."""

import re
from collections.abc import Iterator

import click

from kubeskew.cli.commands.manual import VERBATIM, contexts
from kubeskew.cli.main import cli

_HEAD = """\
# Commands

What `kubeskew COMMAND --help` says of each command, as `kubeskew man DIR` writes it for man(1). A
command ends with 0 if all went well, with 1 if something failed or was found, with 2 for wrong usage. Every
table can be had as JSON by `-o json`.
"""


def page() -> str:
    """All commands are listed first; each has a section."""
    root = click.Context(cli, info_name="kubeskew")
    found = [*contexts(root)]
    rows = ["| command | what it does |", "| --- | --- |"]
    rows += [f"| [`{each.command_path}`](#{_anchor(each)}) | {_summary(each)} |" for each in found[1:]]
    return "\n".join([_HEAD, *rows, "", *(line for each in found for line in _section(each))]) + "\n"


def _anchor(context: click.Context) -> str:
    return context.command_path.replace(" ", "-")


def _summary(context: click.Context) -> str:
    return _cell(context.command.get_short_help_str(200))


def _section(context: click.Context) -> Iterator[str]:
    command = context.command
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield from (f"## {context.command_path} {{ #{_anchor(context)} }}", "", f"    {usage}", "")
    for paragraph in re.split(r"\n\s*\n", (command.help or "").strip()):
        lines = [line.strip() for line in paragraph.splitlines()]
        if lines[0] == VERBATIM:
            yield from (f"    {line}" for line in lines[1:])
        else:
            yield _plain(" ".join(lines))
        yield ""
    records = [each.get_help_record(context) for each in command.get_params(context)]
    yield from ("| option | what it does |", "| --- | --- |")
    yield from (f"| `{names}` | {_cell(text)} |" for names, text in filter(None, records) if text)
    yield ""


def _cell(text: str) -> str:
    return _plain(" ".join(text.split()))


def _plain(text: str) -> str:
    """Escapes Markdown's marks, but for those in backticks."""
    pieces = re.split(r"(`[^`]*`)", text)
    marked = [piece if piece.startswith("`") else re.sub(r"([*_<\[|])", r"\\\1", piece) for piece in pieces]
    return "".join(marked)
