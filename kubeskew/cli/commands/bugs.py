"""`kubeskew bugs`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import yaml

from kubeskew.apimachinery import yaml_files
from kubeskew.apimachinery.versions import Version
from kubeskew.cli.bugs.paths import Met, met, stops
from kubeskew.cli.commands.options import VERSION, output_option, print_json, print_table
from kubeskew.cli.terminal import echo
from kubeskew.cluster.failures import UserError


@click.command()
@click.option("--from", "first", type=VERSION, help="Where the path begins.")
@click.option("--to", "last", type=VERSION, help="Where it ends; by default, where it begins.")
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="Only bugs that these objects may meet; repeatable.",
)
@output_option
def bugs(first: Version | None, last: Version | None, files: tuple[Path, ...], output: str) -> None:
    """List the known bugs of Kubernetes that a path of versions meets, or all that are known here.

    A path stops at both ends and at the newest patch of each minor between them. Clusters behave as those
    marked `yes` do; `--bugs ID=off` is without one, `--bugs ID=on` has it at any version. Where no
    release is known that has the fix, `--bugs ID=off` shows how it is once one has.

    \b
    kubeskew bugs --from 1.33.5 --to 1.35
    kubeskew bugs --from 1.34.1 -f workload.yaml
    kubeskew bugs -o json
    """
    if last is not None and first is None:
        raise UserError("--to: name the beginning of the path, too, by --from")
    path = stops(first, last or first) if first is not None else []
    objects = [obj for file in files for obj in _objects(file)] if files else None
    found = list(met(path, objects))
    if output == "json":
        print_json([each.as_json() for each in found])
        return
    print_table(["ID", "COMPONENT", "AT", "AFFECTED", "FIXED IN", "HERE", "TITLE"], list(map(_row, found)))
    here = sum(bool(each.bug.switch) for each in found)
    echo(f"{len(found)} known bugs, {here} of which clusters here have. Sources: -o json", err=True)


def _row(found: Met) -> dict[str, Any]:
    bug = found.bug
    return {
        "id": bug.id,
        "component": bug.component,
        "at": ", ".join(map(str, found.at)) or "-",
        "affected": bug.affected,
        "fixed in": ", ".join(map(str, bug.fixed)) or ("none known" if bug.is_open else "-"),
        "here": "yes" if bug.switch else "no",
        "title": bug.title,
    }


def _objects(path: Path) -> Sequence[Mapping[str, Any]]:
    """Returns the objects in a manifest. Raises UserError if it has none."""
    try:
        documents = yaml_files.load_checked(path.read_text())
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except (yaml_files.KeyTypeError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    objects = [document for document in documents if document is not None]
    if not objects or not all(isinstance(each, dict) and "kind" in each for each in objects):
        raise UserError(f"{path}: expected objects of the API, each with a `kind`")
    return objects
