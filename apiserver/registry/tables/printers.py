"""Finds the columns of a resource and what makes their cells.

The catalogue has the columns of a release; the cells are looked up by their names, so that a release without
a column needs no cells of its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from types import MappingProxyType

from kubeskew.apimachinery.clock import parse_timestamp, timestamp
from kubeskew.apimachinery.errors import GroupKind
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import Column, Resource
from kubeskew.apiserver.apiextensions.table import AGE, CustomResource
from kubeskew.apiserver.registry.index import registered
from kubeskew.apiserver.registry.tables import custom
from kubeskew.apiserver.registry.tables.cells import Cell, Cells, CellsOf, Subject, at

_AGE = Column("Age", "string")
_CREATED_AT = Column("Created At", "date", description=AGE["description"])
_EMPTY = "0001-01-01T00:00:00Z"

# Columns that the catalogue does not have: Scale is no resource.
_COLUMNS = MappingProxyType(
    {
        GroupKind("autoscaling", "Scale"): (
            Column("Name", "string"),
            Column("Desired", "integer"),
            Column("Available", "integer"),
            _AGE,
        ),
    }
)
# Upstream gives an IPAddress an age, but no column to show it in.
_BEYOND_COLUMNS = MappingProxyType({GroupKind("networking.k8s.io", "IPAddress"): ("Age",)})
_FLOW_SCHEMA = GroupKind("flowcontrol.apiserver.k8s.io", "FlowSchema")


@dataclass(frozen=True, slots=True)
class Printer:
    """The function makes an object's cells in the order of the columns."""

    columns: Sequence[Column]
    cells: Callable[[Subject], list[Cell]]
    conditions: Callable[[Object], list[Object]] = lambda _: []
    ordered: Callable[[Sequence[Object]], Sequence[Object]] = lambda objects: objects
    null_rows: bool = False  # of an empty list


def printer_for(resource: Resource, kind: GroupKind) -> Printer:
    if isinstance(resource, CustomResource):
        scaled = kind != resource.group_kind
        columns, paths = (custom.SCALE, custom.SCALE_PATHS) if scaled else (resource.columns, resource.paths)
        return Printer((custom.NAME, *columns), lambda subject: custom.cells(subject, columns, paths))
    if kind != resource.group_kind:
        return _printer(kind, "", ())
    return _printer(kind, resource.version, resource.columns)


@cache
def cells_of(kind: GroupKind, version: str = "") -> CellsOf | None:
    """None means that the kind has a name and an age only."""
    cells: CellsOf | None = registered(kind.group, "CELLS", f"{version}.{kind.kind}", kind.kind)
    return cells


@cache
def row_conditions_of(kind: GroupKind) -> Callable[[Object], list[Object]]:
    conditions: Callable[[Object], list[Object]] | None
    conditions = registered(kind.group, "ROW_CONDITIONS", kind.kind)
    return conditions or (lambda _: [])


@lru_cache(maxsize=1024)
def _printer(kind: GroupKind, version: str, columns: tuple[Column, ...]) -> Printer:
    columns = columns or _COLUMNS.get(kind, ())
    if not columns:
        return Printer((custom.NAME, _CREATED_AT), _name_and_creation, null_rows=True)
    names = [column.name for column in columns]
    cells = _by_name((*names, *_BEYOND_COLUMNS.get(kind, ())), cells_of(kind, version) or _nothing_more)
    if kind == _FLOW_SCHEMA:
        return Printer(columns, cells, ordered=_by_precedence)
    return Printer(columns, cells, conditions=row_conditions_of(kind))


def _by_name(names: Sequence[str], own_cells: CellsOf) -> Callable[[Subject], list[Cell]]:
    """Cells come in the order of the columns."""

    def cells(subject: Subject) -> list[Cell]:
        known: Cells = {
            "Name": subject.text("metadata", "name"),
            "Age": subject.since("metadata", "creationTimestamp"),
            **own_cells(subject),
        }
        return [known.get(name) for name in names]

    return cells


def _nothing_more(_: Subject) -> Cells:
    return {}


def _name_and_creation(subject: Subject) -> list[Cell]:
    """Upstream prints these cells of kinds without a printer (Role, LimitRange, …)."""
    created = subject.at("metadata", "creationTimestamp")
    moment = timestamp(parse_timestamp(created)) if created else _EMPTY
    return [subject.text("metadata", "name"), moment]


def _by_precedence(objects: Sequence[Object]) -> Sequence[Object]:
    return sorted(
        objects, key=lambda obj: (at(obj, "spec", "matchingPrecedence") or 0, at(obj, "metadata", "name"))
    )
