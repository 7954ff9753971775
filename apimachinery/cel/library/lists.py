"""Lists, sets and optional values: Kubernetes' list library, cel-go's extensions and `cel.OptionalTypes`.

Source: k8s.io/apiserver/pkg/cel/library/lists.go; github.com/google/cel-go/ext (lists.go version 3, sets.go),
cel/library.go, all as of Kubernetes 1.36.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cmp_to_key
from itertools import pairwise
from typing import Any

from kubeskew.apimachinery.cel.errors import NO_SUCH_OVERLOAD, EvaluationError
from kubeskew.apimachinery.cel.library.standard import OPTIONAL_OPERATORS, add, contained, mismatch
from kubeskew.apimachinery.cel.overloads import Overload, overload
from kubeskew.apimachinery.cel.times import Duration, Timestamp
from kubeskew.apimachinery.cel.values import NONE, Optional, UInt, compare, same, shown_key, type_name

Values = Sequence[Any]

_SUMMABLE: Mapping[str, Any] = {"int": 0, "uint": UInt(0), "double": 0.0, "duration": Duration()}
_ORDERED = frozenset(
    {
        *("int", "uint", "double", "bool", "string", "bytes"),
        *("google.protobuf.Duration", "google.protobuf.Timestamp"),
    }
)
_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")


def _index_of(items: Values, item: Any) -> int:
    return next((i for i, other in enumerate(items) if same(other, item)), -1)


def _last_index_of(items: Values, item: Any) -> int:
    return next((i for i in range(len(items) - 1, -1, -1) if same(items[i], item)), -1)


def _extreme(name: str, sign: int) -> Callable[[Values], Any]:
    def extreme(items: Values) -> Any:
        if not items:
            raise EvaluationError(f"{name} called on empty list")
        best = items[0]
        for item in items:
            if _order(best, item) == sign:
                best = item
        return best

    return extreme


def _sum(zero: Any) -> Callable[[Values], Any]:
    def total(items: Values) -> Any:
        result = zero
        for item in items:
            result = add(result, item)
        return result

    return total


def _is_sorted(items: Values) -> bool:
    return all(_order(left, right) != 1 for left, right in pairwise(items))


def _order(left: Any, right: Any) -> int:
    """Compares two neighbours; 2 if they cannot be compared. Only types without an order raise an error."""
    if right.__class__ is EvaluationError:
        raise right
    if type_name(right) not in _ORDERED:
        raise EvaluationError(NO_SUCH_OVERLOAD)
    try:
        return compare(left, right)
    except EvaluationError:
        return 2


LISTS: tuple[Overload, ...] = (
    *(overload(f"list({kind}).isSorted() bool", _is_sorted) for kind in _COMPARABLE),
    *(overload(f"list({kind}).sum() {kind}", _sum(zero)) for kind, zero in _SUMMABLE.items()),
    *(overload(f"list({kind}).max() {kind}", _extreme("max", -1)) for kind in _COMPARABLE),
    *(overload(f"list({kind}).min() {kind}", _extreme("min", 1)) for kind in _COMPARABLE),
    overload("list(T).indexOf(T) int", _index_of),
    overload("list(T).lastIndexOf(T) int", _last_index_of),
)


def _distinct(items: Values) -> list[Any]:
    kept: list[Any] = []
    for item in items:
        if _index_of(kept, item) < 0:
            kept.append(item)
    return kept


def _flattened(items: Any) -> list[Any]:
    """Takes one level of nesting away; a flat list stays as it is."""
    if not isinstance(items, list | tuple):
        shown = "map(dyn, dyn)" if isinstance(items, Mapping) else type_name(items)
        raise EvaluationError(f"no such overload: {shown}.flatten()")
    return _flatten(items)


def _flatten(items: Values, depth: int = 1) -> list[Any]:
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    flat: list[Any] = []
    for item in items:
        flat.extend(_flatten(item, depth - 1) if isinstance(item, list | tuple) and depth > 0 else (item,))
    return flat


def _slice(items: Values, start: int, end: int) -> Values:
    prefix = f"cannot slice({start}, {end}), "
    if start < 0 or end < 0:
        raise EvaluationError(prefix + "negative indexes not supported")
    if start > end:
        raise EvaluationError(prefix + "start index must be less than or equal to end index")
    if len(items) < end:
        raise EvaluationError(prefix + f"list is length {len(items)}")
    return items[start:end]


def _by_key(one: tuple[Any, Any], other: tuple[Any, Any]) -> int:
    return compare(one[0], other[0])


def _sort(items: Any) -> list[Any]:
    if not isinstance(items, list | tuple):
        raise mismatch(items, "sort", frozenset())
    return _sort_by(items, items)


def _sort_by(items: Any, keys: Any) -> list[Any]:
    if not isinstance(items, list | tuple):
        raise mismatch(items, "@sortByAssociatedKeys", frozenset())
    if len(keys) != len(items):
        raise EvaluationError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got "
            f"{len(items)} and {len(keys)} elements respectively"
        )
    if not keys:
        return list(items)
    if not isinstance(keys[0], bool | int | float | str | bytes | Duration | Timestamp):
        raise EvaluationError("list elements must be comparable")
    if any(type_name(key) != type_name(keys[0]) for key in keys):
        raise EvaluationError("list elements must have the same type")
    pairs = sorted(zip(keys, items, strict=True), key=cmp_to_key(_by_key))
    return [item for _, item in pairs]


def _range(end: int) -> list[int]:
    return list(range(end))


EXTENDED_LISTS: tuple[Overload, ...] = (
    overload("list(T).slice(int,int) list(T)", _slice, "list_slice"),
    overload("list(list(T)).flatten() list(T)", _flattened, "list_flatten", loose=True),
    overload("list(dyn).flatten(int) list(dyn)", _flatten, "list_flatten_int"),
    *(
        overload(f"list({kind}).sort() list({kind})", _sort, f"list_{kind}_sort", loose=True)
        for kind in _COMPARABLE
    ),
    *(
        overload(
            f"list(T).@sortByAssociatedKeys(list({kind})) list(T)",
            _sort_by,
            f"list_{kind}_sortByAssociatedKeys",
            loose=True,
        )
        for kind in _COMPARABLE
    ),
    overload("lists.range(int) list(int)", _range, "lists_range"),
    overload("list(T).reverse() list(T)", lambda items: list(items[::-1]), "list_reverse"),
    overload("list(T).distinct() list(T)", _distinct, "list_distinct"),
)


def _contains_all(items: Values, others: Values) -> bool:
    return all(contained(other, items) for other in others)


def _equivalent(left: Values, right: Values) -> bool:
    return _contains_all(left, right) and _contains_all(right, left)


def _intersects(left: Values, right: Values) -> bool:
    return any(contained(item, right) for item in left)


SETS: tuple[Overload, ...] = (
    overload("sets.contains(list(T),list(T)) bool", _contains_all, "list_sets_contains_list"),
    overload("sets.equivalent(list(T),list(T)) bool", _equivalent, "list_sets_equivalent_list"),
    overload("sets.intersects(list(T),list(T)) bool", _intersects, "list_sets_intersects_list"),
)


def _map_insert(mapping: Mapping[Any, Any], key: Any, value: Any) -> dict[Any, Any]:
    if key in mapping:
        raise EvaluationError(f"insert failed: key {shown_key(key)} already exists")
    return {**mapping, key: value}


def _map_insert_all(mapping: Mapping[Any, Any], other: Mapping[Any, Any]) -> dict[Any, Any]:
    result = dict(mapping)
    for key, value in other.items():
        result = _map_insert(result, key, value)
    return result


TWO_VARIABLES: tuple[Overload, ...] = (
    overload("cel.@mapInsert(map(K,V),K,V) map(K,V)", _map_insert, "@mapInsert_map_key_value"),
    overload("cel.@mapInsert(map(K,V),map(K,V)) map(K,V)", _map_insert_all, "@mapInsert_map_map"),
)


def _value(optional: Any) -> Any:
    if not isinstance(optional, Optional):
        raise EvaluationError(NO_SUCH_OVERLOAD)
    if not optional.present:
        raise EvaluationError("optional.none() dereference")
    return optional.get()


def _some(value: Any) -> Optional:
    return Optional(value, True)


def _non_zero(value: Any) -> Optional:
    zero = value.is_zero if isinstance(value, Timestamp) else value in (None, 0, Duration())
    empty = isinstance(value, Sequence | Mapping) and not value
    return NONE if zero or empty else Optional(value, True)


def _unwrap(items: Values) -> list[Any]:
    for item in items:
        if not isinstance(item, Optional):
            raise EvaluationError(f"value {shown_key(item)} is not optional")
    return [item.get() for item in items if item.present]


def _end(place: int) -> Callable[[Values], Optional]:
    return lambda items: Optional(items[place], True) if items else NONE


OPTIONAL_LISTS: tuple[Overload, ...] = (
    overload("optional.unwrap(list(optional(V))) list(V)", _unwrap, "optional_unwrap"),
    overload("list(optional(V)).unwrapOpt() list(V)", _unwrap, "optional_unwrapOpt"),
    overload("list(V).first() optional(V)", _end(0), "list_first"),
    overload("list(V).last() optional(V)", _end(-1), "list_last"),
)

OPTIONALS: tuple[Overload, ...] = (
    *OPTIONAL_OPERATORS,
    overload("optional.of(V) optional(V)", _some, "optional_of"),
    overload("optional.ofNonZeroValue(V) optional(V)", _non_zero, "optional_ofNonZeroValue"),
    overload("optional.none() optional(V)", lambda: NONE, "optional_none"),
    overload("optional(V).value() V", _value, "optional_value"),
    overload("optional(V).hasValue() bool", lambda optional: optional.present, "optional_hasValue"),
    overload(
        "optional(V).or(optional(V)) optional(V)", lambda a, b: a if a.present else b, "optional_or_optional"
    ),
    overload("optional(V).orValue(V) V", lambda a, b: a.value if a.present else b, "optional_orValue_value"),
    *OPTIONAL_LISTS,
)
