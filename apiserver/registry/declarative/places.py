"""The places that have tags, and the tags that act only together with others: unions, lists, updates.

Sources: staging/src/k8s.io/code-generator/cmd/validation-gen/validators (union.go, list.go, update.go,
discriminator.go, zeroorone.go), 1.36; dependent fields: 1.37.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kubeskew.apimachinery.schema import Field, Kind, Schema
from kubeskew.apiserver.registry.declarative import validators
from kubeskew.apiserver.registry.declarative.checks import Function, Level, Plan, at_level
from kubeskew.apiserver.registry.declarative.values import is_set, reader, same


@dataclass(slots=True)
class Union:
    """Members are `(name, value of the discriminator, whether the struct or list has it)`."""

    members: list[tuple[str, str, validators.IsSet]] = field(default_factory=list)
    discriminator: str = ""
    level: Level | None = None


@dataclass(slots=True)
class Modes:
    """The rules of members by the value of a discriminator."""

    discriminator: str = ""
    members: dict[str, list[tuple[Any, list[Function], Level | None]]] = field(default_factory=dict)


@dataclass(slots=True)
class Place:
    """A struct, a field, an item, a key or a value that has tags, and what these gather."""

    schema: Schema
    pointer: bool = False
    name: str = ""
    parent: "Place | None" = None
    default: Any = None
    has_default: bool = False
    in_parent: validators.IsSet | None = None  # true if the parent's value has it set
    # Of a list:
    semantic: str = ""  # "", "set" or "map"
    keys: list[str] = field(default_factory=list)
    custom_unique: bool = False
    list_level: Level | None = None
    # Of a field:
    updates: set[str] = field(default_factory=set)
    update_level: Level | None = None
    # Of a struct or list:
    unions: dict[str, Union] = field(default_factory=dict)
    choices: dict[str, Union] = field(default_factory=dict)  # of which none or one is set
    modes: dict[str, Modes] = field(default_factory=dict)
    dependent: list[Function] = field(default_factory=list)

    def is_set(self) -> validators.IsSet:
        return is_set(self.schema, self.pointer)

    def match(self) -> validators.Match | None:
        """Items of a set are the same if they are equal, those of a map if their keys are."""
        items = self.schema.items
        if self.semantic == "set":
            return lambda one, other: same(one, other, items)
        if self.semantic != "map" or items is None:
            return None
        keys = [reader(name, items.fields[name]) for name in self.keys if name in items.fields]
        return lambda one, other: all(read(one) == read(other) for read in keys)


def field_place(name: str, declared: Field, parent: Place) -> Place:
    place = Place(declared.schema, declared.pointer, name, parent, declared.default, declared.has_default)
    read, given = reader(name, declared), place.is_set()
    place.in_parent = lambda struct: bool(struct) and given(read(struct))
    return place


# --- tags that gather --------------------------------------------------------------------------------------

Gather = Callable[[Place, Sequence[Any], Level | None], None]


def _list_type(place: Place, arguments: Sequence[Any], level: Level | None) -> None:
    place.list_level = level
    if arguments[0] != "atomic":
        place.semantic = arguments[0]


def _unique(place: Place, arguments: Sequence[Any], level: Level | None) -> None:
    place.list_level = level
    place.semantic = arguments[0]


def _list_map_key(place: Place, arguments: Sequence[Any], _: Level | None) -> None:
    place.keys.append(arguments[0])


def _custom_unique(place: Place, _: Sequence[Any], __: Level | None) -> None:
    place.custom_unique = True


def _update(place: Place, arguments: Sequence[Any], level: Level | None) -> None:
    place.updates.add(arguments[0])
    place.update_level = level


def _named(arguments: Sequence[Any], name: str, default: str = "") -> str:
    """A named argument of a tag that needs none."""
    return str(arguments[0].get(name, default)) if arguments else default


def _member(place: Place, unions: dict[str, Union], arguments: Sequence[Any], level: Level | None) -> None:
    if place.in_parent is None:
        return
    found = unions.setdefault(_named(arguments, "union"), Union())
    go_name = place.name[:1].upper() + place.name[1:]
    found.members.append((place.name, _named(arguments, "memberName", go_name), place.in_parent))
    found.level = level or found.level


def _union_member(place: Place, arguments: Sequence[Any], level: Level | None) -> None:
    if place.parent is not None:
        _member(place, place.parent.unions, arguments, level)


def _zero_or_one(place: Place, arguments: Sequence[Any], level: Level | None) -> None:
    if place.parent is not None:
        _member(place, place.parent.choices, arguments, level)


def _union_discriminator(place: Place, arguments: Sequence[Any], level: Level | None) -> None:
    if place.parent is not None:
        found = place.parent.unions.setdefault(_named(arguments, "union"), Union())
        found.discriminator = place.name
        found.level = level or found.level


def _discriminator(place: Place, arguments: Sequence[Any], _: Level | None) -> None:
    if place.parent is not None:
        modes = place.parent.modes.setdefault(_named(arguments, "name"), Modes())
        modes.discriminator = place.name


def _dependent(*, forbids: bool) -> Gather:
    def gather(place: Place, arguments: Sequence[Any], level: Level | None) -> None:
        parent, name = place.parent, arguments[0]
        if parent is None or place.in_parent is None or name not in parent.schema.fields:
            return
        other = field_place(name, parent.schema.fields[name], parent).in_parent
        if other is not None:
            check = validators.dependent(place.name, place.in_parent, name, other, forbids=forbids)
            parent.dependent.append(_levelled(Function(check), level))

    return gather


GATHERING: Mapping[str, Gather] = {
    "customUnique": _custom_unique,
    "dependentForbidden": _dependent(forbids=True),
    "dependentRequired": _dependent(forbids=False),
    "discriminator": _discriminator,
    "listMapKey": _list_map_key,
    "listType": _list_type,
    "unionDiscriminator": _union_discriminator,
    "unionMember": _union_member,
    "unique": _unique,
    "update": _update,
    "zeroOrOneOfMember": _zero_or_one,
}


# --- what they come to -------------------------------------------------------------------------------------


def gathered(place: Place, *, keys_may_repeat: bool) -> list[Function]:
    """In the order of the names of upstream's validators."""
    functions = [function for _, modes in sorted(place.modes.items()) for function in _modal(place, modes)]
    match = place.match()
    is_checked = not (place.custom_unique or (keys_may_repeat and place.semantic == "map"))
    if match is not None and is_checked and place.schema.kind is Kind.LIST:
        check = validators.unique(match, place.schema.items)
        functions.append(_levelled(Function(check), place.list_level))
    functions += [_one_of(union, may_be_empty=False) for _, union in sorted(place.unions.items())]
    if place.updates:
        collection = place.schema.kind in (Kind.LIST, Kind.MAP)
        known = validators.UPDATES if collection else validators.UPDATES_OF_VALUES
        constraints = [name for name in known if name in place.updates]
        pointer = place.pointer and not collection
        check = validators.update(constraints, place.is_set(), match, pointer=pointer)
        functions.append(_levelled(Function(check, stops=True), place.update_level))
    functions += [_one_of(union, may_be_empty=True) for _, union in sorted(place.choices.items())]
    return functions


