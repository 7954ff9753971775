"""Make data files of `apimachinery/data` from the facts in `hack/catalogue/facts/`, as `make catalogue` does.

    generate_catalogue.py            write gates.json, catalogue.json and previews/*.json
    generate_catalogue.py --check    write nothing; fail if a file is not what would be written

Nothing else is needed: neither network nor sources of Kubernetes.
"""

import argparse
import sys
from pathlib import Path

from kubeskew.releases.catalogue.data_files import data_files
from kubeskew.releases.catalogue.inputs import Inputs

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing; name the files that differ")
    arguments = parser.parse_args()
    differing = []
    try:
        made = list(data_files(Inputs(HERE / "facts"), HERE / "previews"))
    except ValueError as error:
        raise SystemExit(str(error)) from None
    for path, text in made:
        file = REPOSITORY / path
        if not file.is_file() or file.read_text("utf-8") != text:
            differing.append(path)
            if not arguments.check:
                file.write_text(text, "utf-8")
    if arguments.check and differing:
        raise SystemExit(f"`make catalogue` makes other files than these: {', '.join(differing)}")
    print(f"changed: {', '.join(differing) or 'nothing'}", file=sys.stderr)


if __name__ == "__main__":
    main()
