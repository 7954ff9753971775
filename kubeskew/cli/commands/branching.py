"""The time machine: `kubeskew fork` and `kubeskew rewind`."""

import shlex
from pathlib import Path

import click

from kubeskew.cli import hints
from kubeskew.cli.commands.options import change, output_option, print_json, show_progress, state_dir_option
from kubeskew.cluster.state import StateDir


@click.command()
@state_dir_option
@output_option
@click.option(
    "--at", "revision", type=click.IntRange(1), required=True, metavar="REV", help="The revision to fork at."
)
@click.argument("target", metavar="DIR", type=click.Path(path_type=Path))
def fork(directory: StateDir, output: str, revision: int, target: Path) -> None:
    """Branch the cluster off at a revision, into a new state directory.

    DIR gets the log up to REV, the credentials, and the kubelets' files as they were then. Its components
    have the versions and gates that they had at REV, and ports of their own; nodes have the same names. What
    `kubeskew events` shows at REV behind its write, such as an upgrade, has happened: before it is REV - 1.
    The cluster itself may run, and does not change. DIR is new, empty, or left by a fork that was killed.

    \b
    kubeskew fork --at 300 other
    kubeskew --state-dir other up
    """
    made = change(directory, lambda cluster: cluster.fork(revision, StateDir(target.absolute())))
    if output == "json":
        document = {
            "directory": str(target.absolute()),
            "revision": made.revision,
            "events": made.events,
            "objects": made.objects,
            "sourceRevision": made.source_revision,
        }
        print_json(document)
        return
    click.echo(
        f"Forked at revision {made.revision} of {made.source_revision}: {made.events} events, "
        f"{made.objects} objects. Start it with:\n\n  kubeskew --state-dir {shlex.quote(str(target))} up"
    )


@click.command()
@state_dir_option
@output_option
@click.option(
    "--to",
    "revision",
    type=click.IntRange(1),
    required=True,
    metavar="REV",
    help="The revision to go back to.",
)
def rewind(directory: StateDir, output: str, revision: int) -> None:
    """Stop the cluster and take it back to a revision: its log, versions, gates and the kubelets' files.

    What `kubeskew events` shows at REV behind its write, such as an upgrade, stays: before it is REV - 1.
    What this cuts off is kept in `rewound/REV` of the state directory. The store gets a new id, for its next
    revisions were given before; who still has one of those is answered as one who asks for the future. A
    rewind that is interrupted leaves the old or the new: the next `up` or `rewind` says which, and finishes.

    \b
    kubeskew rewind --to 300
    kubeskew up
    """
    from kubeskew.cluster.branching.rewind import resume

    if resume(directory, show_progress) == revision:
        kept = None
    else:
        kept = change(directory, lambda cluster: cluster.rewind(revision))
    if output == "json":
        print_json({"revision": revision, "kept": str(kept) if kept else None})
        return
    if kept is not None:
        click.echo(f"What was cut off is kept in {kept}.")
    click.echo(
        hints.complete(f"The cluster is stopped, at revision {revision}. Start it with `kubeskew up`.")
    )
