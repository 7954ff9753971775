"""`kubeskew bugs`: the known bugs that a path of versions meets, with a workload or without.

The trigger of a bug is a list of alternatives `{kind, fields: {PATH: VALUE}}`. A part of a path that ends in
`[]` means any item of a list; the value `*` means any that is there. A template of pods, jobs or claims
counts as one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import yaml

from kubeskew.apimachinery import yaml_files
from kubeskew.apimachinery.known_bugs import KnownBug, known_bugs
from kubeskew.apimachinery.versions import Version, minors_between
from kubeskew.cli.commands.options import VERSION, output_option, print_json, print_table
from kubeskew.cli.terminal import echo
from kubeskew.cluster.failures import UserError

_ANY = "*"


def meets(bug: KnownBug, objects: Iterable[Mapping[str, Any]]) -> bool:
    """A trigger may match an object of the workload, or one that its templates create."""
    made = [each for obj in objects for each in with_made(obj)]
    return any(_matches(alternative, obj) for alternative in bug.trigger for obj in made)


def with_made(obj: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yields the object, the items of a list, and the objects that its templates create."""
    yield obj
    found = obj.get("spec")
    spec: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
    for item in obj.get("items") or () if str(obj.get("kind", "")).endswith("List") else ():
        yield from with_made(item)
    if isinstance(spec.get("template"), Mapping):
        yield {**spec["template"], "kind": "Pod"}
    if isinstance(spec.get("jobTemplate"), Mapping):
        yield from with_made({**spec["jobTemplate"], "kind": "Job"})
    if obj.get("kind") == "ResourceClaimTemplate":
        yield {**spec, "kind": "ResourceClaim"}


def _matches(alternative: Mapping[str, Any], obj: Mapping[str, Any]) -> bool:
    if alternative["kind"] != obj.get("kind"):
        return False
    fields: Mapping[str, Any] = alternative.get("fields") or {}
    return all(_has(obj, path, wanted) for path, wanted in fields.items())


def _has(obj: Any, path: str, wanted: Any) -> bool:
    values = list(_values(obj, path.split(".")))
    return bool(values) if wanted == _ANY else any(value == wanted for value in values)


def _values(value: Any, path: list[str]) -> Iterator[Any]:
    if not path:
        if value not in (None, "", [], {}):
            yield value
        return
    name, rest = path[0], path[1:]
    items = isinstance(value, Mapping) and value.get(name.removesuffix("[]"))
    if not name.endswith("[]"):
        if isinstance(value, Mapping) and name in value:
            yield from _values(value[name], rest)
    elif isinstance(items, list):
        for item in items:
            yield from _values(item, rest)


class Met(NamedTuple):
    bug: KnownBug
    at: Sequence[Version]

    def as_json(self) -> dict[str, Any]:
        bug = self.bug
        return {
            "id": bug.id,
            "component": bug.component,
            "area": bug.area,
            "title": bug.title,
            "source": bug.source,
            "affected": bug.affected,
            "fixed": [str(patch) for patch in bug.fixed],
            "gates": list(bug.gates),
            "at": [str(version) for version in self.at],
            "behaves": bool(bug.switch),
            "missing": bug.missing or None,
        }


def stops(first: Version, last: Version) -> list[Version]:
    """Both ends count, and the newest patch of each minor between them."""
    low, high = sorted((first, last))
    way = [low, *minors_between(low, high), *([high] if high != low else [])]
    return way if first == low else way[::-1]


def met(path: Sequence[Version], workload: Sequence[Mapping[str, Any]] | None) -> Iterator[Met]:
    """Without a workload all bugs of the path count, without a path all bugs."""
    for bug in known_bugs().values():
        at = [version for version in path if bug.affects(version)]
        if (at or not path) and (workload is None or meets(bug, workload)):
            yield Met(bug, at)


@click.command()
@click.option("--from", "first", type=VERSION, help="The version to begin with.")
@click.option("--to", "last", type=VERSION, help="The version to end with [default: that of --from].")
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="Only bugs that objects like those of this manifest can meet; repeatable.",
)
@output_option
def bugs(first: Version | None, last: Version | None, files: tuple[Path, ...], output: str) -> None:
    """List the known bugs of Kubernetes on the way from one version to another; without --from, all of them.

    The way stops at both versions and at the newest patch of each minor between them. Where HERE is yes,
    kubeskew's components have the bug, at the versions that had it. `kubeskew up --bugs ID=off` starts a
    cluster without the bug, to show how it is with the fix. `--bugs ID=on` starts one with the bug, though
    its version does not have it.

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
    """A manifest without objects is a UserError."""
    try:
        documents = yaml_files.load_checked(path.read_text())
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"cannot read {path}: it is not UTF-8") from error
    except yaml.YAMLError as error:
        raise UserError(yaml_files.explain(error, str(path))) from error
    objects = [document for document in documents if document is not None]
    if not objects or not all(isinstance(each, dict) and "kind" in each for each in objects):
        raise UserError(f"{path}: expected objects of the API, each with a `kind`")
    return objects
