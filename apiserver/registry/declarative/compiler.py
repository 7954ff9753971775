"""Makes checks of the rules of a type, as upstream's validation-gen makes code of them.

As there, a field that did not change is not looked at, and the rules of the field come before those of its
type. Tags come in the order of their names, which the catalogue keeps.

Source: staging/src/k8s.io/code-generator/cmd/validation-gen (validation.go, validators/*.go), 1.36.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubeskew.apimachinery.field import child
from kubeskew.apimachinery.schema import Field, Kind, Rule, Rules, Schema
from kubeskew.apiserver.registry.declarative import validators
from kubeskew.apiserver.registry.declarative.checks import (
    Check,
    Finding,
    Function,
    Level,
    Operation,
    Plan,
    at_level,
)
from kubeskew.apiserver.registry.declarative.places import GATHERING, Modes, Place, field_place, gathered
from kubeskew.apiserver.registry.declarative.values import Reader, go_order, reader, same, zero

_BY_TYPE = frozenset({"type", "items", "keys"})
_LEVELS = {"added": Level.ADDED, "alpha": Level.ALPHA, "beta": Level.BETA}
# The kinds of values that a tag is for, if it is not for any.
_FITTING: Mapping[str, tuple[Kind, ...]] = {
    **dict.fromkeys(("enum", "format", "maxBytes", "maxLength", "minLength"), (Kind.STRING,)),
    **dict.fromkeys(("maximum", "minimum", "monotonic"), (Kind.INTEGER,)),
    **dict.fromkeys(("customUnique", "item", "listMapKey", "listType", "unique"), (Kind.LIST,)),
    **dict.fromkeys(("maxItems", "minItems"), (Kind.LIST,)),
    "eachKey": (Kind.MAP,),
    "eachVal": (Kind.LIST, Kind.MAP),
    "subfield": (Kind.OBJECT,),
}
_OPAQUE: Rule = ["opaqueType"]
_KEY = Schema(Kind.STRING)


@dataclass(frozen=True, slots=True)
class Settings:
    """The ways of a release; `base`: the types of an imported release's base, else None."""

    lengths_in_bytes: bool = False
    immutable_is_forbidden: bool = False
    keys_may_repeat: bool = False
    base: Mapping[str, Schema] | None = None


