"""Builds the JSON Schemas that editors use, of cluster files and of scenarios.

The keys are those that the readers have: kubeskew/cluster/clusterfile.py, conformance/grammar.py.
"""

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kubeskew.apimachinery.gates import all_gates
from kubeskew.cluster import clusterfile
from kubeskew.cluster.clusterfile import CLUSTER_KEYS, Schema, object_of
from kubeskew.conformance import grammar
from kubeskew.conformance.invariants.findings import known_findings
from kubeskew.conformance.loader import CHAINSAW, HEADER
from kubeskew.conformance.runner import RUN

DIALECT = "https://json-schema.org/draft/2020-12/schema"
EXPRESSION: Schema = {"type": "string", "pattern": r"^\([\s\S]+\)$"}
_ONE_OF = {"simulate": ("scaleUp", "scaleDown"), "audit": ("for", "to")}
_ASSERTIONS = ("assert", "error")  # may be of expressions alone


def cluster_schema() -> Schema:
    return {
        "$schema": DIALECT,
        "title": "A cluster of kubeskew (`kubeskew up --config`)",
        **object_of(CLUSTER_KEYS),
        "type": ["object", "null"],
        "$defs": clusterfile.definitions(),
    }


def scenario_schema() -> Schema:
    definitions = {**clusterfile.definitions(), **_definitions()}
    header = _document(HEADER, "Scenario", _header())
    test = _document(CHAINSAW, "Test", _test())
    return {
        "$schema": DIALECT,
        "title": "A scenario of kubeskew (`kubeskew run`)",
        "type": "object",
        "properties": {"kind": {"enum": ["Scenario", "Test"]}},
        "required": ["apiVersion", "kind"],
        "if": {"properties": {"kind": {"const": "Scenario"}}},
        "then": {"$ref": "#/$defs/header"},
        "else": {"$ref": "#/$defs/test"},
        "$defs": {
            "expression": EXPRESSION,
            **{name: open_to_expressions(schema) for name, schema in definitions.items()},
            "header": header,
            "test": test,
        },
    }


def open_to_expressions(schema: Any) -> Any:
    """Values of keys and items of lists may then also be expressions."""
    if isinstance(schema, list):
        return [open_to_expressions(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    changed = {key: open_to_expressions(value) for key, value in schema.items() if key != "properties"}
    if "properties" in schema:
        changed["properties"] = {key: _open(value) for key, value in schema["properties"].items()}
        if changed.get("additionalProperties") is False:
            changed["patternProperties"] = {EXPRESSION["pattern"]: {}}
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), Mapping):
            changed[key] = _open(schema[key])
    return changed


def _open(schema: Mapping[str, Any]) -> Schema:
    described = {"description": schema["description"]} if "description" in schema else {}
    rest = {key: value for key, value in schema.items() if key != "description"}
    if not rest:
        return described
    return {**described, "anyOf": [open_to_expressions(rest), {"$ref": "#/$defs/expression"}]}


def _mapping(keys: Iterable[str], schemas: Mapping[str, Any], required: Iterable[str] = ()) -> Schema:
    return {
        "type": "object",
        "properties": {key: schemas.get(key, {}) for key in keys},
        "additionalProperties": False,
        **({"required": sorted(required)} if required else {}),
    }


def _list(items: Schema, **more: Any) -> Schema:
    return {"type": ["array", "null"], "items": items, **more}


def _document(api_version: str, kind: str, spec: Schema) -> Schema:
    schemas = {
        "apiVersion": {"const": api_version},
        "kind": {"const": kind},
        "metadata": {"type": ["object", "null"], "properties": {"name": {"type": ["string", "null"]}}},
        "spec": spec,
    }
    return _mapping(grammar.DOCUMENT_KEYS, schemas, ["apiVersion", "kind"])


TEXT: Schema = {"type": ["string", "null"]}
_BOOLEAN: Schema = {"type": ["boolean", "null"]}
_OPERATIONS = _list({"$ref": "#/$defs/operation"})


def _header() -> Schema:
    marks = {
        "when": EXPRESSION,
        "steps": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "found": {"type": "string", "description": "A regular expression that this failure alone has."},
        "reason": {"type": "string", "minLength": 1},
        "source": {"type": "string"},
        "bug": {"type": "string"},
        "at": EXPRESSION,
        "finding": {"enum": sorted(known_findings())},
    }
    known = {
        "anyOf": [
            {"required": ["finding", "when", "steps", "found"]},
            {"required": ["bug", "steps", "found"]},
            {"required": ["when", "steps", "reason", "found"]},
        ]
    }
    cells = ["when", "steps", "reason"]
    return {
        **_mapping(
            grammar.HEADER_KEYS,
            {
                "cluster": {
                    "description": "The cluster of each cell, as a cluster file has it.",
                    **open_to_expressions(object_of(CLUSTER_KEYS)),
                    "type": ["object", "null"],
                },
                "parameters": {
                    "description": "One cell for every combination of their values.",
                    "type": ["object", "null"],
                    "additionalProperties": {"type": ["array", "object"], "minItems": 1},
                },
                "baseline": {"description": "The cells that the others are compared with."},
                "expectedFailures": {
                    "description": "The steps that fail upstream too, and by what.",
                    **_list({**_mapping(grammar.EXPECTED_FAILURE_KEYS, marks), **known}),
                },
                "notRun": {
                    "description": "The steps that cannot be run in some cells.",
                    **_list(_mapping(grammar.EXEMPTION_KEYS, marks, cells)),
                },
            },
        ),
        "type": ["object", "null"],
    }


