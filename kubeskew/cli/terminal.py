"""Prints to a terminal what a cluster says: its texts must not steer the terminal."""

import click

_LINES = "\n\t"


def escaped(text: str, keep: str = "") -> str:
    """Returns `text` with control characters, marks of direction and the like as escapes, but for those to
    `keep`.

    Names, messages and logs come from whoever may write to the cluster: an escape sequence among them could
    hide lines, or have the terminal type.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in keep else char.encode("unicode_escape").decode()
        for char in text
    )


def echo(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Prints lines, all but line ends and tabs escaped."""
    click.echo(escaped(text, _LINES), err=err, nl=nl)
