"""The Table document around the cells."""

import pytest
from server_in_process import Caller
from table_rows import FIVE_MINUTES_AGO, NOW, resource, table

from kubeskew.apimachinery.errors import StatusError
from kubeskew.apiserver.registry.tables import table as tables

SECRET = {"type": "Opaque", "data": {"a": "eA=="}}
AS_TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}


def test_the_document():
    """Kind, list metadata, the columns with all their fields, and cells in their order."""
    made = table("v1", "Secret", SECRET)
    assert (made["kind"], made["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert made["metadata"] == {"resourceVersion": "7"}
    assert [column["name"] for column in made["columnDefinitions"]] == ["Name", "Type", "Data", "Age"]
    assert made["columnDefinitions"][0] == {
        "name": "Name", "type": "string", "format": "name", "description": "", "priority": 0,
    }  # fmt: skip
    assert made["rows"][0]["cells"] == ["x", "Opaque", 1, "5m"]


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
@pytest.mark.parametrize("include", ["", "Metadata"])
def test_rows_have_metadata(version: str, include: str):
    """By default a row has the object's metadata, in the version of the Table."""
    made = table("v1", "Secret", SECRET, version=version, include_object=include)
    assert made["apiVersion"] == f"meta.k8s.io/{version}"
    assert made["rows"][0]["object"] == {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": {"name": "x", "creationTimestamp": FIVE_MINUTES_AGO},
    }


def test_rows_have_the_object_or_nothing():
    """A client that needs more, or less, says so."""
    whole = table("v1", "Secret", SECRET, include_object="Object")["rows"][0]["object"]
    assert whole["kind"] == "Secret"
    assert whole["data"] == SECRET["data"]
    assert table("v1", "Secret", SECRET, include_object="None")["rows"][0]["object"] is None


def test_another_include_is_refused():
    """An includeObject that is none of the three is refused with 400."""
    with pytest.raises(StatusError) as refused:
        table("v1", "Secret", SECRET, include_object="Chair")
    assert refused.value.code == 400
    assert "must be 'Metadata', 'Object', 'None', or empty" in refused.value.message


def test_without_headers():
    """A watch repeats no columns."""
    assert table("v1", "Secret", SECRET, no_headers=True)["columnDefinitions"] is None


def test_flow_schemas_come_in_the_order_they_are_tried():
    """By precedence, then by name."""
    schemas = [
        {"metadata": {"name": name}, "spec": {"matchingPrecedence": precedence}}
        for name, precedence in (("a", 9000), ("c", 1), ("b", 1))
    ]
    made = table("flowcontrol.apiserver.k8s.io/v1", "FlowSchema", *schemas)
    assert [row["cells"][0] for row in made["rows"]] == ["b", "c", "a"]


def test_a_scale_has_its_own_columns():
    """A scale subresource is printed with columns of its own, not with those of its resource."""
    scale = {"kind": "Scale", "metadata": {"name": "x"}, "spec": {"replicas": 3}, "status": {"replicas": 2}}
    made = tables.render(resource("apps/v1", "Deployment"), [scale], now=NOW, metadata={})
    names = [column["name"] for column in made["columnDefinitions"]]
    assert names == ["Name", "Desired", "Available", "Age"]
    assert made["rows"][0]["cells"] == ["x", 3, 2, "<unknown>"]


async def test_the_server_answers_with_tables(api: Caller):
    """One object and a list, through the whole server, with the revision of each."""
    path = "/api/v1/namespaces/default/configmaps"
    made = await api("POST", path, {"metadata": {"name": "c"}, "data": {"a": "1", "b": "2"}})
    revision = made.body["metadata"]["resourceVersion"]
    one = (await api.get(f"{path}/c", **AS_TABLE)).body
    assert one["metadata"] == {"resourceVersion": revision}
    assert one["rows"][0]["cells"][:2] == ["c", 2]
    listed = (await api.get(f"{path}?includeObject=None", **AS_TABLE)).body
    assert int(listed["metadata"]["resourceVersion"]) >= int(revision)
    assert [(row["cells"][:2], row["object"]) for row in listed["rows"]] == [(["c", 2], None)]
    refused = await api.get(f"{path}?includeObject=Chair", **AS_TABLE)
    assert refused.status == 400
