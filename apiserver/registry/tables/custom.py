"""Makes the rows of custom resources: a name, and a cell per column of the definition.

Source: apiextensions-apiserver pkg/registry/customresource/tableconvertor/tableconvertor.go, 1.36.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from kubeskew.apimachinery.cel.times import SECOND, timestamp
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import Column
from kubeskew.apiserver.apiextensions.json_path import JSONPath, text_of
from kubeskew.apiserver.apiextensions.table import AGE, column_of
from kubeskew.apiserver.decoding import go_json
from kubeskew.apiserver.registry.tables.cells import UNKNOWN, Cell, Subject, human_duration

NAME = Column(
    "Name",
    "string",
    "name",
    "Name must be unique within a namespace. Is required when creating resources, although some resources "
    "may allow a client to request the generation of an appropriate name automatically. Name is primarily "
    "intended for creation idempotence and configuration definition. Cannot be updated. More info: "
    "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names",
)
_INTEGERS = 1 << 63  # a float beyond int64 becomes minus this in Go, on most machines

# What is shown of a Scale.
_SCALE: tuple[Object, ...] = (
    {
        "name": "Desired",
        "type": "integer",
        "description": "Number of desired replicas",
        "jsonPath": ".spec.replicas",
    },
    {
        "name": "Available",
        "type": "integer",
        "description": "Number of actual replicas",
        "jsonPath": ".status.replicas",
    },
    AGE,
)
SCALE = tuple(map(column_of, _SCALE))
SCALE_PATHS = tuple(JSONPath(column["jsonPath"]) for column in _SCALE)


def cells(subject: Subject, columns: Sequence[Column], paths: Sequence[JSONPath]) -> list[Cell]:
    row: list[Cell] = [subject.text("metadata", "name")]
    for column, path in zip(columns, paths, strict=True):
        values = path.values(subject.obj)
        row.append(_cell(column.type, values[0], subject) if values else None)
    return row


def _cell(kind: str, value: Any, subject: Subject) -> Cell:
    if kind == "string":
        return text_of(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match kind:
        case "integer" if is_number:
            return int(value) if abs(value) < _INTEGERS else -_INTEGERS
        case "number" if is_number:
            whole = float(value).is_integer() and abs(value) < _INTEGERS
            return int(go_json.float_text(float(value))) if whole else value
        case "boolean" if isinstance(value, bool):
            return value
        case "date" if isinstance(value, str):
            return _age(value, subject)
    return None


def _age(value: str, subject: Subject) -> str:
    if value in {"", "null"}:
        return UNKNOWN
    try:
        moment = datetime.fromtimestamp(timestamp(value).nanos / SECOND, UTC)
    except ValueError:
        return "<invalid>"
    return human_duration(subject.now - moment)
