"""Read and change the facts of `hack/catalogue/facts/`, whose README.md says what they are.

    facts.py list                    subjects, their minors and sizes
    facts.py show types 1.36         print a minor's whole document
    facts.py put types FILE          add or replace a minor's document; its `version` says which minor
    facts.py diff types 1.35 1.36    print what is different between two minors
    facts.py read TREE               put all that a source tree of Kubernetes says of its minor
    facts.py read TREE discovery     some of that: types, openapi, discovery, gates

Of gates, `--keep GATE,…` names those whose state in the tree is not upstream's: they stay as they are.
"""

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kubeskew.apimachinery.versions import NEWEST_MINOR
from kubeskew.releases.catalogue.differences import difference
from kubeskew.releases.catalogue.gates import minor
from kubeskew.releases.catalogue.inputs import SUBJECTS, Inputs
from kubeskew.releases.catalogue.minor_facts import with_gates, with_group_order, with_resources
from kubeskew.releases.tree.go_syntax import TreeError
from kubeskew.releases.tree.source_tree import SourceTree

FOLDER = Path(__file__).parent / "facts"


def show(document: Any) -> None:
    print(json.dumps(document, sort_keys=True, indent=1, ensure_ascii=False))


def listed(inputs: Inputs) -> None:
    for subject in SUBJECTS:
        documents = inputs.documents(subject)
        size = (inputs.folder / f"{subject}.json.gz").stat().st_size
        print(f"{subject}: 1.{min(documents)} … 1.{max(documents)}, {len(documents)} minors, {size} bytes")


def put(inputs: Inputs, subject: str, file: Path) -> None:
    document = json.loads(file.read_text("utf-8"))
    release = minor(document.get("version"))
    if release is None or (subject not in document and subject != "openapi"):
        raise SystemExit(f"{file}: a document of {subject} has `version` (1.NN) and `{subject}`")
    changed = inputs.put(subject, release, document)
    print(f"{subject} 1.{release}: {'put' if changed else 'unchanged'}", file=sys.stderr)


def read(inputs: Inputs, tree: SourceTree, parts: list[str], keep: list[str]) -> None:
    for part in parts or READERS:
        changed = read_gates(inputs, tree, keep) if part == "gates" else READERS[part](inputs, tree)
        print(f"{part} 1.{tree.minor}: {'put' if changed else 'unchanged'}", file=sys.stderr)


def read_types(inputs: Inputs, tree: SourceTree) -> bool:
    from kubeskew.releases.tree.go_types import types

    return inputs.put("types", tree.minor, types(tree))


def read_openapi(inputs: Inputs, tree: SourceTree) -> bool:
    from kubeskew.releases.tree.documents import openapi

    return inputs.put("openapi", tree.minor, openapi(tree))


def read_discovery(inputs: Inputs, tree: SourceTree) -> bool:
    from kubeskew.releases.tree.discovery import discovery

    table, served = inputs.table("discovery"), discovery(tree)
    newest = max(NEWEST_MINOR, tree.minor)
    rows = with_resources(table["resources"], served["resources"], tree.minor, newest)
    order = with_group_order(table["groupOrder"], served["groupOrder"], tree.minor, newest)
    return inputs.put_table("discovery", table | {"groupOrder": order, "resources": rows})


def read_gates(inputs: Inputs, tree: SourceTree, keep: Iterable[str] = ()) -> bool:
    from kubeskew.releases.tree.gates import gates

    table = inputs.table("gate-releases")
    states = {
        name: (state["stage"], int(state["default"]), int(state["locked"]))
        for name, state in gates(tree)["gates"].items()
    }
    return inputs.put_table("gate-releases", with_gates(table, states, tree.minor, keep))


READERS = {"types": read_types, "openapi": read_openapi, "discovery": read_discovery, "gates": read_gates}


def release_number(text: str) -> int:
    number = minor(text)
    if number is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no release; write 1.NN")
    return number


def part_of_a_tree(text: str) -> str:
    if text not in READERS:
        raise argparse.ArgumentTypeError(f"{text} is no part; these are: {', '.join(READERS)}")
    return text


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--facts", type=Path, default=FOLDER, help="another folder of facts")
    commands = parser.add_subparsers(required=True, dest="command", metavar="COMMAND")
    commands.add_parser("list", help="subjects, their minors and sizes")
    one = commands.add_parser("show", help="print a minor's whole document")
    adding = commands.add_parser("put", help="add or replace a minor's document")
    two = commands.add_parser("diff", help="print what is different between two minors")
    for command in (one, adding, two):
        command.add_argument("subject", choices=SUBJECTS)
    tree = commands.add_parser("read", help="put what a source tree says of its minor")
    tree.add_argument("tree", type=Path, help="the root of a clone of kubernetes/kubernetes, 1.31 or later")
    tree.add_argument(
        "parts",
        nargs="*",
        type=part_of_a_tree,
        metavar="PART",
        help=f"{', '.join(READERS)}; all of them if none",
    )
    tree.add_argument("--keep", metavar="GATE,…", default="", help="gates that stay as they are")
    one.add_argument("release", type=release_number)
    adding.add_argument("file", type=Path)
    two.add_argument("older", type=release_number)
    two.add_argument("newer", type=release_number)
    arguments = parser.parse_args()
    inputs = Inputs(arguments.facts)
    try:
        if arguments.command == "list":
            listed(inputs)
        elif arguments.command == "put":
            put(inputs, arguments.subject, arguments.file)
        elif arguments.command == "read":
            read(inputs, SourceTree(arguments.tree), arguments.parts, arguments.keep.split(","))
        elif arguments.command == "show":
            show(inputs.document(arguments.subject, arguments.release))
        else:
            releases = (arguments.older, arguments.newer)
            show(difference(*(inputs.document(arguments.subject, release) for release in releases)))
    except KeyError as error:
        raise SystemExit(str(error.args[0])) from None
    except TreeError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
