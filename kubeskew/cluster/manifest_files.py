"""Objects of manifest files, typed by the newest release that knows their kind."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from kubeskew.apimachinery import yaml_files
from kubeskew.apimachinery.catalogue.types import types_of
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import GroupVersionKind
from kubeskew.apimachinery.versions import NEWEST_MINOR, Version
from kubeskew.apiserver.decoding.decoder import Parsed, decode_value
from kubeskew.cluster.failures import UserError


def documents(path: Path) -> Iterator[tuple[str, Object]]:
    """Objects have places, which name file, document and item; raises UserError."""
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
        documents = list(yaml_files.load_all(text))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is neither YAML nor JSON: {' '.join(str(error).split())}") from error
    for number, document in enumerate(documents, 1):
        where = f"{path}, document {number}" if len(documents) > 1 else str(path)
        yield from _items(where, document)


def _items(where: str, document: Any) -> Iterator[tuple[str, Object]]:
    """Lists are replaced by their items."""
    if document is None:
        return
    if not isinstance(document, dict):
        raise UserError(f"{where}: expected an object with apiVersion and kind")
    if str(document.get("kind") or "").endswith("List"):
        kind = document["kind"].removesuffix("List")
        items = document.get("items") or []
        if not isinstance(items, list):
            raise UserError(f"{where}: items: expected a list")
        for index, item in enumerate(items):
            # the items of a typed list need not repeat what they are
            said = {"apiVersion": document.get("apiVersion"), "kind": kind} if kind else {}
            yield from _items(f"{where}, item {index}", {**said, **item} if isinstance(item, dict) else item)
        return
    yield where, document


def typed(obj: Object) -> Object:
    """Fields of the wrong type are a UserError."""
    (group, _, version), kind = obj["apiVersion"].rpartition("/"), obj["kind"]
    schemas = (
        types_of(Version(minor)).of_kind(group, version, kind) for minor in range(NEWEST_MINOR, 30, -1)
    )
    schema = next((schema for schema in schemas if schema is not None), None)
    if schema is None:
        raise UserError(f"there is no {kind} in {obj['apiVersion']}")
    try:
        return decode_value(Parsed(obj), GroupVersionKind(group, version, kind), schema, "Ignore").object
    except StatusError as error:
        raise UserError(
            error.message.partition(f"cannot be handled as a {kind}: ")[2] or error.message
        ) from error


def field_of(obj: Any, *path: str) -> Any:
    """A path without a value is a UserError."""
    value = obj
    for depth, key in enumerate(path, 1):
        value = value.get(key) if isinstance(value, dict) else None
        if value in (None, ""):
            raise UserError(f"{'.'.join(path[:depth])} is missing")
    return value
