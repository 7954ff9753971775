"""Server-side apply against the recorded answers of upstream."""

import json

import pytest
from recorded import DATA

from kubeskew.apimachinery.catalogue import catalogue_for
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.apply.managedfields import FieldManager, FieldSet

CASES = [json.loads(line) for line in (DATA / "server-side-apply.jsonl").read_text().splitlines()]
VERSION = Version(36)
NOW = "2026-01-01T00:00:00Z"
# The fields that the recorder had the field manager leave alone, as the strategies of these kinds do.
RESET = {"": FieldSet.of_fields([("status",)]), "status": FieldSet.of_fields([("spec",)])}


def schemas(kind):
    catalogue = catalogue_for(VERSION, FeatureGates(VERSION), {})

    def schema_for(api_version):
        group, _, version = api_version.rpartition("/")
        found = catalogue.by_kind(group, version, kind)
        return found.schema if found else None

    return schema_for


def without_times(obj):
    entries = [
        {name: value for name, value in entry.items() if name != "time"}
        for entry in obj.get("metadata", {}).get("managedFields", [])
    ]
    metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    return {**obj, "metadata": metadata}, entries


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in CASES])
def test_recorded(case):
    """Each operation leaves the object and the owners that upstream left, or fails as it did."""
    manager = FieldManager(schemas(case["kind"]))
    live = None
    for operation, step in zip(case["ops"], case["steps"], strict=True):
        subresource = operation["subresource"]
        reset = RESET[subresource]
        try:
            if operation["op"] == "apply":
                live = manager.apply(
                    live,
                    operation["object"],
                    operation["manager"],
                    operation["force"],
                    subresource,
                    NOW,
                    kind=case["kind"],
                    reset=reset,
                )
            else:
                live = manager.update(
                    live, operation["object"], operation["manager"], subresource, NOW, reset=reset
                )
            failed = None
        except StatusError as error:
            failed = failure(error)
        assert failed == step.get("error")
        if live is not None:
            obj, entries = without_times(live)
            assert entries == step.get("managedFields", [])
            assert obj == step["object"]


def failure(error):
    if not error.reason:
        return {"message": error.message}
    shown = {"code": error.code, "message": error.message, "reason": error.reason}
    if error.details:
        shown["causes"] = error.details["causes"]
    return shown
