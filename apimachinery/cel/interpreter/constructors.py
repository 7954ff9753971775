"""Lists, maps and objects that an expression writes out."""

from collections.abc import Iterator
from typing import Any

from kubeskew.apimachinery.cel.costs.actual_costs import LIST, MAP, OBJECT
from kubeskew.apimachinery.cel.errors import EvaluationError
from kubeskew.apimachinery.cel.interpreter.steps import Frame, Step
from kubeskew.apimachinery.cel.values import ObjectValue, Optional, shown_key, type_name

Rows = list[tuple[Any, Any, bool]]


def list_of(steps: list[Step], optional: frozenset[int]) -> Step:
    """Returns the step that makes a list; items at `optional` places are left out if they are none."""

    def build(frame: Frame) -> list[Any]:
        try:
            items = [step(frame) for step in steps]
        finally:
            frame.cost += LIST
        frame.spend(0)
        return _present(items, optional) if optional else items

    return build


def _present(items: list[Any], optional: frozenset[int]) -> list[Any]:
    found: list[Any] = []
    for place, item in enumerate(items):
        if place not in optional:
            found.append(item)
        elif not isinstance(item, Optional):
            what = "cannot initialize optional list element from non-optional value"
            raise EvaluationError(f"{what} {shown_key(item)}")
        elif item.present:
            found.append(item.value)
    return found


def map_of(rows: Rows) -> Step:
    """Returns the step that makes a map; a row is the step of the key, that of the value, and whether the
    value is optional."""

    def build(frame: Frame) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        try:
            for key, value in _evaluated(frame, [(step(frame), *row) for step, *row in rows]):
                if not isinstance(key, bool | int | str):
                    raise EvaluationError(f"unsupported key type: {type_name(key)}")
                if key in result:
                    raise EvaluationError(f"Failed with repeated key: {key}")
                result[key] = value
        finally:
            frame.cost += MAP
        frame.spend(0)
        return result

    return build


def object_of(name: str, rows: Rows) -> Step:
    """Returns the step that makes an object; a row is the field, the step of its value, and whether that
    is optional."""

    def build(frame: Frame) -> ObjectValue:
        try:
            fields = dict(_evaluated(frame, rows))
        finally:
            frame.cost += OBJECT
        frame.spend(0)
        return ObjectValue(name, fields)

    return build


def _evaluated(frame: Frame, rows: Rows) -> Iterator[tuple[Any, Any]]:
    """Yields keys with their values; leaves out optional values that are none."""
    for key, step, optional in rows:
        value = step(frame)
        if not optional:
            yield key, value
        elif not isinstance(value, Optional):
            what = f"cannot initialize optional entry '{shown_key(key)}' from non-optional value"
            raise EvaluationError(f"{what} {shown_key(value)}")
        elif value.present:
            yield key, value.value
