"""Validates, compares and merges values of server-side apply by their schema; finds and removes fields.

Unlike the set a configuration owns, an added or removed struct counts itself together with its leaves: that
is where the `.` in the entries of updaters comes from.

Sources: sigs.k8s.io/structured-merge-diff/v6 (typed/helpers.go, typed/validate.go) and the conversion of
OpenAPI types into its schemas (k8s.io/kube-openapi/pkg/schemaconv), 1.36;
sigs.k8s.io/structured-merge-diff/v6/typed (validate.go, tofieldset.go, remove.go, reconcile_schema.go);
sigs.k8s.io/structured-merge-diff/v6/typed/compare.go; sigs.k8s.io/structured-merge-diff/v6/typed/merge.go.
"""

from collections import Counter, deque
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final

from orjson import dumps

from kubeskew.apimachinery.golang.raw_extensions import RAW, RawObject
from kubeskew.apimachinery.golang.roundtrip import empties_of, holds_empties
from kubeskew.apimachinery.schema import Field, Kind, Schema
from kubeskew.apiserver.apply.managedfields import fieldpath
from kubeskew.apiserver.apply.managedfields.fieldpath import FieldSet
from kubeskew.apiserver.apply.patching.values import show

Problems = list[tuple[str, str]]


class Shape(Enum):
    MAP = auto()
    LIST = auto()
    SCALAR = auto()


class _Absent:
    """ABSENT stands for no value at all, as opposed to null."""

    def __bool__(self) -> bool:
        return False


ABSENT: Final = _Absent()
ANY: Final = Schema(Kind.ANY, preserve_unknown=True)

_ZEROS: Final = {Kind.STRING: "", Kind.INTEGER: 0, Kind.NUMBER: 0, Kind.BOOLEAN: False}
_SHAPES = {Kind.OBJECT: Shape.MAP, Kind.MAP: Shape.MAP, Kind.LIST: Shape.LIST}
_GO_TYPES = {
    str: "string",
    bool: "bool",
    dict: "map[string]interface {}",
    list: "[]interface {}",
    int: "int64",
    float: "float64",
}


class TypedError(ValueError):
    """The value does not fit its schema: `problems` has (path as text, message) for each misfit."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        self.problems = problems
        texts = [f"{path}: {message}" if path else message for path, message in problems]
        super().__init__(texts[0] if len(texts) == 1 else "\n".join(["errors:", *(f"  {t}" for t in texts)]))


class ItemError(ValueError):
    """No path element can be made of an item of a list."""


_FREE_MAP: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1"


def shape_of(schema: Schema, value: Any) -> Shape:
    """The schema decides; where it allows all, the value does, and no value counts as a map."""
    shape = _SHAPES.get(schema.kind)
    if shape is not None:
        return shape
    if schema.kind is not Kind.ANY:
        return Shape.SCALAR
    if schema.name == _FREE_MAP:
        return Shape.MAP
    if isinstance(value, list):
        return Shape.LIST
    return Shape.MAP if value is None or value is ABSENT or isinstance(value, dict) else Shape.SCALAR


def is_atomic(schema: Schema) -> bool:
    if schema.kind is Kind.LIST:
        return schema.list_type == "atomic"
    return schema.map_type == "atomic" or schema.name == RAW


def is_atomic_list(schema: Schema) -> bool:
    """Free-form lists are owned as a whole, too."""
    return schema.kind is not Kind.LIST or schema.list_type == "atomic"


def field_schema(schema: Schema, name: str) -> Schema | None:
    """None if the name is not declared."""
    found = schema.fields.get(name)
    if found is not None:
        return found.schema
    if schema.kind is Kind.OBJECT:
        return ANY if schema.preserve_unknown else schema.items
    return (schema.items or ANY) if schema.kind is Kind.MAP else ANY


def is_named(schema: Schema, name: str) -> bool:
    return name in schema.fields


def schema_of_items(schema: Schema) -> Schema:
    return schema.items or ANY


def item_element(schema: Schema, item: Any) -> str:
    """`schema` is that of a set or of a list with keys; raises ItemError."""
    if schema.list_keys:
        return _keyed_element(schema, item)
    if isinstance(item, dict):
        raise ItemError("associative list without keys has an element that's a map type")
    if isinstance(item, list):
        raise ItemError("not supported: associative list with lists as elements")
    if item is None:
        raise ItemError("associative list without keys has an element that's an explicit null")
    return fieldpath.valued(item)


def _keyed_element(schema: Schema, item: Any) -> str:
    if item is None:
        raise ItemError("associative list with keys may not have a null element")
    if not isinstance(item, dict):
        raise ItemError("associative list with keys may not have non-map elements")
    fields = schema_of_items(schema).fields
    keys = {}
    for name in schema.list_keys:
        if name in item:
            keys[name] = item[name]
        elif name in fields and (default := _key_default(fields[name])) is not None:
            keys[name] = default
    if not keys:
        names = " ".join(f'"{name}"' for name in schema.list_keys)
        raise ItemError(
            f"associative list with keys has an element that omits all key fields [{names}] "
            "(and doesn't have default values for any key fields)"
        )
    return fieldpath.keyed(keys)


def _key_default(field: Field) -> Any:
    """Returns a field's default as OpenAPI has it: also the zero value, where Go always writes the field."""
    if field.has_default:
        return field.default
    if field.omit_empty or field.pointer or (field.schema.kind is Kind.STRING and field.schema.format):
        return None
    return _ZEROS.get(field.schema.kind)


