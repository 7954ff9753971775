"""`kubeskew release`: releases made of Kubernetes source trees."""

from collections import Counter
from pathlib import Path
from typing import Any

import click
import orjson

from kubeskew.apimachinery.imported_releases import ENVIRONMENT, releases_directory
from kubeskew.apimachinery.versions import Version
from kubeskew.cli.commands.options import VERSION, output_option, print_json, print_table, show_progress
from kubeskew.cli.terminal import echo
from kubeskew.cluster.failures import UserError
from kubeskew.releases.directory import (
    ImportedRelease,
    ReleaseDirectory,
    ReleaseError,
    base_of,
    check_base,
)

_SHOWN = 12  # characters of a commit in a table
_MOST = 72  # characters of a value in a table; -o json has it whole
into_option = click.option(
    "--into",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    help=f"Directory of the releases (default: ${ENVIRONMENT}, or the user's data directory).",
)


@click.group()
def release() -> None:
    """Make releases of Kubernetes source trees: an enhancement's branch, or the next minor.

    An imported release is a version like any other: `kubeskew up --version 1.37+mine`, paths of scenarios,
    `allocate`, `explore`. Types, documents, gates, roles, storage versions and declared validation are those
    of the tree; components otherwise behave as in the base release.

    \b
    kubeskew release import ~/src/kubernetes --name 1.37+mine --base 1.37
    kubeskew release diff 1.37 1.37+mine
    kubeskew matrix my-scenario.yaml --simulate
    """


@release.command("import")
@click.argument("source", type=click.Path(path_type=Path))
@click.option("--name", metavar="NAME", help="The release's name: 1.37+mine, or 1.38 for a new minor.")
@click.option(
    "--base", type=VERSION, help="The release whose behaviour it has (default: that of the tree's minor)."
)
@into_option
@output_option
def import_(
    source: Path, name: str | None, base: Version | None, directory: Path | None, output: str
) -> None:
    """Import a release: a Kubernetes source tree of 1.31 or later, or a file that `release export` wrote.

    Nothing of the tree is executed, and Go is not needed.

    \b
    kubeskew release import ~/src/kubernetes --name 1.37+mine --base 1.37
    kubeskew release import mine.tar.gz
    """
    releases = ReleaseDirectory(directory or releases_directory())
    try:
        made = (
            _from_tree(source, name, base, releases)
            if source.is_dir()
            else _from_file(source, name, base, releases)
        )
    except (ReleaseError, ValueError) as error:
        raise UserError(str(error)) from error
    except OSError as error:
        raise UserError(f"cannot import {source}: {error.strerror or error}") from error
    if output == "json":
        print_json(made.document())
        return
    _show(made)
    if releases.path != releases_directory():
        echo(f"Set {ENVIRONMENT}={releases.path.absolute()} to use it, as in:")
    echo(f"kubeskew up --version {made.name}")


def _from_tree(
    source: Path, name: str | None, base: Version | None, releases: ReleaseDirectory
) -> ImportedRelease:
    from kubeskew.releases.import_tree import read_release
    from kubeskew.releases.tree.source_tree import SourceTree

    if name is None:
        raise UserError("name the release with --name, such as --name 1.37+mine")
    releases.check_free(name)
    tree = SourceTree(source)
    chosen = base or base_of(tree.minor)
    check_base(name, chosen)
    made, files = read_release(tree, name, chosen, show_progress)
    releases.write(made, files)
    return made


def _from_file(
    source: Path, name: str | None, base: Version | None, releases: ReleaseDirectory
) -> ImportedRelease:
    if not source.is_file():
        raise UserError(
            f"there is no {source}: name a Kubernetes source tree, or a file of `kubeskew release export`"
        )
    if name is not None or base is not None:
        raise UserError("an exported release has its name and base already: leave out --name and --base")
    return releases.add(source)


