"""The objects that an operation has: of its `resource`, or of the files that it names."""

from collections.abc import Iterator, Mapping
from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.conformance import yaml_files
from kubeskew.conformance.bindings import bind
from kubeskew.conformance.chainsaw.files import named_files
from kubeskew.conformance.context import CellContext
from kubeskew.conformance.scenario import Operation


def documents(ctx: CellContext, operation: Operation) -> Iterator[Any]:
    """Yields `resource`, or each document of the files that `file` names, with the expressions in them.

    Of a List, its items. Raises ScenarioError for a file that cannot be read.
    """
    body = operation.body
    if "resource" in body:
        yield from _items(body["resource"])
        return
    for path in named_files(operation.where, str(bind(body["file"], ctx.bindings))):
        for document in yaml_files.read(path):
            yield from _items(document)


def resources(ctx: CellContext, operation: Operation) -> Iterator[Object]:
    """Yields the objects of the operation with the cell's values in them."""
    for document in documents(ctx, operation):
        yield bind(document, ctx.bindings)


def _items(document: Any) -> Iterator[Any]:
    if isinstance(document, Mapping) and (document.get("apiVersion"), document.get("kind")) == ("v1", "List"):
        yield from document.get("items") or ()
    else:
        yield document