def scalar_problem(schema: Schema, value: Any) -> str:
    """The text is empty if the scalar fits, as null always does."""
    if value is None or value is ABSENT:
        return ""
    kind = schema.kind
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    if kind in (Kind.INTEGER, Kind.NUMBER):
        return "" if numeric else f"expected numeric (int or float), got {_GO_TYPES[type(value)]}"
    if kind is Kind.BOOLEAN:
        return "" if isinstance(value, bool) else f"expected boolean, got &{{{show(value)}}}"
    if kind is Kind.STRING and schema.format in ("", "byte"):
        if isinstance(value, str):
            return ""
        return f"expected string, got &value.valueUnstructured{{Value:{_go_syntax(value)}}}"
    if isinstance(value, dict | list):
        return f"expected any scalar, got &{{{show(value)}}}"
    return ""


def _go_syntax(value: Any) -> str:
    """Go's `%#v` prints values in this form."""
    if isinstance(value, dict):
        inner = ", ".join(f'"{name}":{_go_syntax(item)}' for name, item in sorted(value.items()))
        return f"map[string]interface {{}}{{{inner}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(_go_syntax, value))}}}"
    if isinstance(value, str):
        return f'"{value}"'
    return "interface {}(nil)" if value is None else show(value)


def validate(value: Any, schema: Schema, *, allow_duplicates: bool = False) -> None:
    """Raises TypedError if `value` does not fit."""
    problems: Problems = []
    _validate(value, schema, "", problems, allow_duplicates)
    if problems:
        raise TypedError(problems)


def _validate(value: Any, schema: Schema, path: str, problems: Problems, duplicates: bool) -> None:
    shape = shape_of(schema, value)
    if shape is Shape.SCALAR:
        problem = scalar_problem(schema, value)
        if problem:
            problems.append((path, problem))
    elif value is None:
        return
    elif shape is Shape.MAP:
        if isinstance(value, dict):
            _validate_map(value, schema, path, problems, duplicates)
        else:
            problems.append((path, f"expected map, got &{{{show(value)}}}"))
    elif isinstance(value, list):
        _validate_list(value, schema, path, problems, duplicates)
    else:
        problems.append((path, f"expected list, got &{{{show(value)}}}"))


def _validate_map(
    value: dict[str, Any], schema: Schema, path: str, problems: Problems, duplicates: bool
) -> None:
    for name, item in value.items():
        found = field_schema(schema, name)
        if found is None:
            problems.append((f"{path}.{name}", "field not declared in schema"))
            return
        _validate(item, found, f"{path}.{name}", problems, duplicates)


def _validate_list(value: list[Any], schema: Schema, path: str, problems: Problems, duplicates: bool) -> None:
    keyed = schema.kind is Kind.LIST and schema.list_type != "atomic"
    seen: set[str] = set()
    for position, item in enumerate(value):
        element = fieldpath.indexed(position)
        if keyed:
            try:
                element = item_element(schema, item)
            except ItemError as error:
                problems.append((path, f"element {position}: {error}"))
                return
            shown = fieldpath.show_element(element)
            if element in seen and not duplicates:
                problems.append((path, f"duplicate entries for key {shown}"))
            seen.add(element)
        below = path + fieldpath.show_element(element)
        _validate(item, schema_of_items(schema), below, problems, duplicates)


# --- the fields a value sets ----------------------------------------------------------------------------


def to_field_set(value: Any, schema: Schema) -> FieldSet:
    """A configuration owns leaves, free keys and items of lists, not the structs above them."""
    found = FieldSet()
    if isinstance(value, dict):
        _own_fields(value, schema, found)
    return found


