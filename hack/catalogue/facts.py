"""Read and change the facts of `hack/catalogue/facts/` that are compressed; its README.md says what they are.

facts.py list                    subjects, their minors and sizes
facts.py show types 1.36         print a minor's whole document
facts.py put types FILE          add or replace a minor's document; its `version` says which minor
facts.py diff types 1.35 1.36    print what is different between two minors
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from kubeskew.releases.catalogue.differences import difference
from kubeskew.releases.catalogue.gates import minor
from kubeskew.releases.catalogue.inputs import SUBJECTS, Inputs

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


def release_number(text: str) -> int:
    number = minor(text)
    if number is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no release; write 1.NN")
    return number


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
        elif arguments.command == "show":
            show(inputs.document(arguments.subject, arguments.release))
        else:
            releases = (arguments.older, arguments.newer)
            show(difference(*(inputs.document(arguments.subject, release) for release in releases)))
    except KeyError as error:
        raise SystemExit(str(error.args[0])) from None


if __name__ == "__main__":
    main()
