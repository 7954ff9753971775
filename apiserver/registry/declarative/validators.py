"""The validators of single tags, as checks.

Source: k8s.io/apimachinery pkg/api/validate, 1.34 to 1.36; update of lists and maps, monotonic and the
dependent fields: 1.37.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kubeskew.apimachinery.field import (
    FieldError,
    RenderedValue,
    child,
    duplicate,
    forbidden,
    index,
    invalid,
    key,
    not_supported,
    required,
    too_few,
    too_long,
    too_long_characters,
    too_many,
    too_short,
)
from kubeskew.apimachinery.go_formats import quoted
from kubeskew.apimachinery.schema import Schema
from kubeskew.apiserver.registry.declarative.checks import Check, Finding, Operation, Plan, plain
from kubeskew.apiserver.registry.declarative.formats import FORMATS, Format
from kubeskew.apiserver.registry.declarative.values import Reader, same, shown

IsSet = Callable[[Any], bool]
Match = Callable[[Any, Any], bool]

IMMUTABLE = "field is immutable"
_NIL = RenderedValue("", lambda _: "null")  # also where an empty list was sent
UPDATES_OF_VALUES = ("NoSet", "NoUnset", "NoModify")  # in upstream's order
UPDATES = (*UPDATES_OF_VALUES, "NoAddItem", "NoRemoveItem")  # those of lists and maps, too


def _of_value(find: Callable[[str, Any], Iterator[FieldError]]) -> Check:
    """A nil pointer is not looked at."""
    return plain(lambda _, path, new, __: () if new is None else find(path, new))


def must_be_set(is_set: IsSet) -> Check:
    return plain(lambda _, path, new, __: () if is_set(new) else (required(path),))


def must_not_be_set(is_set: IsSet) -> Check:
    return plain(lambda _, path, new, __: (forbidden(path, ""),) if is_set(new) else ())


# --- limits ------------------------------------------------------------------------------------------------


def max_length(most: int, *, in_bytes: bool) -> Check:
    """Up to 1.35 the bytes of a text were counted."""
    if in_bytes:
        return max_bytes(most)

    def find(path: str, value: str) -> Iterator[FieldError]:
        if len(value) > most:
            yield too_long_characters(path, most)

    return _of_value(find)


def max_bytes(most: int) -> Check:
    def find(path: str, value: str) -> Iterator[FieldError]:
        if len(value.encode()) > most:
            yield too_long(path, most)

    return _of_value(find)


def min_length(least: int) -> Check:
    def find(path: str, value: str) -> Iterator[FieldError]:
        if len(value) < least:
            yield too_short(path, least)

    return _of_value(find)


def max_items(most: int) -> Check:
    def find(path: str, value: Sequence[Any]) -> Iterator[FieldError]:
        if len(value) > most:
            yield too_many(path, len(value), most)

    return _of_value(find)


def min_items(least: int) -> Check:
    def find(path: str, value: Sequence[Any]) -> Iterator[FieldError]:
        if len(value) < least:
            yield too_few(path, len(value), least)

    return _of_value(find)


def minimum(least: int) -> Check:
    def find(path: str, value: int) -> Iterator[FieldError]:
        if value < least:
            yield invalid(path, value, f"must be greater than or equal to {least}")

    return _of_value(find)


def maximum(most: int) -> Check:
    def find(path: str, value: int) -> Iterator[FieldError]:
        if value > most:
            yield invalid(path, value, f"must be less than or equal to {most}")

    return _of_value(find)


def text_format(name: str) -> Check:
    rule: Format = FORMATS[name]
    return _of_value(lambda path, value: rule(value, path))


def enum(values: Sequence[str], exclusions: Sequence[tuple[str, str, bool]] = ()) -> Check:
    """An exclusion is `(value, option, whether it excludes if the option is on)`."""

    def find(operation: Operation, path: str, new: Any, _: Any) -> Iterator[FieldError]:
        if new is None:
            return
        gone = {value for value, option, when in exclusions if when == (option in operation.options)}
        supported = sorted(value for value in values if value not in gone)
        if new not in supported:
            yield not_supported(path, new, supported)

    return plain(find)


def not_equal(disallowed: str | int | bool) -> Check:
    text = quoted(disallowed) if isinstance(disallowed, str) else str(disallowed).lower()

    def find(path: str, value: Any) -> Iterator[FieldError]:
        if value == disallowed:
            yield invalid(path, value, f"must not be equal to {text}")

    return _of_value(find)


# --- changes -----------------------------------------------------------------------------------------------


def immutable(*, is_forbidden: bool) -> Check:
    """Only called for a value that changed. The error was another one until 1.34."""

    def find(operation: Operation, path: str, _: Any, __: Any) -> Iterator[FieldError]:
        if operation.update:
            yield forbidden(path, IMMUTABLE) if is_forbidden else invalid(path, _NIL, IMMUTABLE)

    return plain(find)


def update(constraints: Sequence[str], is_set: IsSet, match: Match | None, *, pointer: bool) -> Check:
    """`match` finds an item of a list again; the items of a map are found by their keys."""
    texts = {
        "NoSet": ("field cannot be set once created", False, True),
        "NoUnset": ("field cannot be cleared once set", True, False),
        "NoModify": ("field cannot be modified once set", True, True),
    }

    def find(operation: Operation, path: str, new: Any, old: Any) -> Iterator[FieldError]:
        if not operation.update or (old is None and not pointer):
            return
        for constraint in constraints:
            if constraint in texts:
                text, before, after = texts[constraint]
                if is_set(old) == before and is_set(new) == after:
                    yield invalid(path, None, text)
            elif constraint == "NoAddItem":
                yield from (forbidden(at, "item may not be added") for at in _alone(path, new, old, match))
            else:
                for at in _alone(path, old, new, match):
                    yield forbidden(at if isinstance(old, dict) else path, "item may not be removed")

    return plain(find)


def _alone(path: str, items: Any, others: Any, match: Match | None) -> Iterator[str]:
    """Places of the items that are not among the others."""
    if isinstance(items, dict):
        yield from (key(path, name) for name in sorted(items.keys() - others.keys()))
    elif isinstance(items, list) and match is not None:
        for position, item in enumerate(items):
            if not any(match(item, other) for other in others):
                yield index(path, position)


def monotonic() -> Check:
    def find(operation: Operation, path: str, new: Any, old: Any) -> Iterator[FieldError]:
        if operation.update and new is not None and old is not None and new < old:
            yield invalid(path, new, f"may not be decreased from {old}")

    return plain(find)


# --- lists and maps ----------------------------------------------------------------------------------------


def unique(match: Match, schema: Schema | None) -> Check:
    """An item that matches an earlier one is reported whole; `schema` is that of an item."""

    def find(path: str, items: Sequence[Any]) -> Iterator[FieldError]:
        for position, item in enumerate(items):
            if any(match(earlier, item) for earlier in items[:position]):
                yield duplicate(index(path, position), shown(item, schema))

    return _of_value(find)


def each_item(match: Match | None, schema: Schema | None, plan: Plan, *, whole: bool) -> Check:
    """`match` finds the old item; `whole`: it compares all of the item."""

    def check(operation: Operation, path: str, new: Any, old: Any) -> Sequence[Finding]:
        found: list[Finding] = []
        for position, item in enumerate(new or ()):
            before = None
            if match is not None:
                before = next((other for other in old or () if match(other, item)), None)
            if operation.update and before is not None and (whole or same(item, before, schema)):
                continue
            found += plan.check(operation, index(path, position), item, before)
        return found

    return check


def each_entry(schema: Schema | None, plan: Plan) -> Check:
    def check(operation: Operation, path: str, new: Any, old: Any) -> Sequence[Finding]:
        found: list[Finding] = []
        for name in sorted(new or ()):
            before = (old or {}).get(name)
            if not (operation.update and before is not None and same(new[name], before, schema)):
                found += plan.check(operation, key(path, name), new[name], before)
        return found

    return check


def each_key(plan: Plan) -> Check:
    """Errors are at the map, not at the key."""

    def check(operation: Operation, path: str, new: Any, old: Any) -> Sequence[Finding]:
        found: list[Finding] = []
        for name in sorted(new or ()):
            if not (operation.update and name in (old or {})):
                found += plan.check(operation, path, name, None)
        return found

    return check


def item(matches: Callable[[Any], bool], schema: Schema | None, plan: Plan) -> Check:
    """Only the first item that matches is looked at."""

    def check(operation: Operation, path: str, new: Any, old: Any) -> Sequence[Finding]:
        for position, one in enumerate(new or ()):
            if matches(one):
                before = next((other for other in old or () if matches(other)), None)
                if operation.update and before is not None and same(one, before, schema):
                    return ()
                return plan.check(operation, index(path, position), one, before)
        return ()

    return check


# --- structs -----------------------------------------------------------------------------------------------


def subfield(name: str, read: Reader, schema: Schema, plan: Plan) -> Check:
    def check(operation: Operation, path: str, new: Any, old: Any) -> Sequence[Finding]:
        if new is None:
            return ()
        value, before = read(new), None if old is None else read(old)
        if operation.update and old is not None and same(value, before, schema):
            return ()
        return plan.check(operation, child(path, name), value, before)

    return check


def if_option(name: str, enabled: bool, inner: Check) -> Check:
    def check(operation: Operation, path: str, new: Any, old: Any) -> Sequence[Finding]:
        return inner(operation, path, new, old) if (name in operation.options) == enabled else ()

    return check


def dependent(trigger: str, has_trigger: IsSet, name: str, has_other: IsSet, *, forbids: bool) -> Check:
    """The other field must be set, or must not be, if the trigger is set."""

    def find(operation: Operation, path: str, new: Any, old: Any) -> Iterator[FieldError]:
        given, other = has_trigger(new), has_other(new)
        if operation.update and old is not None and (has_trigger(old), has_other(old)) == (given, other):
            return
        if given and other == forbids:
            at = child(path, name)
            if forbids:
                yield forbidden(at, f"may not be set when {trigger} is set")
            else:
                yield required(at, f"must be set when {trigger} is set")

    return plain(find)


Members = Sequence[tuple[str, IsSet]]  # names, and whether the struct or list has them


def union(members: Members, *, may_be_empty: bool) -> Check:
    """Exactly one member is set, or at most one. What was wrong may stay wrong in the same way."""
    listed = ", ".join(f"`{name}`" for name, _ in members)
    wanted = "at most" if may_be_empty else "exactly"

    def find(operation: Operation, path: str, new: Any, old: Any) -> Iterator[FieldError]:
        given = [name for name, is_set in members if is_set(new)]
        if operation.update and old and given == [name for name, is_set in members if is_set(old)]:
            return
        if len(given) > 1:
            yield invalid(path, f"{{{', '.join(given)}}}", f"must specify {wanted} one of: {listed}")
        elif not given and not may_be_empty:
            yield invalid(path, "", f"must specify one of: {listed}")

    return plain(find)


def discriminated_union(discriminator: str, members: Sequence[tuple[str, str, IsSet]]) -> Check:
    """A member is `(field, value of the discriminator, whether it is set)`."""

    def find(operation: Operation, path: str, new: Any, old: Any) -> Iterator[FieldError]:
        if not isinstance(new, dict):
            return
        value = str(new.get(discriminator) or "")
        if operation.update and old:
            unchanged = value == str(old.get(discriminator) or "")
            if unchanged and all(is_set(new) == is_set(old) for _, _, is_set in members):
                return
        for name, wanted, is_set in members:
            if is_set(new) == (value == wanted):
                continue
            text = "may only be" if is_set(new) else "must be"
            yield invalid(
                child(path, name), "", f"{text} specified when `{discriminator}` is {quoted(wanted)}"
            )

    return plain(find)


def discriminated(
    name: str, read: Reader, schema: Schema, discriminator: Reader, rules: Mapping[Any, Plan], default: Plan
) -> Check:
    """The rules of a member are chosen by the discriminator's value; without any it must not be set."""

    def check(operation: Operation, path: str, new: Any, old: Any) -> Sequence[Finding]:
        value, chosen, before = read(new), discriminator(new), None
        if old is not None:
            before = read(old)
            if operation.update and chosen == discriminator(old) and same(value, before, schema):
                return ()
        return rules.get(chosen, default).check(operation, child(path, name), value, before)

    return check