def _own(value: Any, schema: Schema, element: str, into: FieldSet) -> None:
    shape = shape_of(schema, value)
    if shape is Shape.SCALAR:
        into.members.add(element)
    elif shape is Shape.MAP:
        if is_atomic(schema):
            into.members.add(element)
        elif isinstance(value, dict):
            below = FieldSet()
            _own_fields(value, schema, below)
            into.attach(element, below)
    elif is_atomic_list(schema):
        into.members.add(element)
    elif isinstance(value, list):
        below = FieldSet()
        _own_items(value, schema, below)
        into.attach(element, below)


def _own_fields(value: dict[str, Any], schema: Schema, into: FieldSet) -> None:
    for name, item in value.items():
        element = fieldpath.field(name)
        _own(item, field_schema(schema, name) or ANY, element, into)
        if item is None or item == {} or not is_named(schema, name):
            into.members.add(element)


def _own_items(value: list[Any], schema: Schema, into: FieldSet) -> None:
    elements = [item_element(schema, item) for item in value]
    counts = Counter(elements)
    for element, item in zip(elements, value, strict=True):
        if counts[element] == 1:
            _own(item, schema_of_items(schema), element, into)
        into.members.add(element)


# --- without some fields --------------------------------------------------------------------------------


def without(value: Any, schema: Schema, gone: FieldSet) -> Any:
    """A map or list that has lost everything becomes null."""
    shape = shape_of(schema, value)
    if shape is Shape.SCALAR:
        return value
    if not value or not isinstance(value, dict | list):
        return None
    if isinstance(value, dict):
        return None if is_atomic(schema) else _without_fields(value, schema, gone)
    return None if is_atomic_list(schema) else _without_items(value, schema, gone)


def _without_fields(value: dict[str, Any], schema: Schema, gone: FieldSet) -> Any:
    kept = {}
    for name, item in value.items():
        element = fieldpath.field(name)
        if element in gone.members:
            continue
        below = gone.children.get(element)
        if below is not None and not below.is_empty():
            item = without(item, field_schema(schema, name) or ANY, below)
        kept[name] = item
    return kept or None


def _without_items(value: list[Any], schema: Schema, gone: FieldSet) -> Any:
    kept = []
    for item in value:
        element = item_element(schema, item)
        if element in gone.members:
            continue
        below = gone.children.get(element)
        changed = below is not None and not below.is_empty()
        kept.append(without(item, schema_of_items(schema), gone.below(element)) if changed else item)
    return kept or None


# --- sets over a schema ---------------------------------------------------------------------------------


def _schema_below(schema: Schema | None, element: str) -> Schema | None:
    if schema is None:
        return None
    if element[0] == "f":
        is_map = schema.kind in (Kind.OBJECT, Kind.MAP, Kind.ANY)
        return field_schema(schema, element[2:]) if is_map else None
    return schema_of_items(schema) if schema.kind is Kind.LIST and element[0] == "k" else None


def with_named_fields(fields: FieldSet, schema: Schema | None) -> FieldSet:
    """Adds each declared field that some of `fields` are below."""
    found = FieldSet(fields.members)
    for element, below in fields.children.items():
        if schema is not None and element[0] == "f" and is_named(schema, element[2:]):
            found.members.add(element)
        found.children[element] = with_named_fields(below, _schema_below(schema, element))
    return found


def reconciled(fields: FieldSet, schema: Schema) -> FieldSet:
    """Fields below something that is atomic by now become that as a whole."""
    if not fields.children:
        return fields
    found: FieldSet | None = None
    for element, below in fields.children.items():
        there = _reconcilable(schema, element)
        if there is None:
            continue
        atomic = is_atomic(there)
        changed = None if atomic else reconciled(below, there)
        if not atomic and changed is below:
            continue
        if found is None:
            found = FieldSet(fields.members, dict(fields.children))
        if changed is None:
            found.members.add(element)
            del found.children[element]
        else:
            found.children[element] = changed
    return found or fields


def _reconcilable(schema: Schema, element: str) -> Schema | None:
    """Only declared maps and lists matter; None for anything else."""
    if element[0] == "f":
        there = field_schema(schema, element[2:]) if schema.kind in (Kind.OBJECT, Kind.MAP) else None
    else:
        there = schema_of_items(schema) if schema.kind is Kind.LIST else None
    return there if there is not None and there.kind in (Kind.OBJECT, Kind.MAP, Kind.LIST) else None


@dataclass(slots=True)
class Comparison:
    """The three sets have no path in common."""

    removed: FieldSet = field(default_factory=FieldSet)
    modified: FieldSet = field(default_factory=FieldSet)
    added: FieldSet = field(default_factory=FieldSet)

    def excluding(self, fields: FieldSet | None) -> "Comparison":
        if fields is None or fields.is_empty():
            return self
        return Comparison(
            self.removed.recursive_difference(fields),
            self.modified.recursive_difference(fields),
            self.added.recursive_difference(fields),
        )


