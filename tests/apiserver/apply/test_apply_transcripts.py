"""Server-side apply and updates of custom resources, as a recorded API server answered them.

The test stands in for the server around the field manager: it defaults, makes metadata, and merges patches.
What such a server checks beyond ownership (required fields) is not replayed here.
"""

import copy
import json
import re

import pytest
from recorded import DATA

from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.schema import Field, Kind, Schema
from kubeskew.apiserver.apply.managedfields import FieldManager, FieldSet
from kubeskew.apiserver.apply.patching.json_patch import apply_merge_patch

GOLDEN = json.loads((DATA / "real-1.36" / "machinery-apply.golden.json").read_text())
KINDS = {
    "object": Kind.OBJECT,
    "array": Kind.LIST,
    "string": Kind.STRING,
    "integer": Kind.INTEGER,
    "number": Kind.NUMBER,
    "boolean": Kind.BOOLEAN,
}
META = Schema(
    Kind.OBJECT,
    fields={
        **{
            name: Field(Schema(Kind.STRING))
            for name in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        },
        "generation": Field(Schema(Kind.INTEGER)),
        "labels": Field(Schema(Kind.MAP, items=Schema(Kind.STRING))),
        "annotations": Field(Schema(Kind.MAP, items=Schema(Kind.STRING))),
    },
)
RESET = {"": FieldSet.of_fields([("status",)]), "status": FieldSet.of_fields([("spec",), ("metadata",)])}


def substitute(value, variables):
    """`value` with ${NAME} replaced, within texts or as a whole."""
    if isinstance(value, str):
        whole = re.fullmatch(r"\$\{(\w+)\}", value)
        if whole and whole[1] in variables:
            return substitute(variables[whole[1]], variables)
        return re.sub(
            r"\$\{(\w+)\}",
            lambda found: str(substitute(found[0], variables)) if found[1] in variables else found[0],
            value,
        )
    if isinstance(value, list):
        return [substitute(item, variables) for item in value]
    if isinstance(value, dict):
        return {name: substitute(item, variables) for name, item in value.items()}
    return value


def schema_of(definition):
    """The tree of a structural schema."""
    if definition.get("x-kubernetes-int-or-string"):
        return Schema(Kind.INT_OR_STRING)
    kind = KINDS[definition["type"]]
    items = definition.get("items") or definition.get("additionalProperties")
    properties = definition.get("properties")
    preserve = definition.get("x-kubernetes-preserve-unknown-fields", False)
    if kind is Kind.OBJECT and properties is None:
        kind = Kind.ANY if preserve else Kind.MAP
    required = definition.get("required", ())
    return Schema(
        kind,
        format=definition.get("format", ""),
        fields={
            name: Field(schema_of(inner), name in required, inner.get("default"), "default" in inner)
            for name, inner in (properties or {}).items()
        },
        items=schema_of(items) if items else None,
        list_type=definition.get("x-kubernetes-list-type", "atomic"),
        list_keys=tuple(definition.get("x-kubernetes-list-map-keys", ())),
        map_type=definition.get("x-kubernetes-map-type", "granular"),
        preserve_unknown=preserve,
    )


def defaulted(value, schema):
    """`value` with the defaults of its schema and without nulls."""
    if schema.kind is Kind.OBJECT:
        value = {name: item for name, item in value.items() if item is not None}
        for name, field in schema.fields.items():
            if name not in value and field.has_default:
                value[name] = copy.deepcopy(field.default)
        return {name: defaulted(item, schema.fields[name].schema) for name, item in value.items()}
    if schema.kind is Kind.LIST and schema.items:
        return [defaulted(item, schema.items) for item in value]
    return value


class Server:
    """One object and its field manager."""

    def __init__(self, schema):
        fields = {
            "apiVersion": Field(Schema(Kind.STRING)),
            "kind": Field(Schema(Kind.STRING)),
            "metadata": Field(META),
            **schema.fields,
        }
        self.schema = Schema(Kind.OBJECT, fields=fields)
        self.manager = FieldManager(lambda _: self.schema)
        self.live = None
        self.writes = 0

    def at(self, version):
        """The object at a version; all are alike."""
        return None if self.live is None else {**self.live, "apiVersion": version}

    def write(self, step, version):
        subresource = "status" if "/status?" in step["path"] else ""
        manager = re.search(r"fieldManager=(\w+)", step["path"])[1]
        now = f"2026-01-01T00:00:{self.writes:02}Z"
        live, reset = self.at(version), RESET[subresource]
        kind = (step.get("headers") or {}).get("Content-Type", "")
        if "apply" in kind:
            new = self.manager.apply(live, step["body"], manager, False, subresource, now, reset=reset)
            new = self.decoded(new)
        else:
            new = apply_merge_patch(live, step["body"]) if "merge" in kind else step["body"]
            new = self.manager.update(live, self.decoded(new), manager, subresource, now, reset=reset)
        self.writes += 1
        self.live = {**new, "metadata": {**new["metadata"], "uid": "u", "namespace": "default"}}

    def decoded(self, new):
        """Reads the object as a custom resource is read: empty managedFields are none."""
        metadata = {name: value for name, value in new["metadata"].items() if value not in (None, [], {})}
        rest = {name: value for name, value in new.items() if name != "metadata"}
        return {**defaulted(rest, self.schema), "metadata": metadata}


def shown(obj):
    """Returns what the recorder kept apart from system metadata: entries sorted, times as marks."""
    metadata = {
        name: value
        for name, value in obj["metadata"].items()
        if name in ("labels", "annotations", "managedFields")
    }
    entries = [
        {name: "<time>" if name == "time" else value for name, value in entry.items()}
        for entry in metadata.get("managedFields", ())
    ]
    metadata["managedFields"] = sorted(
        entries,
        key=lambda entry: [
            str(entry.get(name, "")) for name in ("manager", "operation", "subresource", "apiVersion")
        ],
    )
    return {**obj, "metadata": metadata}


@pytest.mark.parametrize(
    "sequence", [pytest.param(sequence, id=sequence["name"]) for sequence in GOLDEN["sequences"]]
)
def test_transcript(sequence):
    """Every answer's object, owners and conflicts are the recorded ones."""
    variables = {**sequence["vars"], "run": "r"}
    definition = substitute(variables["schema"], variables)
    server = Server(schema_of(definition))
    for number, raw in enumerate(sequence["steps"][3:]):
        step = substitute(raw, variables)
        expected = step["expect"]["body"]
        if step["method"] == "GET":
            assert shown(server.at(expected["apiVersion"])) == shown(expected), number
            continue
        if expected.get("reason") == "Invalid":
            continue
        version = step["body"].get("apiVersion", "r.example.com/v1")
        try:
            server.write(step, version)
        except StatusError as error:
            answer = error.status()
        else:
            answer = shown(server.at(version))
            expected = shown(expected)
        assert answer == expected, number