class Compiler:
    """Structs are compiled when they are first needed."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._structs: dict[str, _Struct] = {}
        self._ruled: dict[str, bool] = {}

    # --- structs and fields --------------------------------------------------------------------------------

    def struct(self, schema: Schema) -> Check:
        """Checks a struct of that type; types may contain themselves."""
        known = self._structs.get(schema.name)
        if known is None:
            known = self._structs[schema.name] = _Struct()
            place = Place(schema)
            fields = [self._field(place, name, schema.fields[name]) for name in go_order(schema)]
            rules = self._marked(schema, "", schema.rules)
            own = [
                *self._tags(place, rules, None),
                *gathered(place, keys_may_repeat=self._settings.keys_may_repeat),
                *place.dependent,
            ]
            if self._is_added(schema):
                own = [at_level(function, Level.ADDED) for function in own]
            known.plan = Plan(own)
            known.fields = [check for check in fields if check is not None]
        return known.check

    def has_rules(self, schema: Schema) -> bool:
        """True if the struct, or one inside of it, has any."""
        known = self._ruled.get(schema.name)
        if known is None:
            self._ruled[schema.name] = known = any(
                inner.rules or any(one.rules for one in inner.fields.values()) for inner in structs_in(schema)
            )
        return known

    def _field(self, parent: Place, name: str, declared: Field) -> Check | None:
        place = field_place(name, declared, parent)
        added = self._is_added(parent.schema, name)
        tags = self._marked(parent.schema, name, [rule for rule in declared.rules if rule[0] not in _BY_TYPE])
        functions = [
            *self._tags(place, tags, None),
            *gathered(place, keys_may_repeat=self._settings.keys_may_repeat),
        ]
        after = self._by_type(place, tags, declared.rules)
        if added:
            functions = [at_level(function, Level.ADDED) for function in functions]
            after = [at_level(function, Level.ADDED) for function in after]
        if not functions and not after:
            return None
        return _field_check(name, reader(name, declared), declared.schema, _in_turn(functions, after))

    def _by_type(self, place: Place, tags: Iterable[Rule], rules: Rules) -> list[Function]:
        """Functions for the rules of the field's type, of its items and of its keys."""
        opaque = {rule[0] for rule in map(_without_level, tags) if _OPAQUE in (rule, rule[-1])}
        if "opaqueType" in opaque:
            return []
        own = {rule[0]: rule[1] for rule in rules if rule[0] in _BY_TYPE}
        schema = place.schema
        functions = []
        if "type" in own:
            functions += self._named(Place(schema, place.pointer, place.name), own["type"])
        if schema.kind is Kind.OBJECT and self.has_rules(schema):
            functions.append(Function(_unless_nil(self.struct(schema))))
        if "keys" in own and "eachKey" not in opaque:
            plan = Plan(self._of_item(_KEY, own["keys"]))
            functions.append(Function(validators.each_key(plan)))
        if schema.items is not None and "eachVal" not in opaque:
            plan = Plan(self._of_item(schema.items, own.get("items", ())))
            if plan:
                functions.append(Function(_each(place, schema.items, plan)))
        return functions

    def _of_item(self, schema: Schema, rules: Rules) -> list[Function]:
        """The rules that an item has by its type."""
        functions = [one for rule in rules for one in self._named(Place(schema), rule[1])]
        if schema.kind is Kind.OBJECT and self.has_rules(schema):
            functions.append(Function(self.struct(schema)))
        return functions

    def _named(self, place: Place, rules: Rules) -> list[Function]:
        """Functions of a named type that is no struct; the rules of its items come last."""
        tags = [rule for rule in rules if rule[0] not in _BY_TYPE]
        functions = [
            *self._tags(place, tags, None),
            *gathered(place, keys_may_repeat=self._settings.keys_may_repeat),
        ]
        return [Function(_in_turn(functions, self._by_type(place, tags, rules)))]

    # --- what an imported release adds ---------------------------------------------------------------------

    def _is_added(self, struct: Schema, name: str = "") -> bool:
        """True for a struct, or its field, that the base does not have."""
        base = self._settings.base
        if base is None:
            return False
        return struct.name not in base or (bool(name) and name not in base[struct.name].fields)

    def _marked(self, struct: Schema, name: str, rules: Rules) -> Rules:
        """Rules that the base has at no level are of the level `added`; without a name those of a struct."""
        base = self._settings.base
        if base is None or self._is_added(struct, name):
            return rules
        before = base[struct.name]
        known = [_without_level(rule) for rule in (before.fields[name].rules if name else before.rules)]
        return [rule if _without_level(rule) in known else ["added", rule] for rule in rules]

    # --- tags ----------------------------------------------------------------------------------------------

    def _tags(self, place: Place, rules: Iterable[Rule], level: Level | None) -> list[Function]:
        """The functions of single tags; others gather in the place, for `gathered`."""
        functions: list[Function] = []
        for name, *arguments in rules:
            if place.schema.kind not in _FITTING.get(name, (place.schema.kind,)):
                continue  # upstream's generator would refuse it
            if name in GATHERING:
                GATHERING[name](place, arguments, level)
            elif name in _SIMPLE:
                functions += _SIMPLE[name](place, arguments, self._settings)
            else:
                functions += self._nesting(name, place, arguments, level)
        return functions

    def _nesting(
        self, name: str, place: Place, arguments: Sequence[Any], level: Level | None
    ) -> list[Function]:
        match name:
            case "alpha" | "beta" | "added":
                own = _LEVELS[name]
                return [at_level(function, own) for function in self._tags(place, arguments, own)]
            case "eachVal" if place.schema.items is not None:
                items = place.schema.items
                inner = self._tags(Place(items, parent=place), arguments, level)
                return _wrapped(inner, lambda plan: _each(place, items, plan))
            case "eachKey":
                return _wrapped(self._tags(Place(_KEY, parent=place), arguments, level), validators.each_key)
            case "item" if place.schema.items is not None:
                return self._item(place, place.schema.items, arguments, level)
            case "subfield" if arguments[0] in place.schema.fields:
                return self._subfield(place, arguments, level)
            case "ifEnabled" | "ifDisabled":
                option, rule = arguments
                return [
                    function._replace(
                        check=validators.if_option(option, name == "ifEnabled", function.check), cohort=""
                    )
                    for function in self._tags(place, [rule], level)
                ]
            case "member" if place.parent is not None:
                given, rule = arguments
                named = given if isinstance(given, dict) else {"value": given}
                modes = place.parent.modes.setdefault(named.get("discriminator", ""), Modes())
                entry = (named.get("value"), self._tags(place, [rule], level), level)
                modes.members.setdefault(place.name, []).append(entry)
        return []

    def _item(
        self, place: Place, items: Schema, arguments: Sequence[Any], level: Level | None
    ) -> list[Function]:
        criteria, rule = arguments
        names = [*place.keys, *(name for name in criteria if name not in place.keys)]
        selector = ", ".join(f"{json.dumps(name)}: {json.dumps(criteria[name])}" for name in names)
        matches = _matcher(items, criteria)
        inner = Place(items, name=f"{place.name}[{{{selector}}}]".rpartition(".")[2], parent=place)
        inner.in_parent = lambda found: any(map(matches, found or ()))
        functions = self._tags(inner, [rule], level)
        return _wrapped(functions, lambda plan: validators.item(matches, items, plan), selector)

    def _subfield(self, place: Place, arguments: Sequence[Any], level: Level | None) -> list[Function]:
        name, rule = arguments
        declared = place.schema.fields[name]
        read = reader(name, declared)
        functions = self._tags(field_place(name, declared, place), [rule], level)
        return _wrapped(functions, lambda plan: validators.subfield(name, read, declared.schema, plan), name)


