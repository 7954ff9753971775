"""Output on a terminal: texts of a cluster cannot control it, and commands in messages can be pasted.

Messages come from all layers and name commands as `kubeskew up`. Only the command line knows the state
directory, so it is added to them here.
"""

import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import click

_NARROWEST = 8  # that a column is made
GAP = "   "  # between columns
_LINES = "\n\t"
_HOME_AND_CLEAR = "\x1b[H\x1b[2J"
_COMMAND = re.compile(r"`kubeskew (?P<command>[a-z-]+)(?P<rest>[^`]*)`")
_GIVEN = "kubeskew.state-dir"  # among the values that the contexts of one call share


def escaped(text: str, keep: str = "") -> str:
    """Control characters, marks of direction and the like become escapes, except those in `keep`.

    Everybody who may write to the cluster can choose names, messages and logs: an escape sequence in them
    could hide lines, or make the terminal type.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in keep else char.encode("unicode_escape").decode()
        for char in text
    )


def echo(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Line ends and tabs stay; other control characters are escaped."""
    click.echo(escaped(text, _LINES), err=err, nl=nl)


def width() -> int | None:
    """None without a terminal: files get uncut lines."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def replace(text: str) -> None:
    """Without a terminal the text follows earlier output after an empty line."""
    click.echo(f"{_HOME_AND_CLEAR}{text}" if sys.stdout.isatty() else f"{text}\n")


def fitted(widths: Sequence[int], total: int | None, weights: Sequence[int] = ()) -> list[int]:
    """Columns fit into `total` with gaps between them; the widest become narrower.

    A column of twice the weight is left twice as wide.
    """
    found = [*widths]
    weighed = weights or [1] * len(found)
    while total is not None and sum(found) + len(GAP) * (len(found) - 1) > total:
        wide = [at for at, width in enumerate(found) if width > _NARROWEST]
        if not wide:
            break
        found[max(wide, key=lambda at: found[at] / weighed[at])] -= 1
    return found


def cut(text: str, most: int | None) -> str:
    return text if most is None or len(text) <= most else f"{text[: most - 1]}…"


def _in_column(text: str, most: int) -> str:
    """Names are cut in the middle, because their ends distinguish them; other texts are cut at the end."""
    if len(text) <= most or " " in text:
        return cut(text, most)
    end = most // 2
    return f"{text[: most - end - 1]}…{text[len(text) - end :]}"


def row(cells: Sequence[str], widths: Sequence[int]) -> str:
    texts = [_in_column(escaped(cell), each).ljust(each) for cell, each in zip(cells, widths, strict=True)]
    return GAP.join(texts).rstrip()


def note_state_dir(ctx: click.Context, path: Path) -> None:
    ctx.meta[_GIVEN] = str(path)


def complete_commands(text: str) -> str:
    """Adds the state directory to the commands in a message, if it was given and they take one."""
    ctx = click.get_current_context(silent=True)
    given = ctx and ctx.meta.get(_GIVEN)
    if ctx is None or not given:
        return text
    group = ctx.find_root().command

    def named(found: re.Match[str]) -> str:
        command = group.get_command(ctx, found["command"]) if isinstance(group, click.Group) else None
        if command is None or "--state-dir" in found["rest"] or not _takes_state_dir(command):
            return found[0]
        return f"`kubeskew --state-dir {shlex.quote(given)} {found['command']}{found['rest']}`"

    return _COMMAND.sub(named, text)


def _takes_state_dir(command: click.Command) -> bool:
    below = list(command.commands.values()) if isinstance(command, click.Group) else []
    return any("--state-dir" in param.opts for each in (command, *below) for param in each.params)