def _test() -> Schema:
    timeouts = {"$ref": "#/$defs/timeouts"}
    steps = {"type": "array", "items": {"$ref": "#/$defs/part"}, "minItems": 1}
    yes = {"const": True}
    schemas = {
        "description": TEXT,
        "catch": _OPERATIONS,
        "namespace": TEXT,
        "concurrent": _BOOLEAN,
        "skipDelete": _BOOLEAN,
        "template": yes,
        "fastNamespaceDeletion": _BOOLEAN,
        "timeouts": timeouts,
        "bindings": {"$ref": "#/$defs/bindings"},
        "steps": steps,
    }
    return _mapping(grammar.TEST_KEYS, schemas, ["steps"])


def _definitions() -> Schema:
    named = ["name", "value"]
    text = {"type": "string"}
    step = {
        "name": TEXT,
        "needs": {"type": ["string", "array", "null"], "items": text},
        "bindings": {"$ref": "#/$defs/bindings"},
        "timeouts": {"$ref": "#/$defs/timeouts"},
        "template": {"const": True},
        **dict.fromkeys(("try", "catch", "finally", "cleanup"), _OPERATIONS),
    }
    loop = {"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": EXPRESSION}
    repeated = {"type": "array", "items": {"$ref": "#/$defs/part"}, "minItems": 1}
    durations = dict.fromkeys(grammar.TIMEOUT_KEYS, grammar.DURATION)
    branch = {**step, "name": {**text, "minLength": 1}}
    condition = _mapping(grammar.CONDITION_KEYS, {"name": text}, ["name"])
    json_path = _mapping(grammar.JSON_PATH_KEYS, {"path": text}, ["path"])
    values = {"type": ["object", "null"]}
    kinded = {"apiVersion": {**text, "minLength": 1}, "kind": {**text, "minLength": 1}}
    alone = {"minProperties": 1, "maxProperties": 1}
    scale_up = _mapping(grammar.SCALE_UP_KEYS, {})
    return {
        "gateChanges": {
            "type": "object",
            "properties": {gate: {"type": ["boolean", "null"]} for gate in sorted(all_gates())},
            "additionalProperties": False,
        },
        "timeouts": {**_mapping(grammar.TIMEOUT_KEYS, durations), "type": ["object", "null"]},
        "bindings": _list(_mapping(grammar.BINDING_KEYS, {"name": TEXT}, named)),
        "outputs": _list(_mapping(grammar.OUTPUT_KEYS, {"name": TEXT, "match": {"type": "object"}}, named)),
        "variable": _mapping(grammar.ENVIRONMENT_KEYS, {}),
        "expectation": _mapping(grammar.EXPECT_KEYS, {}),
        "reference": _mapping(grammar.REFERENCE_KEYS, kinded, kinded),
        "expressions": {
            "type": "object",
            "minProperties": 1,
            "propertyNames": {"pattern": r"\([\s\S]+\)"},
        },
        "object": {"type": "object", "properties": kinded, "required": [*kinded]},
        "condition": {
            **_mapping(grammar.WAIT_KEYS, {"condition": condition, "jsonPath": json_path}),
            **alone,
        },
        "scaleUp": scale_up,
        "branch": _mapping(grammar.BRANCH_KEYS, branch, ["name"]),
        "difference": _mapping(grammar.DIFFERENCE_KEYS, {"object": text, "values": values}, ["object"]),
        "outcome": _mapping(grammar.OUTCOME_KEYS, {"step": text, "values": values}, ["step"]),
        "part": {
            "type": "object",
            "if": {"required": ["forEach"]},
            "then": _mapping(grammar.REPEAT_KEYS, {"forEach": loop, "steps": repeated}, ["forEach", "steps"]),
            "else": {
                **_mapping(grammar.STEP_KEYS, {**step, "try": {**_OPERATIONS, "type": "array"}}),
                "anyOf": [{"required": [key]} for key in ("try", "catch", "finally", "cleanup")],
            },
        },
        "operation": _operation(),
    }


def _operation() -> Schema:
    user = {**_mapping(grammar.USER_KEYS, {"user": {"minLength": 1}}, ["user"]), "type": ["object", "null"]}
    settings: Schema = {
        "description": TEXT,
        "continueOnError": {"description": "The step goes on if this fails."},
        "as": {"description": "The user that it is done as.", **user},
        "through": {"description": "The API server that is asked.", **TEXT},
    }
    bodies = {kind: _body(kind) for kind in grammar.OPERATIONS}
    return {
        **_mapping([*bodies, *grammar.OPERATION_SETTINGS], {**bodies, **settings}),
        "oneOf": [{"required": [kind]} for kind in bodies],
    }


def _body(kind: str) -> Schema:
    shape = grammar.OPERATIONS[kind]
    schemas = {}
    for key in shape.keys:
        said, schema = grammar.meaning(kind, key)
        if kind in _ASSERTIONS and key == "resource":
            schema = {"anyOf": [{"$ref": "#/$defs/object"}, {"$ref": "#/$defs/expressions"}]}
        schemas[key] = {**({"description": said} if said else {}), **schema}
    body = {"description": _first_sentence(kind), **_mapping(shape.keys, schemas, shape.required)}
    if kind in grammar.FROM_FILES:
        body["oneOf"] = [{"required": [key]} for key in (grammar.FROM_FILES[kind], "file")]
    if kind in _ONE_OF:
        body["oneOf"] = [{"required": [key]} for key in _ONE_OF[kind]]
    return body


def _first_sentence(kind: str) -> str:
    """Operations are described by the docstring of the function that runs them."""
    return (inspect.getdoc(RUN[kind]) or "").partition("\n")[0]


SCHEMAS: Mapping[str, Callable[[], Schema]] = {"cluster": cluster_schema, "scenario": scenario_schema}


def as_text(name: str) -> str:
    return json.dumps(SCHEMAS[name](), indent=1) + "\n"
