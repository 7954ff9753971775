"""Makes random histories of custom resources: a definition with a schema and rules, then objects of it."""

import copy
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from histories import IGNORED, WAYS, History, Named, saves
from objects import Objects

from kubeskew.apimachinery.resources import STANDARD_VERBS, GroupVersionKind, Resource
from kubeskew.apimachinery.schema import Field, Kind, Schema
from kubeskew.apiserver.apiextensions import validation
from kubeskew.apiserver.features import SchemaFeatures

_NAMES = ("a", "b", "c", "list", "x-y")
_FORMATS = (
    "date-time",
    "date",
    "duration",
    "byte",
    "uuid",
    "ipv4",
    "email",
    "uri",
    "int32",
    "other",
    "cidr",
    "hostname",
)
_PATTERNS = ("^a*$", "[0-9]+", "^(a|b)c?$", ".*", r"^\d{2}$", "(", "*")
_RULES: Mapping[str, Mapping[str, Sequence[str]]] = yaml.safe_load(
    Path(__file__).with_name("rules.yaml").read_text()
)
_KINDS = {
    "string": Kind.STRING,
    "integer": Kind.INTEGER,
    "number": Kind.NUMBER,
    "boolean": Kind.BOOLEAN,
    "int-or-string": Kind.INT_OR_STRING,
}
_NUMBERS: Mapping[str, Sequence[Any]] = {
    "minimum": (0, 1, -5), "maximum": (10, 100, 0), "multipleOf": (2, 0), "exclusiveMinimum": (False, True),
    "default": (3, "x", 1.5), "enum": ([1, 2, 3],),
}  # fmt: skip
_LIMITS: Mapping[str, Mapping[str, Sequence[Any]]] = {
    "string": {
        "maxLength": (5, 20, 0, -1), "minLength": (1, 3, 30), "pattern": _PATTERNS, "format": _FORMATS,
        "enum": (["a", "b"], ["a"], [1], ["a", "a"]), "default": ("a", "", 1),
    },
    "integer": {**_NUMBERS, "format": ("int32", "int64", "double", "other")},
    "number": {**_NUMBERS, "format": ("double", "float", "int32", "other")},
    "boolean": {"default": (True, False, "true")},
    "int-or-string": {"default": (1, "50%", True), "pattern": _PATTERNS},
}  # fmt: skip
_MESSAGES = (
    "'got ' + string(self)",
    "'fixed'",
    "self",
    "1",
    "self.a",
    "'x' +",
    '"%s".format([self])',
    "'\\n'",
)


