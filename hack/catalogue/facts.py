"""Read and change the facts of `hack/catalogue/facts/`, whose README.md says what they are.

    facts.py list                    subjects, their minors and sizes
    facts.py show types 1.36         print a minor's whole document
    facts.py put types FILE          add or replace a minor's document; its `version` says which minor
    facts.py diff types 1.35 1.36    print what is different between two minors
    facts.py read TREE               put all that a source tree of Kubernetes says of its minor
    facts.py read TREE discovery     some of that: types, openapi, discovery, storage, columns, gates
    facts.py gates 1.30 DIR          put the gates of a minor that trees cannot be read of

DIR holds Go files that register gates, in any order and depth: `kube_features.go` of k8s.io/kubernetes and of
the modules apiserver, apiextensions-apiserver, controller-manager and component-base, `known_features.go` of
client-go. A vendor directory of a project that imports k8s.io/kubernetes has them all. `--keep GATE,…` names
gates whose state in the sources is not upstream's: they stay as they are.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from kubeskew.apimachinery.versions import NEWEST_MINOR
from kubeskew.releases.catalogue.differences import difference
from kubeskew.releases.catalogue.inputs import SUBJECTS, Inputs
from kubeskew.releases.catalogue.minor_facts import (
    State,
    with_gates,
    with_group_order,
    with_resources,
    with_values,
)
from kubeskew.releases.tree import (
    discovery,
    documents,
    gates,
    go_types,
    printer_columns,
    resource_gates,
    storage_versions,
)
from kubeskew.releases.tree.go_syntax import TreeError
from kubeskew.releases.tree.source_tree import LooseFiles, SourceTree

FOLDER = Path(__file__).parent / "facts"
READERS: Mapping[str, Callable[[SourceTree], Any]] = {
    "types": go_types.types,
    "openapi": documents.openapi,
    "discovery": lambda tree: (discovery.discovery(tree), resource_gates.resource_gates(tree)),
    "storage": storage_versions.storage_versions,
    "columns": printer_columns.printer_columns,
    "gates": gates.gates,
}


def list_subjects(inputs: Inputs, _: argparse.Namespace) -> None:
    for subject in SUBJECTS:
        minors = sorted(inputs.documents(subject))
        size = (inputs.folder / f"{subject}.json.gz").stat().st_size
        print(f"{subject}: 1.{minors[0]} … 1.{minors[-1]}, {len(minors)} minors, {size} bytes")


def show(inputs: Inputs, arguments: argparse.Namespace) -> None:
    print_document(inputs.document(arguments.subject, arguments.release))


def diff(inputs: Inputs, arguments: argparse.Namespace) -> None:
    releases = (arguments.older, arguments.newer)
    print_document(difference(*(inputs.document(arguments.subject, release) for release in releases)))


def put(inputs: Inputs, arguments: argparse.Namespace) -> None:
    subject, document = arguments.subject, json.loads(arguments.file.read_text("utf-8"))
    section = "definitions" if subject == "openapi" else subject
    found = re.fullmatch(r"1\.(\d+)", str(document.get("version")))
    if found is None or section not in document:
        raise SystemExit(f"{arguments.file}: a document of {subject} has `version` (1.NN) and `{section}`")
    report(subject, int(found[1]), inputs.put(subject, int(found[1]), document))


def read(inputs: Inputs, arguments: argparse.Namespace) -> None:
    """All parts are read before the first is put: nothing changes if one cannot be read."""
    tree = SourceTree(arguments.tree)
    said = {part: READERS[part](tree) for part in arguments.parts or READERS}
    for part, found in said.items():
        report(part, tree.minor, put_part(inputs, tree.minor, part, found, arguments.keep))


def put_part(inputs: Inputs, minor: int, part: str, found: Any, keep: Iterable[str]) -> bool:
    if part in SUBJECTS:
        return inputs.put(part, minor, found)
    if part == "discovery":
        return put_discovery(inputs, minor, *found)
    if part == "gates":
        states = {
            name: (state["stage"], int(state["default"]), int(state["locked"]))
            for name, state in found["gates"].items()
        }
        return put_gates(inputs, minor, states, found["dependencies"], keep)
    return put_kinds(
        inputs, {"storage": "storage-versions", "columns": "printer-columns"}[part], minor, found
    )


def put_kinds(inputs: Inputs, name: str, minor: int, values: Mapping[str, Any]) -> bool:
    table = inputs.table(name)
    return inputs.put_table(name, table | {"kinds": with_values(table["kinds"], values, minor)})


def read_loose_gates(inputs: Inputs, arguments: argparse.Namespace) -> None:
    files = LooseFiles(arguments.directory)
    found = gates.read_gates(files, [files])
    states = {
        name: (spec.stage, int(spec.default), int(spec.locked))
        for name, spec in found.acting(arguments.release).items()
    }
    dependencies = {name: needed for name, needed in found.dependencies.items() if needed and name in states}
    changed = put_gates(inputs, arguments.release, states, dependencies, arguments.keep)
    report("gates", arguments.release, changed)


def put_discovery(inputs: Inputs, minor: int, served: Mapping[str, Any], gates_of: Mapping[str, str]) -> bool:
    table, newest = inputs.table("discovery"), max(NEWEST_MINOR, minor)
    changed = {
        "groupOrder": with_group_order(table["groupOrder"], served["groupOrder"], minor, newest),
        "gates": with_values(table["gates"], gates_of, minor),
        "resources": with_resources(table["resources"], served["resources"], minor, newest),
    }
    return inputs.put_table("discovery", table | changed)


def put_gates(
    inputs: Inputs,
    minor: int,
    states: Mapping[str, State],
    dependencies: Mapping[str, list[str]],
    keep: Iterable[str],
) -> bool:
    table = inputs.table("gates")
    changed = {
        "gates": with_gates(table["gates"], states, minor, keep),
        "dependencies": with_values(table["dependencies"], dependencies, minor),
    }
    return inputs.put_table("gates", table | changed)


def report(part: str, minor: int, changed: bool) -> None:
    print(f"{part} 1.{minor}: {'put' if changed else 'unchanged'}", file=sys.stderr)


def print_document(document: Any) -> None:
    print(json.dumps(document, sort_keys=True, indent=1, ensure_ascii=False))


def release_number(text: str) -> int:
    found = re.fullmatch(r"v?1\.(\d+)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no release; write 1.NN")
    return int(found[1])


def part_of_a_tree(text: str) -> str:
    if text not in READERS:
        raise argparse.ArgumentTypeError(f"{text} is no part; these are: {', '.join(READERS)}")
    return text


def names(text: str) -> list[str]:
    return text.split(",")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--facts", type=Path, default=FOLDER, help="another folder of facts")
    commands = made.add_subparsers(required=True, metavar="COMMAND")
    listing = commands.add_parser("list", help="subjects, their minors and sizes")
    listing.set_defaults(run=list_subjects)
    one = commands.add_parser("show", help="print a minor's whole document")
    one.add_argument("subject", choices=SUBJECTS)
    one.add_argument("release", type=release_number)
    one.set_defaults(run=show)
    adding = commands.add_parser("put", help="add or replace a minor's document")
    adding.add_argument("subject", choices=SUBJECTS)
    adding.add_argument("file", type=Path)
    adding.set_defaults(run=put)
    two = commands.add_parser("diff", help="print what is different between two minors")
    two.add_argument("subject", choices=SUBJECTS)
    two.add_argument("older", type=release_number)
    two.add_argument("newer", type=release_number)
    two.set_defaults(run=diff)
    tree = commands.add_parser("read", help="put what a source tree says of its minor")
    tree.add_argument("tree", type=Path, help="the root of a clone of kubernetes/kubernetes, 1.31 or later")
    tree.add_argument("parts", nargs="*", type=part_of_a_tree, metavar="PART", help=", ".join(READERS))
    tree.set_defaults(run=read)
    loose = commands.add_parser("gates", help="put the gates of a minor that trees cannot be read of")
    loose.add_argument("release", type=release_number)
    loose.add_argument("directory", type=Path, help="Go files that register gates")
    loose.set_defaults(run=read_loose_gates)
    for command in (tree, loose):
        command.add_argument("--keep", type=names, default=[], metavar="GATE,…", help="gates that stay")
    return made


def main() -> None:
    arguments = parser().parse_args()
    try:
        arguments.run(Inputs(arguments.facts), arguments)
    except KeyError as error:
        raise SystemExit(str(error.args[0])) from None
    except TreeError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
