"""Make `tests/data/openapi_digests.json` of the OpenAPI documents that releases publish, to compare ours.

    openapi_digests.py --output tests/data/openapi_digests.json 1.35.6=DIR 1.36.3=DIR …

DIR is the source of that release, whose `api/openapi-spec` is read. Documents are compared without prose
(`description`) and with the version that the script which publishes them fills in. The file holds

    documents   for each release how many paths and schemas a document has, and the hash of the whole
    parts       paths and schemas, each with the beginning of the hash of what v2 and v3 say of it, by which a
                test names what differs: a hash, or spans of minors with one
"""

import argparse
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

Document = dict[str, Any]

V2 = "v2"  # the name of its document
_SHOWN = "unversioned"
_DIGITS = 6  # of the hash of a part


def without_prose(value: Any, *, named: bool = False) -> Any:
    """Drops descriptions; with `named`, keys are names, as properties have."""
    if isinstance(value, dict):
        return {
            key: without_prose(each, named=key == "properties" and not named)
            for key, each in value.items()
            if named or key != "description" or not isinstance(each, str)
        }
    return [without_prose(each) for each in value] if isinstance(value, list) else value


def digest(value: Any) -> str:
    """SHA-256 of the canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def schemas_of(document: Document) -> Document:
    """`document` is of v2 or v3."""
    found: Document = document.get("definitions") or document.get("components", {}).get("schemas", {})
    return found


def compared(documents: Mapping[str, Document]) -> tuple[dict[str, list[Any]], dict[str, str]]:
    """Digests of documents by name, and of their parts."""
    whole: dict[str, list[Any]] = {}
    said: dict[str, dict[str, str]] = {}
    for name, document in sorted(documents.items()):
        dialect = V2 if name == V2 else "v3"
        parts = dict(_parts(document))
        for part, text in parts.items():
            said.setdefault(part, {}).setdefault(dialect, text)
        rest = {
            key: value for key, value in document.items() if key not in ("paths", "definitions", "components")
        }
        rest["info"] = {**rest["info"], "version": _SHOWN}
        rest["components"] = {k: v for k, v in document.get("components", {}).items() if k != "schemas"}
        counts = [len(document["paths"]), len(schemas_of(document))]
        whole[name] = [*counts, digest([without_prose(rest), sorted(parts.items())])[:16]]
    return whole, {part: digest(sorted(texts.items()))[:_DIGITS] for part, texts in said.items()}


def _parts(document: Document) -> Iterator[tuple[str, str]]:
    for path, item in document["paths"].items():
        yield path, digest(without_prose(item))
    for name, schema in schemas_of(document).items():
        yield name, digest(without_prose(schema))


def published(directory: Path) -> dict[str, Document]:
    """`directory` is a release's source."""
    spec = directory / "api" / "openapi-spec"
    found = {V2: json.loads((spec / "swagger.json").read_text("utf-8"))}
    for file in sorted((spec / "v3").iterdir()):
        name = file.name.removesuffix("_openapi.json").replace("__", "/")
        found[name] = json.loads(file.read_text("utf-8"))
    return found


def _spans(values: dict[int, str], minors: list[int]) -> Any:
    if list(values) == minors and len(set(values.values())) == 1:
        return values[minors[0]]
    spans: list[list[Any]] = []
    for minor, value in values.items():
        if spans and spans[-1][1:] == [minor - 1, value]:
            spans[-1][1] = minor
        else:
            spans.append([minor, minor, value])
    return spans


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, required=True, help="the file to write")
    parser.add_argument("releases", nargs="+", metavar="RELEASE=DIR", help="a release and its source")
    origin: dict[str, str] = {}
    documents: dict[str, Any] = {}
    parts: dict[str, dict[int, str]] = {}
    arguments = parser.parse_args()
    for each in arguments.releases:
        release, _, directory = each.partition("=")
        minor = int(release.split(".")[1])
        origin[f"1.{minor}"] = release
        documents[f"1.{minor}"], found = compared(published(Path(directory)))
        for part, text in found.items():
            parts.setdefault(part, {})[minor] = text
    minors = [int(name.split(".")[1]) for name in origin]
    about = (
        "Digests of OpenAPI documents published with these releases, by hack/recordings/openapi_digests.py."
    )
    rows = [f"{json.dumps(part)}:{_compact(_spans(parts[part], minors))}" for part in sorted(parts)]
    whole = [f"{json.dumps(name)}:{_compact(made)}" for name, made in documents.items()]
    lines = [f'{{"about":{json.dumps(about)},', f'"origin":{_compact(origin)},', '"documents":{']
    lines += [",\n".join(whole), "},", '"parts":{', ",\n".join(rows), "}}", ""]
    arguments.output.write_text("\n".join(lines), "utf-8")


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


if __name__ == "__main__":
    main()