def _levelled(function: Function, level: Level | None) -> Function:
    return function if level is None else at_level(function, level)


def _one_of(union: Union, *, may_be_empty: bool) -> Function:
    if union.discriminator:
        check = validators.discriminated_union(union.discriminator, union.members)
    else:
        members = [(name, has) for name, _, has in union.members]
        check = validators.union(members, may_be_empty=may_be_empty)
    return _levelled(Function(check), union.level)


def _modal(place: Place, modes: Modes) -> list[Function]:
    fields = place.schema.fields
    declared = fields.get(modes.discriminator)
    if declared is None:
        return []
    chosen = reader(modes.discriminator, declared)
    functions = []
    for name, rules in sorted(modes.members.items()):
        member = fields[name]
        level = rules[0][2] if all(rule[2] == rules[0][2] for rule in rules) else None
        by_value: dict[Any, list[Function]] = {}
        for value, given, own in rules:
            wanted = by_value.setdefault(_typed(value, declared.schema), [])
            wanted += [_levelled(function, own) for function in given]
        nothing = validators.must_not_be_set(is_set(member.schema, member.pointer))
        default = Plan([_levelled(Function(nothing), level)])
        plans = {value: Plan(given) for value, given in by_value.items()}
        read = reader(name, member)
        functions.append(
            Function(validators.discriminated(name, read, member.schema, chosen, plans, default))
        )
    return functions


def _typed(value: Any, schema: Schema) -> Any:
    """The tag's value as the discriminator's type has it."""
    if schema.kind is Kind.STRING:
        return str(value)
    if schema.kind is Kind.BOOLEAN and isinstance(value, str):
        return value == "true"
    return value
