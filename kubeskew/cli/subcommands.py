"""Gives a command that takes names of its own choosing a few commands below it: `matrix compare`."""

import importlib
from collections.abc import Mapping
from typing import Any

import click


class CommandWithSubcommands(click.Command):
    """A command whose first argument may be the name of another command, which then takes the rest.

    `subcommands` are module:attribute by name, imported when they are called.
    """

    def __init__(self, *args: Any, subcommands: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.subcommands = subcommands

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Returns the context of what is called: of the command itself, or of one below it."""
        if args and args[0] in self.subcommands:
            name, *rest = args
            return self._command(name).make_context(f"{info_name} {name}", rest, parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def _command(self, name: str) -> click.Command:
        module, _, attribute = self.subcommands[name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the commands below."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, self._command(name).get_short_help_str(90)) for name in self.subcommands]
            )
