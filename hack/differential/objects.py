"""Makes random objects, valid and nearly valid: sound ones of each kind, changed along their schema."""

import copy
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from kubeskew.apimachinery.catalogue.table import Catalogue
from kubeskew.apimachinery.resources import Resource
from kubeskew.apimachinery.schema import Field, Kind, Schema
from kubeskew.apiserver.features import SchemaFeatures

FILE = Path(__file__).with_name("objects.yaml")
_DEPTH = 4  # of a value that is made up
_STRINGS = (
    "", "a", "b", "web", "A", "a_b", "-a", "a.", "a.b.example.com", "example.com/x", "example.com/", "x" * 64,
    "x" * 254, "ü", "1", "1.2.3.4", "::1", "01.2.3.4", "10.0.0.0/8", "10.0.0.1/8", "0%", "50%", "101%",
    "None",
    "Always", "TCP", "NoSchedule", "/abs", "../up", "a/../b", "a b", "*", "true", "2026-01-02T03:04:05Z",
    "x:1", "kubernetes.io/x", "k8s.io", "$(A)", "object.spec.x > 1", "{", "https://example.com", "system:x",
    "default", "Mi", "default/name",
)  # fmt: skip
_INTEGERS = (
    0,
    1,
    -1,
    2,
    5,
    80,
    100,
    101,
    256,
    512,
    1000,
    65535,
    65536,
    2**31 - 1,
    2**31,
    2**63 - 1,
    -(2**31),
)
_QUANTITIES = (
    "0",
    "1",
    "-1",
    "100m",
    "1.5",
    "1Gi",
    "0.1m",
    "1e3",
    "12E",
    "1k",
    "3Ki",
    "1n",
    "x",
    "",
    5,
    1.5,
    "0.5Gi",
)
_TIMES = (
    "2026-01-02T03:04:05Z",
    "2026-01-02T03:04:05.123456Z",
    "2026-01-02T03:04:05+02:00",
    "today",
    "",
    None,
)
_ANYTHING: tuple[Any, ...] = (
    {},
    {"a": 1},
    [],
    "text",
    3,
    {"a": {"b": [None]}},
    None,
    True,
    {"apiVersion": "v1", "kind": "X"},
)
_KEYS = (
    "a",
    "app",
    "example.com/x",
    "A_b",
    "-x",
    "",
    "x" * 64,
    "kubernetes.io/x",
    "a b",
    "cpu",
    "memory",
    "pods",
    "..",
)


@dataclass(frozen=True, slots=True)
class Place:
    """A value in an object, with its schema and what holds it."""

    path: tuple[str | int, ...]
    container: Any
    key: str | int
    schema: Schema


