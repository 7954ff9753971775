"""Completes the commands that messages advise, so that they work as they stand, for the cluster meant.

Messages come from all layers and name commands as `kubeskew up`. Which state directory was meant only the
command line knows, so it is put into them here.
"""

import re
import shlex
from pathlib import Path

import click

_COMMAND = re.compile(r"`kubeskew (?P<command>[a-z-]+)(?P<rest>[^`]*)`")
_GIVEN = "kubeskew.state-dir"  # among the values that the contexts of one call share


def note_state_dir(ctx: click.Context, path: Path) -> None:
    """Notes that --state-dir was given."""
    ctx.meta[_GIVEN] = str(path)


def complete(text: str) -> str:
    """Returns a message whose commands name the state directory, if it was given and they take one."""
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
    """Returns whether a command, or one below it, is about the cluster of a state directory."""
    below = list(command.commands.values()) if isinstance(command, click.Group) else []
    return any("--state-dir" in param.opts for each in (command, *below) for param in each.params)
