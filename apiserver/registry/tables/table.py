"""Makes the Table document, for a client that prints columns and knows no kind.

Source: k8s.io/apiserver/pkg/endpoints/handlers/response.go (asTable), pkg/printers/tablegenerator.go, 1.36.
"""

from collections.abc import Sequence
from datetime import datetime

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.errors import GroupKind
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import Column, Resource
from kubeskew.apiserver.http.media_types import partial_metadata
from kubeskew.apiserver.registry.tables.cells import Subject
from kubeskew.apiserver.registry.tables.printers import Printer, printer_for

_INCLUDES = ("Metadata", "Object", "None")
_SCALE = GroupKind("autoscaling", "Scale")


def render(
    resource: Resource,
    objects: Sequence[Object],
    *,
    now: datetime,
    metadata: Object,
    include_object: str = "Metadata",
    no_headers: bool = False,
    version: str = "v1",
    unknown_init_panics: bool = False,
    shows_architecture: bool = False,
) -> Object:
    """A Table of `meta.k8s.io/{version}` has one row per object; `metadata` is that of the list.

    The objects are as served in the resource's version, or are its Scales. `include_object` names what a row
    has besides its cells: nothing (None), the metadata, or the object; raises 400 for any other.
    The last two are as in `Subject`.
    """
    if include_object and include_object not in _INCLUDES:
        raise errors.bad_request(_wrong_include(include_object))
    printer = printer_for(resource, _kind(resource, objects))
    subjects = [
        Subject(obj, now, shows_architecture, unknown_init_panics) for obj in printer.ordered(objects)
    ]
    rows = [_row(printer, subject, include_object, version) for subject in subjects]
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": metadata,
        "columnDefinitions": None if no_headers else [_definition(column) for column in printer.columns],
        "rows": None if printer.null_rows and not rows else rows,
    }


def _kind(resource: Resource, objects: Sequence[Object]) -> GroupKind:
    """A resource has objects of another kind only as its scale subresource."""
    scaled = objects and objects[0].get("kind") == "Scale" and "scale" in resource.subresources
    return _SCALE if scaled else resource.group_kind


def _definition(column: Column) -> Object:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


def _row(printer: Printer, subject: Subject, include_object: str, version: str) -> Object:
    row: Object = {"cells": printer.cells(subject)}
    conditions = printer.conditions(subject.obj)
    if conditions:
        row["conditions"] = conditions
    row["object"] = _included(subject.obj, include_object, version)
    return row


def _included(obj: Object, include_object: str, version: str) -> Object | None:
    if include_object == "Object":
        return obj
    if include_object == "None":
        return None
    return partial_metadata(obj, version)


def _wrong_include(value: str) -> str:
    """The text is that of ValidateTableOptions (apimachinery/pkg/apis/meta/v1/validation, 1.36)."""
    return (
        f'Unable to convert to Table as requested: includeObject: Invalid value: "{value}": '
        "must be 'Metadata', 'Object', 'None', or empty"
    )
