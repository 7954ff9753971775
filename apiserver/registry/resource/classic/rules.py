"""Rules that the kinds of classic dynamic resource allocation share, and those of KEP-4381's draft use."""

from collections.abc import Callable, Iterator
from typing import Any

from kubeskew.apimachinery.cel.errors import CompileError
from kubeskew.apimachinery.field import ErrorType, FieldError, child, invalid, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.shared.formats import distinct_subdomain_errors
from kubeskew.apiserver.registry.shared.volumes.sources import csi_driver_name

MAX_NODES = 128


def driver(value: str, path: str) -> Iterator[FieldError]:
    yield from csi_driver_name(value, path, required_alone=False)


def compile_errors(
    compile_selector: Callable[..., Any], expression: str, path: str, *, stored: bool
) -> Iterator[FieldError]:
    """Selectors have no limit of cost. `stored`: the expression was accepted before."""
    try:
        compile_selector(expression, stored=stored)
    except CompileError as error:
        yield invalid(path, expression, str(error))


def slice_change_errors(new: Object, old: Object) -> Iterator[FieldError]:
    for name in ("nodeName", "driverName"):
        if (new.get(name) or "") != (old.get(name) or ""):
            yield invalid(name, new.get(name) or "", IMMUTABLE)


def origin_errors(reference: Object | None) -> Iterator[FieldError]:
    if reference is not None:
        for name in ("kind", "name"):
            if not reference.get(name):
                yield required(child("generatedFrom", name))


def parameters_reference_errors(reference: Object | None, path: str) -> Iterator[FieldError]:
    if reference is not None:
        yield from (required(child(path, name)) for name in ("kind", "name") if not reference.get(name))


def node_list_errors(listed: list[str], path: str) -> Iterator[FieldError]:
    yield from distinct_subdomain_errors(listed, path)
    if len(listed) > MAX_NODES:
        yield too_long(path, MAX_NODES)


def too_long(path: str, most: int) -> FieldError:
    return FieldError(ErrorType.TOO_LONG, path, detail=f"may not be longer than {most}")