def compare(before: dict[str, Any], after: dict[str, Any], schema: Schema) -> Comparison:
    """Raises ItemError for an item without its keys."""
    found = Comparison()
    _compare_fields(before, after, schema, found)
    return found


def _compare_fields(before: dict[str, Any], after: dict[str, Any], schema: Schema, into: Comparison) -> None:
    for name, item in before.items():
        there = field_schema(schema, name) or ANY
        _compare(item, after.get(name, ABSENT), there, fieldpath.field(name), into)
    for name, item in after.items():
        if name not in before:
            there = field_schema(schema, name) or ANY
            _mark(item, there, fieldpath.field(name), into.added)


def _compare(before: Any, after: Any, schema: Schema, element: str, into: Comparison) -> None:
    if after is ABSENT:
        _mark(before, schema, element, into.removed)
        return
    if before is after:
        return
    same = before == after and (type(before) is type(after) or isinstance(before, dict))
    if same and dumps(before) == dumps(after) and not holds_empties(after):
        return
    shape, other = shape_of(schema, before), shape_of(schema, after)
    _compare_as(shape, before, after, schema, element, into)
    if other is not shape:
        _compare_as(other, before, after, schema, element, into)


def _compare_as(
    shape: Shape, before: Any, after: Any, schema: Schema, element: str, into: Comparison
) -> None:
    below = Comparison()
    if shape is Shape.MAP:
        ours, theirs = _compare_map(before), _compare_map(after)
        if not is_atomic(schema) and (ours or theirs):
            _compare_fields(ours, theirs, schema, below)
            _attach(below, element, into)
            return
    elif shape is Shape.LIST:
        items, others = _compare_list(before), _compare_list(after)
        if not is_atomic_list(schema) and (items or others):
            _compare_items(items, others, schema, below)
            _attach(below, element, into)
            return
    if not _same(before, after):
        into.modified.members.add(element)


def _same(before: Any, after: Any) -> bool:
    """Booleans are no numbers: true is not 1.

    How raw fields are written counts in a list that is compared as a whole (listReflect.EqualsUsing), not
    for themselves.
    """
    if isinstance(before, RawObject):
        before = dict(before)
    if before != after:
        return False
    if isinstance(before, bool | int):
        return isinstance(before, bool) is isinstance(after, bool)
    if isinstance(before, dict):
        return all(_same(item, after[name]) for name, item in before.items())
    return not isinstance(before, list) or (all(map(_same, before, after)) and _same_empties(before, after))


def _same_empties(before: Any, after: Any) -> bool:
    """Go compares such a list with all in it as it is: there an empty list is not none."""
    if isinstance(before, list):
        return all(map(_same_empties, before, after))
    if not isinstance(before, dict):
        return True
    if empties_of(before) != empties_of(after):
        return False
    return all(_same_empties(item, after[name]) for name, item in before.items())


def _attach(below: Comparison, element: str, into: Comparison) -> None:
    into.removed.attach(element, below.removed)
    into.modified.attach(element, below.modified)
    into.added.attach(element, below.added)