class Objects:
    """The kinds that a release serves by default, with sound objects of each."""

    def __init__(self, catalogue: Catalogue, group: str | None = None) -> None:
        """With a `group`, of that API group alone."""
        self.name = "all groups" if group is None else f"group {group or 'core'}"
        self.schema_features = SchemaFeatures.of(catalogue.gates)
        sound = [
            (resource, each)
            for each in yaml.safe_load(FILE.read_text())
            if (resource := _resource(catalogue, each)) is not None and group in (None, resource.group)
        ]
        self.sound: Sequence[tuple[Resource, Mapping[str, Any]]] = sound

    @cached_property
    def values(self) -> Mapping[str, Sequence[Any]]:
        """The values that sound objects have in a field, by the field's name."""
        found: dict[str, list[Any]] = {}
        for resource, each in self.sound:
            for place in places(each, resource.schema):
                name = str(next((part for part in reversed(place.path) if isinstance(part, str)), ""))
                value = place.container[place.key]
                if not isinstance(value, dict | list) and value not in found.setdefault(name, []):
                    found[name].append(value)
        return found

    def value(self, chance: random.Random, schema: Schema, name: str, depth: int = _DEPTH) -> Any:
        """Returns a value for a field of that name: as a rule of the field's type."""
        if chance.random() < 0.03:
            return copy.deepcopy(chance.choice(_ANYTHING))
        match schema.kind:
            case Kind.OBJECT:
                fields = sorted(schema.fields.items())
                share = 1.5 / max(1, len(fields)) if depth < _DEPTH else 0.2
                chosen = [
                    (key, each)
                    for key, each in fields
                    if (each.required or chance.random() < share) and chance.random() < 0.97
                ]
                return {key: self.value(chance, each.schema, key, depth - 1) for key, each in chosen if depth}
            case Kind.MAP:
                items = schema.items or schema
                keys = chance.sample(_KEYS, chance.choice((0, 1, 1, 2)))
                return {key: self.value(chance, items, key, depth - 1) for key in keys if depth}
            case Kind.LIST:
                items = schema.items or schema
                count = chance.choice((0, 1, 1, 2))
                return [self.value(chance, items, name, depth - 1) for _ in range(count) if depth]
            case Kind.BOOLEAN:
                return chance.choice((True, False))
            case Kind.ANY:
                return copy.deepcopy(chance.choice(_ANYTHING))
        return self._leaf(chance, schema, name)

    def _leaf(self, chance: random.Random, schema: Schema, name: str) -> Any:
        seen = self.values.get(name, ())
        if seen and chance.random() < 0.5:
            return chance.choice(seen)
        if schema.enum and chance.random() < 0.8:
            return chance.choice(schema.enum)
        match schema.kind:
            case Kind.INTEGER:
                return chance.choice(_INTEGERS)
            case Kind.NUMBER:
                return chance.choice((0, 0.5, -1, 1e9))
            case Kind.QUANTITY:
                return chance.choice(_QUANTITIES)
            case Kind.INT_OR_STRING:
                return chance.choice((*_INTEGERS, *_STRINGS))
        if schema.format in {"date-time", "micro-time"}:
            return chance.choice(_TIMES)
        if schema.format == "byte":
            return chance.choice(("aGVsbG8=", "", "no!", "e30="))
        return chance.choice(_STRINGS)

    def changed(self, chance: random.Random, schema: Schema, value: Any, times: int) -> Any:
        """Returns a copy of an object with some changes, most of which its type allows."""
        value = copy.deepcopy(value)
        for _ in range(times):
            self._change(chance, schema, value)
        return value

    def _change(self, chance: random.Random, schema: Schema, value: Any) -> None:
        found = [place for place in places(value, schema) if place.path[0] not in ("apiVersion", "kind")]
        found = [place for place in found if place.path not in (("metadata",), ("metadata", "name"))]
        if not found:
            return
        place = chance.choice(found)
        here, name = place.container[place.key], _name(place)
        way = chance.choices(
            ("set", "add", "remove", "twice", "null", "wrong", "unknown", "key"), (8, 8, 4, 2, 1, 1, 1, 2)
        )[0]
        structs = [
            each
            for each in found
            if each.schema.kind is Kind.OBJECT and isinstance(each.container[each.key], dict)
        ]
        lists = [each for each in found if isinstance(each.container[each.key], list)]
        if way == "set":
            place.container[place.key] = self.value(chance, place.schema, name)
        elif way == "add" and structs:
            self._add(chance, chance.choice(structs))
        elif way == "remove":
            del place.container[place.key]
        elif way == "twice" and lists:
            one = chance.choice(lists)
            held = one.container[one.key]
            items = one.schema.items
            made = (
                self.value(chance, items, _name(one)) if items is not None and chance.random() < 0.5 else None
            )
            held.append(made if made is not None else copy.deepcopy(chance.choice(held)) if held else None)
        elif way == "null":
            place.container[place.key] = None
        elif way == "wrong":
            place.container[place.key] = copy.deepcopy(chance.choice(_ANYTHING))
        elif way == "unknown" and structs:
            one = chance.choice(structs)
            one.container[one.key][chance.choice(("unknown", "Name", "metadate"))] = chance.choice(
                (1, "x", {})
            )
        elif (
            way == "key"
            and isinstance(here, dict)
            and place.schema.kind is Kind.MAP
            and place.schema.items is not None
        ):
            here[chance.choice(_KEYS)] = self.value(chance, place.schema.items, name)

    def _add(self, chance: random.Random, struct: Place) -> None:
        held = struct.container[struct.key]
        absent = sorted(set(struct.schema.fields) - set(held))
        if absent:
            key = chance.choice(absent)
            held[key] = self.value(chance, struct.schema.fields[key].schema, key)


def _name(place: Place) -> str:
    return str(next((part for part in reversed(place.path) if isinstance(part, str)), ""))


def _resource(catalogue: Catalogue, each: Mapping[str, Any]) -> Resource | None:
    group, _, version = each["apiVersion"].rpartition("/")
    found = catalogue.by_kind(group, version, each["kind"])
    return (
        found if found is not None and catalogue.resource(group, version, found.plural) is not None else None
    )


def places(value: Any, schema: Schema, path: tuple[str | int, ...] = ()) -> Iterator[Place]:
    """Yields every value below an object that has a schema."""
    if isinstance(value, dict):
        for key in list(value):
            if (inner := _inner(schema, key)) is not None:
                yield Place((*path, key), value, key, inner)
                yield from places(value[key], inner, (*path, key))
    elif isinstance(value, list) and schema.items is not None and schema.kind is Kind.LIST:
        for at, each in enumerate(list(value)):
            yield Place((*path, at), value, at, schema.items)
            yield from places(each, schema.items, (*path, at))


def _inner(schema: Schema, key: str) -> Schema | None:
    if schema.kind is Kind.MAP:
        return schema.items
    found: Field | None = schema.fields.get(key)
    return found.schema if found is not None else None
