"""`kubeskew release`: releases made of Kubernetes source trees."""

import textwrap
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson

from kubeskew.apimachinery.imported_releases import ENVIRONMENT, releases_directory
from kubeskew.apimachinery.versions import Version
from kubeskew.cli.commands.options import VERSION, output_option, print_json, print_table, show_progress
from kubeskew.cli.terminal import cut, echo, width
from kubeskew.cluster.failures import UserError
from kubeskew.releases.directory import (
    ImportedRelease,
    ReleaseDirectory,
    ReleaseError,
    base_of,
    check_base,
)

if TYPE_CHECKING:
    from kubeskew.releases.comparison import Difference

_SHOWN = 12  # characters of a commit in a table
_WIDTH = 100  # of wrapped lists in a file
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
    kubeskew up --version 1.37+mine
    """


@release.command("import")
@click.argument("source", type=click.Path(path_type=Path))
@click.option("--name", metavar="NAME", help="The release's name: 1.37+mine, or 1.38 for a new minor.")
@click.option(
    "--base", type=VERSION, help="The release whose behaviour it has (default: that of the name's minor)."
)
@click.option("--replace", is_flag=True, help="Take the place of a release of that name.")
@into_option
@output_option
def import_(
    source: Path, name: str | None, base: Version | None, replace: bool, directory: Path | None, output: str
) -> None:
    """Import a release from a Kubernetes source tree, or from an exported file.

    The tree is of 1.31 or later. Nothing of it is executed, and Go is not needed; what is not committed yet
    is read, too. After a change of the tree, import it again with --replace.

    \b
    kubeskew release import ~/src/kubernetes --name 1.37+mine --base 1.37
    kubeskew release import ~/src/kubernetes --name 1.37+mine --base 1.37 --replace
    kubeskew release import mine.tar.gz
    """
    releases = ReleaseDirectory(directory or releases_directory())
    try:
        made = (
            _from_tree(source, name, base, releases, replace)
            if source.is_dir()
            else _from_file(source, name, base, releases, replace)
        )
    except (ReleaseError, ValueError) as error:
        raise UserError(str(error)) from error
    except OSError as error:
        raise UserError(f"cannot import {source}: {error.strerror or error}") from error
    if output == "json":
        print_json(made.document())
        return
    _show(made)
    echo("")
    if releases.path != releases_directory():
        echo(f"Set {ENVIRONMENT}={releases.path.absolute()}, and use it as any other version:")
    else:
        echo("Use it as any other version:")
    echo("")
    echo(f"  kubeskew release diff {made.base} {made.name}")
    echo(f"  kubeskew up --version {made.name}")


def _from_tree(
    source: Path, name: str | None, base: Version | None, releases: ReleaseDirectory, replace: bool
) -> ImportedRelease:
    from kubeskew.releases.import_tree import read_release
    from kubeskew.releases.tree.source_tree import SourceTree

    if name is None:
        raise UserError("name the release with --name, such as --name 1.37+mine")
    releases.check_free(name, replace)
    tree = SourceTree(source)
    chosen = base or base_of(name)
    check_base(name, chosen)
    made, files = read_release(tree, name, chosen, show_progress)
    releases.write(made, files, replace)
    return made


def _from_file(
    source: Path, name: str | None, base: Version | None, releases: ReleaseDirectory, replace: bool
) -> ImportedRelease:
    if not source.is_file():
        raise UserError(
            f"there is no {source}: name a Kubernetes source tree, or a file of `kubeskew release export`"
        )
    if name is not None or base is not None:
        raise UserError("an exported release has its name and base already: leave out --name and --base")
    return releases.add(source, replace)


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
    "--subject",
    "subjects",
    multiple=True,
    metavar="S",
    help="Only this subject, such as fields or gates; repeatable.",
)
@output_option
def diff(before: Version, after: Version, subjects: tuple[str, ...], output: str) -> None:
    """Show what differs between two releases, shipped or imported.

    Subjects are types, fields, rules, resources, storage versions, columns, gates, roles and code. Of a
    changed thing only what differs is shown. Code files, whose behaviour kubeskew has from the base release,
    are compared if both are imported. A terminal gets lines of its width, a file whole ones.

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
    for line in difference_lines(found):
        echo(cut(line, width()))
    counted = Counter(each.subject for each in found)
    echo(", ".join(f"{subject}: {count}" for subject, count in counted.items()))


@release.command()
@click.argument("name")
@into_option
@output_option
def remove(name: str, directory: Path | None, output: str) -> None:
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
    if output == "json":
        print_json({"removed": name, "from": str(releases.path)})


@release.command()
@click.argument("name")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@into_option
@output_option
def export(name: str, file: Path, directory: Path | None, output: str) -> None:
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
    if output == "json":
        print_json({"exported": name, "file": str(file)})


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
    echo(_wrapped([f"{count} {subject}" for subject, count in found.counts.items()], ""))
    for subject, names in found.reported.items():
        echo(f"{subject}:")
        echo(_wrapped(names, "  "))


def _wrapped(items: list[str], indent: str) -> str:
    return textwrap.fill(
        ", ".join(items),
        width() or _WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def difference_lines(found: "list[Difference]") -> Iterator[str]:
    """A paragraph per subject; below each name its value, or of a changed one what differs."""
    for subject, differences in groupby(found, key=lambda each: each.subject):
        yield subject
        for each in differences:
            yield f"  {each.change} {each.name}"
            if subject != "code":  # digests of files
                yield from (f"    {line}" for line in _details(each.before, each.after))


def _details(before: Any, after: Any) -> Iterator[str]:
    if before is None or after is None:
        yield _text(after if before is None else before)
    elif isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            if before.get(key) != after.get(key):
                yield from _changes(f"{key}: ", before.get(key), after.get(key))
    else:
        yield from _changes("", before, after)


def _changes(label: str, before: Any, after: Any) -> Iterator[str]:
    """Of lists the items that come and go."""
    if isinstance(before, list) and isinstance(after, list):
        gone = [item for item in before if item not in after]
        come = [item for item in after if item not in before]
        if gone or come:
            yield from (f"{label}without {_text(item)}" for item in gone)
            yield from (f"{label}with {_text(item)}" for item in come)
            return
    yield f"{label}{_text(before)} → {_text(after)}"


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else orjson.dumps(value).decode()
