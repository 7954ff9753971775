"""Selectable fields of a definition whose schema has no structure; what is said was seen at a real 1.36.3."""

from typing import Any

import pytest

from kubeskew.apiserver.apiextensions import validation
from kubeskew.apiserver.structuralschema.model import NEWEST

NO_STRUCTURE = {"type": "object", "properties": {"spec": {"type": "object"}}} | {
    "x-kubernetes-preserve-unknown-fields": False
}


def definition(schema: dict[str, Any], path: str) -> dict[str, Any]:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names}
    return {
        "metadata": {"name": "things.example.com"},
        "spec": {**spec, "versions": [{**version, "selectableFields": [{"jsonPath": path}]}]},
        "status": {"storedVersions": ["v1"]},
    }


def test_a_path_is_read_without_a_structure():
    """A path that cannot be read is refused next to the reason why the schema has no structure."""
    said = [str(each) for each in validation.validate(definition(NO_STRUCTURE, "spec.a"), NEWEST)]
    preserve = "'x-kubernetes-preserve-unknown-fields' must be true or undefined"
    assert f'spec.schema.openAPIV3Schema: Invalid value: "": internal error: {preserve}' in said
    why = "is an invalid path: expected [ or . but got: spec"
    assert f'spec.selectableFields[0].jsonPath: Invalid value: "spec.a": {why}' in said


def test_a_field_is_looked_for_in_nothing():
    """A sound path panics, as upstream looks for its field in the structure that is not there."""
    with pytest.raises(RuntimeError, match="invalid memory address or nil pointer dereference"):
        validation.validate(definition(NO_STRUCTURE, ".spec.a"), NEWEST)


def test_a_sound_schema_has_the_field():
    """A path that leads to a string is accepted."""
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    assert validation.validate(definition(schema, ".a"), NEWEST) == []