@release.command("list")
@into_option
@output_option
def list_(directory: Path | None, output: str) -> None:
    """List the imported releases.

    \b
    kubeskew release list
    """
    releases = ReleaseDirectory(directory or releases_directory())
    found = list(releases)
    for name in releases.damaged():
        show_progress(
            f"{name} in {releases.path} is damaged or of another format: remove and import it again"
        )
    if output == "json":
        print_json([each.document() for each in found])
        return
    if not found:
        echo(f"No release is imported in {releases.path}; `kubeskew release import --help` says how.")
        return
    print_table(
        ("NAME", "BASE", "TREE", "COMMIT", "GATES", "RESOURCES"),
        [
            {
                "name": each.name,
                "base": each.base,
                "tree": f"1.{each.tree_minor}",
                "commit": each.commit[:_SHOWN] or "-",
                "gates": str(each.counts.get("gates", "-")),
                "resources": str(each.counts.get("resources", "-")),
            }
            for each in found
        ],
    )


@release.command()
@click.argument("name")
@into_option
@output_option
def show(name: str, directory: Path | None, output: str) -> None:
    """Show an imported release: its tree, what was read, and what kubeskew does not follow.

    \b
    kubeskew release show 1.37+mine
    """
    found = _found(name, directory)
    if output == "json":
        print_json(found.document())
    else:
        _show(found)


@release.command()
@click.argument("before", metavar="A", type=VERSION)
@click.argument("after", metavar="B", type=VERSION)
@click.option(
    "--subject", "subjects", multiple=True, metavar="S", help="Only types, fields, gates, …; repeatable."
)
@output_option
def diff(before: Version, after: Version, subjects: tuple[str, ...], output: str) -> None:
    """Show what differs between two releases: types, fields, resources, gates, roles, rules and code files.

    Code files, whose behaviour kubeskew has from the base release, are compared if both are imported.

    \b
    kubeskew release diff 1.37 1.37+mine
    kubeskew release diff 1.36 1.37 --subject gates -o json
    """
    from kubeskew.releases.comparison import compare, view

    known = list(view(before))
    if unknown := [subject for subject in subjects if subject not in known]:
        raise UserError(f"there is no subject {unknown[0]!r}: choose from {', '.join(known)}")
    found = [each for each in compare(before, after) if not subjects or each.subject in subjects]
    if output == "json":
        print_json([each._asdict() for each in found])
        return
    if not found:
        echo(f"{before} and {after} do not differ.")
        return
    print_table(
        ("SUBJECT", "NAME", "CHANGE", "BEFORE", "AFTER"),
        [
            {
                "subject": each.subject,
                "name": each.name,
                "change": each.change,
                "before": _text(each.before),
                "after": _text(each.after),
            }
            for each in found
        ],
    )
    counted = Counter(each.subject for each in found)
    echo(", ".join(f"{count} {subject}" for subject, count in counted.items()))


@release.command()
@click.argument("name")
@into_option
def remove(name: str, directory: Path | None) -> None:
    """Remove an imported release. Clusters and logs of it need it to be read.

    \b
    kubeskew release remove 1.37+mine
    """
    releases = ReleaseDirectory(directory or releases_directory())
    try:
        releases.remove(name)
    except ReleaseError as error:
        raise UserError(str(error)) from error
    show_progress(f"removed {name} from {releases.path}")


@release.command()
@click.argument("name")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@into_option
def export(name: str, file: Path, directory: Path | None) -> None:
    """Write an imported release into a file, with which somebody else imports it.

    \b
    kubeskew release export 1.37+mine mine.tar.gz
    """
    try:
        ReleaseDirectory(directory or releases_directory()).export(name, file)
    except ReleaseError as error:
        raise UserError(str(error)) from error
    except OSError as error:
        raise UserError(f"cannot write {file}: {error.strerror or error}") from error
    show_progress(f"wrote {name} into {file}; `kubeskew release import {file}` takes it from there")


def _found(name: str, directory: Path | None) -> ImportedRelease:
    try:
        return ReleaseDirectory(directory or releases_directory()).release(name)
    except ReleaseError as error:
        raise UserError(str(error)) from error


def _show(found: ImportedRelease) -> None:
    echo(
        f"{found.name}, based on {found.base}, of a tree of 1.{found.tree_minor}"
        + (f" at {found.commit}" if found.commit else "")
    )
    echo(", ".join(f"{count} {subject}" for subject, count in found.counts.items()))
    for subject, names in found.reported.items():
        echo(f"{subject}: {', '.join(names)}")


def _text(value: Any) -> str:
    if value is None:
        return "-"
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return text if len(text) <= _MOST else f"{text[: _MOST - 1]}…"
