"""Make `apimachinery/data/openapi.json` of the OpenAPI documents that releases publish.

    openapi_facts.py --output apimachinery/data/openapi.json 1.35.6=DIR 1.36.3=DIR …

DIR is the source of that release. `kubeskew/releases/tree/document_facts.py` documents the file's shape.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from kubeskew.apimachinery.catalogue.types import types_of
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.features import Features
from kubeskew.releases.tree.document_facts import document_facts, history
from kubeskew.releases.tree.go_syntax import TreeError
from kubeskew.releases.tree.source_tree import SourceTree

Document = dict[str, Any]

_ABOUT = (
    "What the OpenAPI documents published with these releases say beyond what the catalogue and the routes "
    "make of themselves; hack/catalogue/openapi_facts.py makes it and documents its shape."
)
_SETTINGS = {"AllAlpha": True, "AllBeta": True, "OpenAPIEnums": False}


def facts(version: Version, directory: Path) -> Document:
    features = Features.of(FeatureGates(version, _SETTINGS)).documents
    return document_facts(SourceTree(directory), types_of(version), features)


def text(document: Document) -> str:
    """Entries of sections have a line each."""
    parts = []
    for section, content in document.items():
        if isinstance(content, dict) and section != "origin":
            rows = [f"{json.dumps(key)}:{_compact(value)}" for key, value in content.items()]
            parts.append(f"{json.dumps(section)}:{{\n" + ",\n".join(rows) + "\n}")
        else:
            parts.append(f"{json.dumps(section)}:{_compact(content)}")
    return "{" + ",\n".join(parts) + "}\n"


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, required=True, help="the file to write")
    parser.add_argument("releases", nargs="+", metavar="RELEASE=DIR", help="a release and its source")
    arguments = parser.parse_args()
    releases = {}
    try:
        for each in arguments.releases:
            release, _, directory = each.partition("=")
            version = Version.parse(release)
            releases[version] = facts(version, Path(directory))
        document = history(dict(sorted(releases.items(), key=lambda pair: pair[0].minor)))
    except TreeError as error:
        raise SystemExit(str(error)) from None
    arguments.output.write_text(text({"about": _ABOUT, **document}), "utf-8")
    print(f"{len(releases)} releases -> {arguments.output}", file=sys.stderr)


if __name__ == "__main__":
    main()
