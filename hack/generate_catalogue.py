"""Make the data files of `apimachinery/data` from facts about upstream.

    generate_catalogue.py gates --facts DIR --output apimachinery/data/gates.json

`DIR` holds feature-gates.json, discovery.json, printer-columns.json and storage-versions.json.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from catalogue_gates import gate_table


def progress(text: str) -> None:
    """One line for the person who waits."""
    print(text, file=sys.stderr, flush=True)


def read(path: Path) -> Any:
    """A JSON document."""
    return json.loads(path.read_text("utf-8"))


def make_gates(arguments: argparse.Namespace) -> None:
    """Write the table of feature gates."""
    table = gate_table(read(arguments.facts / "feature-gates.json"))
    rows = [
        f"{json.dumps(name)}:{json.dumps(row, separators=(',', ':'))}" for name, row in table["gates"].items()
    ]
    dependencies = json.dumps(table["dependencies"], separators=(",", ":"))
    body = ",\n".join(rows)
    arguments.output.write_text(f'{{"gates":{{\n{body}\n}},\n"dependencies":{dependencies}}}\n', "utf-8")
    progress(f"{len(rows)} gates -> {arguments.output}")


def main() -> None:
    """Parse the command line and run one command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    gates = commands.add_parser("gates", help="the table of feature gates")
    gates.add_argument("--facts", type=Path, required=True, help="directory of the facts")
    gates.add_argument("--output", type=Path, required=True, help="the file to write")
    gates.set_defaults(run=make_gates)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