def _compare_map(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _compare_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _by_element(items: list[Any], schema: Schema) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for item in items:
        found.setdefault(item_element(schema, item), []).append(item)
    return found


def _compare_items(before: list[Any], after: list[Any], schema: Schema, into: Comparison) -> None:
    """Compares items of the same key; several of one key count as one, all or nothing."""
    ours, theirs = _by_element(before, schema), _by_element(after, schema)
    item_schema = schema_of_items(schema)
    for element in ours | theirs:
        left, right = ours.get(element, []), theirs.get(element, [])
        if len(left) > 1 and len(right) > 1:
            if left != right:
                into.modified.members.add(element)
        elif len(left) > 1:
            if right:
                _mark(right[0], item_schema, element, into.added)
            into.removed.members.add(element)
        elif len(right) > 1:
            if left:
                _mark(left[0], item_schema, element, into.removed)
            into.added.members.add(element)
        elif left:
            _compare(left[0], right[0] if right else ABSENT, item_schema, element, into)
        else:
            _mark(right[0], item_schema, element, into.added)


def _mark(value: Any, schema: Schema, element: str, into: FieldSet) -> None:
    into.members.add(element)
    if not value or not isinstance(value, dict | list):
        return
    shape = shape_of(schema, value)
    below = FieldSet()
    if shape is Shape.MAP:
        if isinstance(value, dict) and not is_atomic(schema):
            for name, item in value.items():
                there = field_schema(schema, name) or ANY
                _mark(item, there, fieldpath.field(name), below)
    elif isinstance(value, list) and not is_atomic_list(schema):
        for item_element, items in _by_element(value, schema).items():
            if len(items) == 1:
                _mark(items[0], schema_of_items(schema), item_element, below)
            else:
                below.members.add(item_element)
    if below.members:
        into.children[element] = below


def merge(live: dict[str, Any], config: dict[str, Any], schema: Schema) -> dict[str, Any]:
    """The result shares parts with both; raises TypedError."""
    merged = _merge(live, config, schema, "")
    return {} if merged is ABSENT else merged


def _merge(live: Any, config: Any, schema: Schema, path: str) -> Any:
    shape = shape_of(schema, live if config is ABSENT else config)
    if shape is Shape.MAP:
        ours, theirs = _merge_map(live), _merge_map(config)
        if not is_atomic(schema) and (ours or theirs):
            return _merge_fields(ours, theirs, schema, path)
    elif shape is Shape.LIST:
        items, others = _merge_list(live), _merge_list(config)
        if not is_atomic_list(schema) and (items or others):
            return _ListMerge(items, others, schema, path).run()
    else:
        problems = [scalar_problem(schema, live), scalar_problem(schema, config)]
        if all(problems):
            raise TypedError([(path, f"lhs: {problems[0]}"), (path, f"rhs: {problems[1]}")])
    return live if config is ABSENT else config


def _merge_map(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _merge_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _merge_fields(live: dict[str, Any], config: dict[str, Any], schema: Schema, path: str) -> Any:
    merged = {}
    for name in live | config:
        there = field_schema(schema, name) or ANY
        value = _merge(live.get(name, ABSENT), config.get(name, ABSENT), there, f"{path}.{name}")
        if value is not ABSENT:
            merged[name] = value
    return merged or ABSENT


class _ListMerge:
    """Merges two lists of distinct items, keeping the order of each as far as they agree.

    Items that only the live list has stay in front of the next item that both have; where the orders of
    common items disagree, that of the configuration holds.
    """

    def __init__(self, live: list[Any], config: list[Any], schema: Schema, path: str) -> None:
        self._schema = schema_of_items(schema)
        self._path = path
        self._live = live
        self._theirs, self._their_items = self._index(config, schema, duplicates=False)
        self._ours, self._our_items = self._index(live, schema, duplicates=True)
        self._shared = deque(element for element in self._theirs if element in self._our_items)
        self._merged: set[str] = set()
        self._out: list[Any] = []

    def _index(
        self, items: list[Any], schema: Schema, *, duplicates: bool
    ) -> tuple[list[str], dict[str, Any]]:
        """Elements come in order; the item is None where several have one key. Raises TypedError."""
        elements: list[str] = []
        found: dict[str, Any] = {}
        for position, item in enumerate(items):
            try:
                element = item_element(schema, item)
            except ItemError as error:
                raise TypedError([(self._path, f"element {position}: {error}")]) from None
            if element in found and not duplicates:
                shown = fieldpath.show_element(element)
                raise TypedError([(self._path, f"duplicate entries for key {shown}")])
            found[element] = None if element in found else item
            elements.append(element)
        return elements, found

    def run(self) -> Any:
        ours, theirs = self._ours, self._theirs
        left = right = 0
        while left < len(ours) or right < len(theirs):
            if left < len(ours) and right < len(theirs):
                if ours[left] == theirs[right]:
                    self._take_theirs(theirs[right])
                    left, right = left + 1, right + 1
                    continue
                if self._must_wait(ours[left]):
                    left += 1
                    continue
            if left < len(ours):
                if ours[left] not in self._their_items:
                    self._add(ours[left], self._live[left], ABSENT)
                    left += 1
                    continue
                if ours[left] in self._merged:
                    left += 1
            if right < len(theirs):
                self._take_theirs(theirs[right])
                right += 1
        return self._out or ABSENT

    def _must_wait(self, element: str) -> bool:
        """A common item waits unless it is the next common one in the configuration's order."""
        return element in self._their_items and bool(self._shared) and self._shared[0] != element

    def _take_theirs(self, element: str) -> None:
        self._merged.add(element)
        if self._shared and self._shared[0] == element:
            self._shared.popleft()
        self._add(element, self._our_items.get(element, ABSENT), self._their_items[element])

    def _add(self, element: str, live: Any, config: Any) -> None:
        below = self._path + fieldpath.show_element(element)
        value = _merge(live, config, self._schema, below)
        if value is not ABSENT:
            self._out.append(value)