class _Struct:
    """The check of a struct: its own rules, then its fields."""

    def __init__(self) -> None:
        self.plan = Plan(())
        self.fields: list[Check] = []

    def check(self, operation: Operation, path: str, new: Any, old: Any) -> Sequence[Finding]:
        found, stopped = self.plan.run(operation, path, new, old)
        if not stopped:
            for check in self.fields:
                found += check(operation, path, new, old)
        return found


def structs_in(schema: Schema) -> list[Schema]:
    """The struct and all structs in it."""
    found: dict[str, Schema] = {}
    todo = [schema]
    while todo:
        one = todo.pop()
        if one.kind is not Kind.OBJECT:
            todo += [one.items] if one.items is not None else []
        elif one.name not in found:
            found[one.name] = one
            todo += [declared.schema for declared in one.fields.values()]
    return list(found.values())


def _field_check(name: str, read: Reader, schema: Schema, inner: Check) -> Check:
    def check(operation: Operation, path: str, struct: Any, before: Any) -> Sequence[Finding]:
        new, old = read(struct), None if before is None else read(before)
        if operation.update and before is not None and same(new, old, schema):
            return ()
        return inner(operation, child(path, name), new, old)

    return check


def _in_turn(functions: Iterable[Function], after: Iterable[Function]) -> Check:
    """A function that stops the first ones stops the others, too."""
    plan, others = Plan(functions), Plan(after)

    def check(operation: Operation, path: str, new: Any, old: Any) -> Sequence[Finding]:
        found, stopped = plan.run(operation, path, new, old)
        return found if stopped else [*found, *others.check(operation, path, new, old)]

    return check


def _unless_nil(inner: Check) -> Check:
    return lambda operation, path, new, old: () if new is None else inner(operation, path, new, old)


def _each(place: Place, items: Schema, plan: Plan) -> Check:
    if place.schema.kind is Kind.MAP:
        return validators.each_entry(items, plan)
    return validators.each_item(place.match(), items, plan, whole=place.semantic == "set")


def _wrapped(
    functions: Iterable[Function], wrap: Callable[[Plan], Check], cohort: str = ""
) -> list[Function]:
    """Each function by itself, which stops others as before."""
    return [
        function._replace(check=wrap(Plan([Function(function.check)])), cohort=cohort)
        for function in functions
    ]


def _matcher(items: Schema, criteria: Mapping[str, Any]) -> Callable[[Any], bool]:
    wanted = [
        (reader(name, items.fields[name]), value) for name, value in criteria.items() if name in items.fields
    ]
    return lambda item: all(read(item) == value for read, value in wanted)


def _without_level(rule: Rule) -> Rule:
    return rule[1] if rule[0] in _LEVELS else rule


# --- single tags -------------------------------------------------------------------------------------------

Simple = Callable[[Place, Sequence[Any], Settings], list[Function]]


def _is_required(place: Place, _: Sequence[Any], __: Settings) -> list[Function]:
    if place.schema.kind is Kind.OBJECT and not place.pointer:
        return []
    return [Function(validators.must_be_set(place.is_set()), stops=True)]


def _is_optional(place: Place, _: Sequence[Any], __: Settings) -> list[Function]:
    """A field with a default is set by the time it is checked, unless its zero value is the default."""
    check = validators.must_be_set(place.is_set())
    if not place.has_default:
        return [Function(check, stops=True, silent=True)]
    if not place.pointer and place.default == zero(place.schema):
        return []
    return [Function(check, stops=True)]


def _is_forbidden(place: Place, _: Sequence[Any], __: Settings) -> list[Function]:
    given = place.is_set()
    return [
        Function(validators.must_not_be_set(given), stops=True),
        Function(validators.must_be_set(given), stops=True, silent=True),
    ]


def _enum(_: Place, arguments: Sequence[Any], __: Settings) -> list[Function]:
    """Values are known where the tag stands with a type."""
    return [Function(validators.enum(*arguments))] if arguments else []


def _min_length(_: Place, arguments: Sequence[Any], __: Settings) -> list[Function]:
    return [Function(validators.min_length(arguments[0]))] if arguments[0] > 0 else []


def _max_length(_: Place, arguments: Sequence[Any], settings: Settings) -> list[Function]:
    return [Function(validators.max_length(arguments[0], in_bytes=settings.lengths_in_bytes))]


def _immutable(_: Place, __: Sequence[Any], settings: Settings) -> list[Function]:
    return [Function(validators.immutable(is_forbidden=settings.immutable_is_forbidden), stops=True)]


def _made(make: Callable[..., Check], *, stops: bool = False) -> Simple:
    return lambda _, arguments, __: [Function(make(*arguments), stops)]


_SIMPLE: Mapping[str, Simple] = {
    "enum": _enum,
    "forbidden": _is_forbidden,
    "format": _made(validators.text_format),
    "immutable": _immutable,
    "maxBytes": _made(validators.max_bytes),
    "maxItems": _made(validators.max_items, stops=True),
    "maxLength": _max_length,
    "maximum": _made(validators.maximum),
    "minItems": _made(validators.min_items),
    "minLength": _min_length,
    "minimum": _made(validators.minimum),
    "monotonic": _made(validators.monotonic),
    "neq": _made(validators.not_equal),
    "optional": _is_optional,
    "required": _is_required,
}
