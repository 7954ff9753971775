"""Every kind of every release has a row."""

import pytest
from table_rows import NOW, everything

from kubeskew.apimachinery.resources import Resource
from kubeskew.apiserver.registry.tables import table as tables

RELEASES = range(26, 38)
MORE_CELLS = {"IPAddress": 1}  # an age without a column, as upstream


def resources(minor: int) -> list[Resource]:
    catalogue = everything(minor)
    return [
        resource
        for group, versions in catalogue.groups()
        for version in versions
        for resource in catalogue.resources(group, version)
    ]


@pytest.mark.parametrize("minor", RELEASES)
@pytest.mark.parametrize("status", [{}, {"spec": {}, "status": {}}])
def test_an_object_with_nothing_in_it_fills_all_columns(minor: int, status: dict):
    """A row has as many cells as there are columns, none of them empty: each column's name is one the cells
    know.
    """
    for resource in resources(minor):
        obj = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "x"}, **status}
        table = tables.render(resource, [obj], now=NOW, metadata={})
        columns, cells = table["columnDefinitions"], table["rows"][0]["cells"]
        where = f"{resource.api_version} {resource.kind}: {cells}"
        assert len(cells) == len(columns) + MORE_CELLS.get(resource.kind, 0), where
        assert None not in cells, where
        assert cells[[column["name"] for column in columns].index("Name")] == "x", where


@pytest.mark.parametrize("minor", RELEASES)
def test_no_object_at_all(minor: int):
    """An empty list is a Table with columns, and a bookmark, which has no name, is a row.

    Rows of kinds without a printer are null then.
    """
    for resource in resources(minor):
        table = tables.render(resource, [], now=NOW, metadata={"resourceVersion": "3"})
        assert table["columnDefinitions"]
        unprinted = [column["name"] for column in table["columnDefinitions"]] == ["Name", "Created At"]
        assert table["rows"] == (None if unprinted else [])
        bookmark = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {}}
        assert len(tables.render(resource, [bookmark], now=NOW, metadata={})["rows"]) == 1


@pytest.mark.parametrize("kind", ["Role", "ClusterRole"])
def test_kinds_without_printer(kind: str):
    """Kinds without columns of their own show when they were created, not how long ago."""
    of = [resource for resource in resources(36) if resource.kind == kind]
    obj = {"metadata": {"name": "x", "creationTimestamp": "2026-07-01T11:55:00Z"}}
    table = tables.render(of[0], [obj], now=NOW, metadata={})
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Created At"]
    assert table["columnDefinitions"][1]["type"] == "date"
    assert table["rows"][0]["cells"] == ["x", "2026-07-01T11:55:00Z"]
