"""The generator's inputs: a folder of facts about releases (`hack/catalogue/facts/README.md` lists them).

A subject of which each minor has a document of its own (`types`, `openapi`) is one file, `SUBJECT.json.gz`:

    first     the oldest minor, "1.26"
    document  its document
    changes   {minor: how its document differs from that of the minor before in this file} (differences.py)

A table covers all minors at once and is text: `TABLE.json`, with a line for each entry of its sections, or
`TABLE.yaml`, which is written by hand alone.
"""

import gzip
import io
import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from kubeskew.releases.catalogue.differences import applied, difference

Document = dict[str, Any]

SUBJECTS = ("types", "openapi")


class Inputs:
    """Raises KeyError for subjects and minors that the folder does not have."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def documents(self, subject: str) -> dict[int, Document]:
        """A subject's documents by minor, oldest first; none if it has no file. Nobody may change them."""
        if subject not in SUBJECTS:
            raise KeyError(f"{subject} is no subject; these are: {', '.join(SUBJECTS)}")
        path = self._path(subject)
        return unpacked(json.loads(gzip.decompress(path.read_bytes()))) if path.is_file() else {}

    def document(self, subject: str, minor: int) -> Document:
        documents = self.documents(subject)
        if minor not in documents:
            known = ", ".join(f"1.{other}" for other in documents)
            raise KeyError(f"there is no {subject} of 1.{minor}; these are: {known}")
        return documents[minor]

    def put(self, subject: str, minor: int, document: Document) -> bool:
        """Adds or replaces a minor's document; False if it was there already."""
        documents = self.documents(subject)
        before = archive_text(documents)
        documents[minor] = document
        text = archive_text(documents)
        if text == before:
            return False
        self._path(subject).write_bytes(_compressed(text))
        return True

    def table(self, name: str) -> Any:
        found = [*self.folder.glob("*.json"), *self.folder.glob("*.yaml")]
        tables = {path.stem: path for path in sorted(found)}
        if name not in tables:
            raise KeyError(f"there is no table {name}; these are: {', '.join(tables)}")
        text = tables[name].read_text("utf-8")
        return yaml.safe_load(text) if tables[name].suffix == ".yaml" else json.loads(text)

    def put_table(self, name: str, table: Any) -> bool:
        """False if the table was so already."""
        path, text = self.folder / f"{name}.json", table_text(table)
        if path.is_file() and path.read_text("utf-8") == text:
            return False
        path.write_text(text, "utf-8")
        return True

    def _path(self, subject: str) -> Path:
        return self.folder / f"{subject}.json.gz"


def unpacked(archive: Mapping[str, Any]) -> dict[int, Document]:
    """The documents of a subject's file by minor."""
    document: Document = archive["document"]
    documents = {_number(archive["first"]): document}
    for release, changes in archive["changes"].items():
        document = applied(document, changes)
        documents[_number(release)] = document
    return documents


def packed(documents: Mapping[int, Document]) -> Document:
    """The content of a subject's file, from at least one document."""
    minors = sorted(documents)
    first = minors[0]
    changes = {
        f"1.{minor}": difference(documents[before], documents[minor]) for before, minor in pairwise(minors)
    }
    return {"first": f"1.{first}", "document": documents[first], "changes": changes}


def archive_text(documents: Mapping[int, Document]) -> str:
    """The one text for these documents: keys sorted, a line for each minor; empty for none."""
    if not documents:
        return ""
    archive = packed(documents)
    changes = [f'"{release}":{canonical(one)}' for release, one in archive["changes"].items()]
    listed = ",\n".join(changes)
    return (
        f'{{"first":"{archive["first"]}",\n"document":{canonical(archive["document"])},\n'
        f'"changes":{{\n{listed}\n}}}}\n'
    )


def table_text(table: Mapping[str, Any]) -> str:
    """The one text of a table: its keys in their order, a line for each section or entry of a section."""
    sections = [f"{json.dumps(name)}:{_section(content)}" for name, content in table.items()]
    listed = ",\n".join(sections)
    return f"{{\n{listed}\n}}\n"


def _section(content: Any) -> str:
    if isinstance(content, dict) and content:
        rows = ",\n".join(f"  {json.dumps(key)}:{_line(value)}" for key, value in content.items())
        return f"{{\n{rows}\n}}"
    if isinstance(content, list) and any(isinstance(row, dict) for row in content):
        rows = ",\n".join(f"  {_line(row)}" for row in content)
        return f"[\n{rows}\n]"
    return _line(content)


def _line(content: Any) -> str:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False)


def canonical(document: Any) -> str:
    """JSON without room for choice."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _compressed(text: str) -> bytes:
    """Neither a time nor a name is in the file, so that equal texts give equal files."""
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=buffer, mtime=0) as file:
        file.write(text.encode())
    return buffer.getvalue()


def _number(release: str) -> int:
    return int(release.removeprefix("1."))