@dataclass(frozen=True, slots=True)
class Schemas:
    """Makes random schemas; sound ones are mostly accepted, others have what a server refuses."""

    chance: random.Random
    sound: bool

    def choice(self, values: Sequence[Any]) -> Any:
        """Returns one of some values, of which the later half is refused more often than not."""
        return self.chance.choice(values[: (len(values) + 1) // 2] if self.sound else values)

    def limits(self, made: dict[str, Any], choices: Mapping[str, Sequence[Any]], share: float = 0.2) -> None:
        """Adds some of the keys, each with one of its values."""
        for key, values in choices.items():
            if self.chance.random() < share:
                made[key] = self.choice(values)

    def rules(self, kind: str, fields: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Returns rules for values of a kind."""
        chance, rules = self.chance, []
        for _ in range(chance.choice((0, 0, 0, 1, 1, 2))):
            written = [*_RULES[kind]["sound"], *([] if self.sound else _RULES[kind]["refused"])]
            for name in fields:
                at = name.replace("-", "__dash__")
                written += [
                    f"has(self.{at})",
                    f"!has(self.{at}) || dyn(self.{at}) != 1",
                    f"self.?{at}.hasValue()",
                ]
            rule: dict[str, Any] = {"rule": chance.choice(written)}
            if chance.random() < 0.2:
                rule["message"] = self.choice(("no", "other", "", "a\nb", "x" * 2049))
            if chance.random() < 0.2:
                rule["messageExpression"] = self.choice(_MESSAGES)
            if chance.random() < 0.15:
                rule["reason"] = self.choice(
                    ("FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "Other")
                )
            if chance.random() < 0.1 and fields:
                rule["fieldPath"] = self.choice((f".{fields[0]}", ".none", "a", "['x-y']", ".list[0]"))
            if chance.random() < 0.1 and "oldSelf" in rule["rule"]:
                rule["optionalOldSelf"] = chance.choice((True, False))
            rules.append(rule)
        return rules

    def schema(self, depth: int) -> tuple[dict[str, Any], Schema]:
        """Returns a schema as a definition states it, and the one that values are made along."""
        chance = self.chance
        deep = ("array", "map", "object", "object") if depth else ()
        kind = chance.choice(("string", "string", "integer", "number", "boolean", "int-or-string", *deep))
        if kind == "object":
            return self.object(depth)
        made: dict[str, Any] = {"type": kind}
        if kind == "int-or-string":
            made = {"x-kubernetes-int-or-string": True}
        elif chance.random() < 0.05:
            made["nullable"] = True
        if chance.random() < 0.05:
            made["description"] = "text"
        if kind in {"array", "map"}:
            schema = self._collection(kind, made, depth)
        else:
            self.limits(made, _LIMITS[kind])
            schema = Schema(_KINDS[kind])
        rules = self.rules("string" if kind == "int-or-string" and not self.sound else kind)
        if rules:
            made["x-kubernetes-validations"] = rules
        return made, schema

    def _collection(self, kind: str, made: dict[str, Any], depth: int) -> Schema:
        chance = self.chance
        if kind == "map":
            made["type"] = "object"
            made["additionalProperties"], items = self.schema(depth - 1)
            self.limits(made, {"maxProperties": (2, 5), "minProperties": (1,), "default": ({}, {"a": 1})})
            self.limits(made, {"x-kubernetes-map-type": ("atomic", "granular")}, 0.1)
            return Schema(Kind.MAP, items=items)
        made["items"], items = self.schema(depth - 1)
        limits = {
            "maxItems": (3, 10, 0),
            "minItems": (1, 2),
            "default": ([], ["a"], {}),
            "uniqueItems": (False, True),
        }
        self.limits(made, limits)
        if chance.random() < 0.5:
            types = ("map", "atomic") if made["items"].get("type") == "object" else ("set", "atomic")
            made["x-kubernetes-list-type"] = (
                chance.choice(types) if self.sound else chance.choice((*types, "map", "other"))
            )
        if made.get("x-kubernetes-list-type") == "map":
            known = sorted(made["items"].get("properties", {"a": {}}))
            keys = self.choice((known[:1], known[:2], ["none"], []))
            made["x-kubernetes-list-map-keys"] = keys
            if self.sound or chance.random() < 0.7:
                made["items"]["required"] = keys
        return Schema(Kind.LIST, items=items)

    def object(self, depth: int) -> tuple[dict[str, Any], Schema]:
        """Returns the schema of an object with some fields."""
        chance, fields, made = self.chance, dict[str, Field](), {"type": "object", "properties": {}}
        for name in chance.sample(_NAMES, chance.choice((1, 2, 2, 3))):
            made["properties"][name], schema = self.schema(depth - 1)
            fields[name] = Field(schema, required=chance.random() < 0.3)
        required = [name for name, each in fields.items() if each.required]
        if required:
            made["required"] = required
        self.limits(
            made,
            {
                "x-kubernetes-preserve-unknown-fields": (True, False),
                "default": ({}, {"a": 1}),
                "maxProperties": (1, 3),
            },
            0.08,
        )
        self.limits(made, {"x-kubernetes-map-type": ("atomic",), "title": ("t",)}, 0.04)
        if chance.random() < (0.02 if self.sound else 0.06):
            made["x-kubernetes-embedded-resource"] = True
        name = next(iter(fields))
        if chance.random() < 0.1:
            limit = {"properties": {name: {"minimum": 1}}} if not self.sound else {"required": [name, "c"]}
            made[chance.choice(("anyOf", "allOf", "oneOf"))] = [{"required": [name]}, limit]
        if chance.random() < 0.05:
            made["not"] = {"required": ["c"]}
        if rules := self.rules("object", [*fields]):
            made["x-kubernetes-validations"] = rules
        return made, Schema(Kind.OBJECT, fields=fields)


def _without_errors(body: dict[str, Any], features: SchemaFeatures) -> None:
    """Takes out of a definition what its validation refuses, as far as that is one key of a schema."""
    for _ in range(20):
        found = [_place(body["spec"], each.path) for each in validation.validate(body, features)]
        places = [each for each in found if each is not None]
        if not places:
            return
        for container, key in places:
            container.pop(key, None)


def _place(spec: dict[str, Any], path: str) -> tuple[dict[str, Any], str] | None:
    """Returns what holds the last key of a path below the schema; of a default or of rules, that key."""
    version = spec["versions"][0]
    _, below, rest = path.partition("openAPIV3Schema")
    if not below:
        if "messageExpression" not in path:
            version.pop("selectableFields", None)
            version.pop("additionalPrinterColumns", None)
        return (spec, "preserveUnknownFields") if "preserveUnknownFields" in spec else None
    node, last = version["schema"]["openAPIV3Schema"], None
    for name, inner in re.findall(r"\.([\w$-]+)|\[([^]]*)\]", rest):
        key = name or inner
        if not isinstance(node, dict) or key not in node:
            break
        last = (node, key)
        if key in {"default", "x-kubernetes-validations"}:
            break
        node = node[key]
    return (
        last if last is not None and last[1] not in {"properties", "items", "additionalProperties"} else None
    )


def definition_history(objects: Objects, seed: int) -> dict[str, Any]:
    """Returns the sequence of a seed: a definition, changed a few times, and objects of it."""
    chance = random.Random(f"definitions-{seed}")
    made = History(objects, chance)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "${run}"}}
    made.request("POST", "/api/v1/namespaces", namespace, save={"start": "metadata.resourceVersion"})
    schemas = Schemas(chance, sound=chance.random() < 0.75)
    wanted, spec = schemas.object(3)
    status, status_schema = schemas.object(1)
    body = _definition(schemas, wanted, status)
    if schemas.sound:
        _without_errors(body, objects.schema_features)
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    made.request("POST", path, body, ignore=["status"])
    group, version = "${run}.example.com", "v1"
    collection = f"/apis/{group}/{version}/namespaces/${{run}}/things"
    made.request("GET", collection, until={"http": 200}, within=1.5, compare="reason")
    root = Schema(Kind.OBJECT, fields={"spec": Field(spec), "status": Field(status_schema)})
    kind = GroupVersionKind(group, version, "Thing")
    subresources = dict.fromkeys(body["spec"]["versions"][0].get("subresources", {}))
    resource = Resource(
        group=group,
        version=version,
        plural="things",
        singular="thing",
        kind="Thing",
        namespaced=True,
        verbs=STANDARD_VERBS,
        schema=root,
        storage=kind,
        storage_resource="things",
        short_names=(),
        categories=(),
        subresources=subresources,
        columns=(),
    )
    for number in range(2):
        value = {"apiVersion": f"{group}/{version}", "kind": "Thing", "metadata": {"name": "ab"[number]}}
        value["spec"] = objects.value(chance, spec, "spec")
        one = Named(resource, "ab"[number], value, number, tried=False)
        made.held.append(one)
        made.request("POST", one.collection, value, made.options(one), **saves(one))
    for _ in range(chance.randrange(5, 14)):
        one = chance.choice(made.held)
        if chance.random() < 0.5:
            one.body = {**one.body, "spec": objects.value(chance, spec, "spec")}
        way = chance.choices([*WAYS], [*WAYS.values()])[0]
        way(made, one)
    if chance.random() < 0.4:
        again, _ = schemas.object(2)
        changed = _definition(schemas, chance.choice((again, wanted)), status)
        patch = {"spec": {"versions": changed["spec"]["versions"]}}
        merge = {"Content-Type": "application/merge-patch+json"}
        made.request("PATCH", f"{path}/things.{group}", patch, headers=merge, ignore=["status"])
    return {
        "name": f"definitions-{seed}",
        "vars": {
            "start": "1",
            "continue": "none",
            **{f"{key}-{number}": "1" for key in ("rv", "uid") for number in range(2)},
        },
        "rv": "object",
        "ignore": [*IGNORED],
        "cleanup": [f"{path}/things.{group}", "/api/v1/namespaces/${run}"],
        "steps": made.steps,
    }


def _definition(schemas: Schemas, spec: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, Any]:
    chance = schemas.chance
    root = {"type": "object", "properties": {"spec": copy.deepcopy(spec), "status": copy.deepcopy(status)}}
    if chance.random() < 0.05:
        root["properties"]["metadata"] = {
            "type": "object",
            "properties": {"name": {"type": "string", "maxLength": 1}},
        }
    if rules := schemas.rules("object", ["spec"]):
        root["x-kubernetes-validations"] = rules
    version: dict[str, Any] = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": root},
    }
    if chance.random() < 0.7:
        version["subresources"] = {"status": {}}
        if chance.random() < 0.4:
            version["subresources"]["scale"] = {
                "specReplicasPath": ".spec.a",
                "statusReplicasPath": ".status.a",
            }
    if chance.random() < 0.2:
        path = schemas.choice((".spec.a", ".spec.list[*]", ".metadata.name", "spec.a", ".spec['x-y']"))
        version["additionalPrinterColumns"] = [
            {"name": "A", "type": chance.choice(("string", "integer", "date")), "jsonPath": path}
        ]
    if chance.random() < 0.2:
        version["selectableFields"] = [
            {"jsonPath": chance.choice((".spec.a", ".spec.b", ".metadata.name", "spec.a"))}
        ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.${run}.example.com"},
        "spec": {
            "group": "${run}.example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [version],
            **({"preserveUnknownFields": True} if chance.random() < 0.03 else {}),
        },
    }
