"""Applies strategic merge patches: lists merge by the schema, and results are fitted into Go's structs.

Numbers convert as Go's do (2.0 is a whole number, what is too large wraps), and what does not fit is reported
in other words than a JSON decoder's.

Errors are those of Go's reflection, which upstream looks fields up with.

An element's place is that of its merge key, or of itself in lists of scalars.

Directives in the patch: `$patch` (replace, delete; in a list's element also for the list), `$retainKeys`,
`$setElementOrder/FIELD`, `$deleteFromPrimitiveList/FIELD`.

Sources: k8s.io/apimachinery/pkg/runtime/converter.go, 1.36;
k8s.io/apimachinery/third_party/forked/golang/json/fields.go, 1.36;
k8s.io/apimachinery/pkg/util/strategicpatch/patch.go, 1.36;
k8s.io/apimachinery/pkg/util/strategicpatch/patch.go, 1.36 (the server's half).
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from kubeskew.apimachinery.field import child, index
from kubeskew.apimachinery.golang import decode_errors
from kubeskew.apimachinery.golang.decode_errors import ShapeError
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.schema import Field, Kind, Schema
from kubeskew.apiserver.apply.patching.values import (
    PatchError,
    clone,
    failed,
    identity,
    load,
    malformed,
    rejected,
    show,
    show_as_text,
    type_name,
)
from kubeskew.apiserver.structuralschema.values import equal

_BITS: Final = {"int32": 32, "int64": 64}
_GO_KINDS: Final = {dict: "map", list: "slice", str: "string", bool: "bool", int: "int64", float: "float64"}
_OWN_READERS: Final = frozenset({"date-time", "micro-time"})
Items = list[Any]
DIRECTIVE = "$patch"
RETAIN_KEYS = "$retainKeys"
DELETE_LIST = "$deleteFromPrimitiveList"
ELEMENT_ORDER = "$setElementOrder"

_ANY = Schema(Kind.ANY)


def fitted(value: Any, schema: Schema) -> Any:
    """Numbers become those that their type holds; raises ShapeError with the converter's text."""
    if value is None:
        return None
    match schema.kind:
        case Kind.OBJECT:
            return _struct(value, schema)
        case Kind.MAP:
            return _map(value, schema)
        case Kind.LIST:
            return _list(value, schema)
        case Kind.STRING if schema.format == "byte":
            return _bytes(value)
        case Kind.STRING if schema.format not in _OWN_READERS:
            return _string(value, schema)
        case Kind.BOOLEAN:
            return _simple(value, bool, "bool")
        case Kind.INTEGER:
            return _integer(value, schema.format or "int64")
        case Kind.NUMBER:
            return _number(value)
    why = decode_errors.explain(value, schema)  # these types read JSON themselves
    if why:
        raise ShapeError(why)
    return value


def _struct(value: Any, schema: Schema) -> Any:
    if not isinstance(value, dict):
        raise ShapeError(f"cannot restore struct from: {_GO_KINDS[type(value)]}")
    made = dict(value)
    for name, field in schema.fields.items():
        if value.get(name) is not None:
            made[name] = fitted(value[name], field.schema)
    return made


def _map(value: Any, schema: Schema) -> Any:
    if not isinstance(value, dict):
        raise ShapeError(f"cannot restore map from {_GO_KINDS[type(value)]}")
    items = schema.items
    return value if items is None else {key: fitted(item, items) for key, item in value.items()}


def _list(value: Any, schema: Schema) -> Any:
    if not isinstance(value, list):
        raise ShapeError(f"cannot restore slice from {_GO_KINDS[type(value)]}")
    items = schema.items
    return value if items is None else [fitted(item, items) for item in value]


def _bytes(value: Any) -> Any:
    if not isinstance(value, str):
        raise ShapeError(f"cannot restore slice from {_GO_KINDS[type(value)]}")
    offset = decode_errors.corrupt_base64_offset(value)
    if offset is not None:
        raise ShapeError(f"error decoding from json: illegal base64 data at input byte {offset}")
    return value


def _string(value: Any, schema: Schema) -> Any:
    if type(value) is int:  # Go would make a character of it
        raise ShapeError(f"cannot convert int64 to {decode_errors.go_type(schema)}")
    return _simple(value, str, "string")


def _simple(value: Any, good: type, name: str) -> Any:
    if type(value) is not good:
        raise ShapeError(f"unrecognized type: {name}")
    return value


def _integer(value: Any, name: str) -> int:
    if type(value) is float:
        if value != int(value):
            raise ShapeError(f"cannot convert float64 to {name}")
        value = int(value)
    if type(value) is not int:
        raise ShapeError(f"unrecognized type: {name}")
    bits = _BITS[name]
    return (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


def _number(value: Any) -> Any:
    if type(value) not in {int, float}:
        raise ShapeError("unrecognized type: float64")
    return value


def unknown_fields(value: Any, schema: Schema) -> list[str]:
    """Texts have the form `unknown field "a.b"`, and are sorted. A path has no keys of maps."""
    return sorted(f'unknown field "{path}"' for path in _unknown(value, schema, ""))


def _unknown(value: Any, schema: Schema | None, path: str) -> Iterator[str]:
    if schema is None or schema.kind is Kind.ANY:
        return
    if isinstance(value, list):
        for position, item in enumerate(value):
            yield from _unknown(item, schema.items, index(path, position))
    elif isinstance(value, dict) and schema.kind is Kind.MAP:
        for item in value.values():
            yield from _unknown(item, schema.items, path)
    elif isinstance(value, dict):
        for key, item in value.items():
            field = schema.fields.get(key)
            if field is not None:
                yield from _unknown(item, field.schema, child(path, key))
            elif not schema.preserve_unknown:
                yield child(path, key)


def field_of(schema: Schema, name: str) -> Field:
    """Names match in any case, as in Go's JSON decoder; raises PatchError."""
    if schema.kind not in (Kind.OBJECT, Kind.ANY):
        kind = go_kind(schema)
        raise failed(f"merging an object in json but data type is not struct, instead is: {kind}")
    found = schema.fields.get(name)
    if found is None:
        folded = name.casefold()
        found = next((field for key, field in schema.fields.items() if key.casefold() == folded), None)
    if found is None:
        struct = schema.name.rpartition(".")[2]
        raise failed(f'unable to find api field in struct {struct} for the json field "{name}"')
    return found


def list_field(schema: Schema, name: str) -> Field:
    """Raises PatchError unless the field is a list."""
    field = field_of(schema, name)
    if field.schema.kind is not Kind.LIST:
        raise failed(f"expected slice or array type, but got: {go_kind(schema)}")
    return field


def strategy(field: Field) -> str:
    """`retainKeys` concerns clients alone; what is left is `merge`, `replace` or nothing."""
    return next((name for name in field.patch_strategy if name != "retainKeys"), "")


def go_kind(schema: Schema) -> str:
    kinds = {Kind.MAP: "map", Kind.LIST: "slice", Kind.STRING: "string", Kind.BOOLEAN: "bool"}
    return kinds.get(schema.kind, schema.format if schema.kind is Kind.INTEGER else "struct")


def in_order(items: Items, order: Items, key: str | None) -> Items:
    """Items that are to be deleted come last, the others by their place in `order`."""
    places = _places(order, key)
    kept = [item for item in items if not (key and item.get("$patch") == "delete")]
    deleted = [item for item in items if key and item.get("$patch") == "delete"]
    found = [places.get(_mark(item, key)) for item in kept]
    if None not in found:
        ranked = sorted(zip(found, range(len(kept)), strict=True))
        return [kept[position] for _, position in ranked] + deleted
    return _sorted_partly(kept, found) + deleted


def _sorted_partly(items: Items, places: list[int | None]) -> Items:
    """Sorts as upstream's insertion sort: an item without a place counts as less than its neighbour."""
    done: list[tuple[int | None, Any]] = []
    for place, item in zip(places, items, strict=True):
        at = len(done)
        while at > 0:
            before = done[at - 1][0]
            if place is not None and before is not None and place >= before:
                break
            at -= 1
        done.insert(at, (place, item))
    return [item for _, item in done]


def merged_order(left: Items, right: Items, order: Items, key: str | None) -> Items:
    """Each list keeps its own order; `left` goes first where `order` says so."""
    places = _places(order, key)
    merged: Items = []
    taken = 0
    for item in right:
        theirs = places.get(_mark(item, key))
        while taken < len(left):
            ours = places.get(_mark(left[taken], key))
            if ours is None or theirs is None or ours >= theirs:
                break
            merged.append(left[taken])
            taken += 1
        merged.append(item)
    return merged + left[taken:]


def _mark(item: Any, key: str | None) -> Any:
    return identity(item.get(key) if key else item)


def _places(order: Items, key: str | None) -> dict[Any, int]:
    places: dict[Any, int] = {}
    for position, item in enumerate(order):
        places.setdefault(_mark(item, key), position)
    return places


def apply_strategic(doc: Object, patch: bytes | Any, schema: Schema) -> Object:
    """Applies `patch` (bytes, or its JSON value) to `doc` of `schema`; raises PatchError."""
    return merge_strategic(doc, load_strategic(patch) if isinstance(patch, bytes) else clone(patch), schema)


def load_strategic(body: bytes) -> Any:
    """Raises PatchError for what is not JSON."""
    try:
        return load(body)
    except ValueError as error:
        raise malformed(str(error)) from None


def merge_strategic(doc: Object, patch: Any, schema: Schema) -> Object:
    """Takes applied parts out of `patch`, as upstream does, whose errors show the rest."""
    if patch is None:
        patch = {}
    if not isinstance(patch, dict):
        raise malformed("invalid JSON document")
    return _merge_maps(doc, patch, schema)


def _merge_maps(original: Object, patch: Object, schema: Schema) -> Object:
    if DIRECTIVE in patch:
        return _whole_map(patch)
    merged = dict(original)
    _retain_keys(merged, patch)
    _set_element_orders(merged, patch, schema)
    for key, value in patch.items():
        deleting = key.startswith(DELETE_LIST)
        name = _list_name(key, DELETE_LIST) if deleting else key
        if value is None:
            merged.pop(name, None)
        elif name in merged and type(merged[name]) is type(value):
            merged[name] = _merge_values(merged[name], value, schema, name, deleting=deleting)
        elif not deleting:
            _take(merged, name, _without_nulls(value))
    return merged


def _merge_values(original: Any, patch: Any, schema: Schema, name: str, *, deleting: bool) -> Any:
    if isinstance(patch, dict):
        field = field_of(schema, name)
        return patch if strategy(field) == "replace" else _merge_maps(original, patch, field.schema)
    if isinstance(patch, list):
        field = list_field(schema, name)
        return _merge_lists(original, patch, field, deleting=deleting)
    return patch


def _whole_map(patch: Object) -> Object:
    """The directive `replace` leaves the other members, `delete` an empty map."""
    directive = patch[DIRECTIVE]
    if directive == "replace":
        del patch[DIRECTIVE]
        return patch
    if directive == "delete":
        return {}
    raise _unknown_directive(directive, patch)


def _retain_keys(merged: Object, patch: Object) -> None:
    """Drops from `merged` what `$retainKeys` does not name; all that the patch sets must be named."""
    if RETAIN_KEYS not in patch:
        return
    names = patch.pop(RETAIN_KEYS)
    if not isinstance(names, list):
        raise malformed("invalid patch format of retainKeys")
    kept = {name for name in names if isinstance(name, str)}
    for key, value in patch.items():
        if value is not None and not key.startswith((DELETE_LIST, ELEMENT_ORDER)) and key not in kept:
            raise malformed("invalid patch format of retainKeys")
    for key in [key for key in merged if key not in kept]:
        del merged[key]


# --- lists ----------------------------------------------------------------------------------------------


def _merge_lists(original: Items, patch: Items, field: Field, *, deleting: bool = False) -> Items:
    if strategy(field) != "merge" and not deleting:
        return patch
    if not original and not patch:
        return original
    if _element_type(original, patch) is not dict:
        if deleting:
            gone = {identity(item) for item in patch}
            return [item for item in original if identity(item) not in gone]
        return _order(_distinct(original + patch), patch, original, field.patch_merge_key, maps=False)
    key = field.patch_merge_key
    if not key:
        raise failed(f"cannot merge lists without merge key for {go_kind(field.schema.items or _ANY)}")
    original, patch = _list_directives(original, patch, key)
    merged = list(original)
    positions = _positions(merged, key)
    for item in patch:
        mark = identity(_key_of(item, key))
        position = positions.setdefault(mark, len(merged))
        if position == len(merged):
            merged.append(item)
        else:
            merged[position] = _merge_maps(merged[position], item, field.schema.items or _ANY)
            if key not in merged[position]:  # a null key is no more
                del positions[mark]
    return _order(merged, patch, original, key, maps=True)


def _list_directives(original: Items, patch: Items, key: str) -> tuple[Items, Items]:
    """Applies the elements with `$patch`, and takes them out of both lists."""
    plain, gone, replace = [], set(), False
    for item in patch:
        if DIRECTIVE not in item:
            plain.append(item)
            continue
        directive = item[DIRECTIVE]
        if directive == "replace":
            replace = True
        elif directive == "merge":
            raise failed("merging lists cannot yet be specified in the patch")
        elif directive == "delete":
            gone.add(identity(_key_of(item, key)))
        else:
            raise _unknown_directive(directive, item)
    if replace:
        return plain, []
    return [item for item in original if not (key in item and identity(item[key]) in gone)], plain


def _order(merged: Items, patch: Items, original: Items, key: str, *, maps: bool) -> Items:
    """Items of the patch stand in its order, the others as in the original, interleaved as there."""
    if key:
        keys = [identity(_key_of(item, key)) for item in merged]
        wanted = _keys_in(patch, key) if keys else set()
        named = [kept_key in wanted for kept_key in keys]
    else:
        wanted = {identity(item) for item in patch}
        named = [identity(item) in wanted for item in merged]
    ours = [item for item, is_named in zip(merged, named, strict=True) if is_named]
    others = [item for item, is_named in zip(merged, named, strict=True) if not is_named]
    by = key if maps else None
    if by is not None:
        for item in (*ours, *patch, *others, *original):
            _key_of(item, by)
    return merged_order(in_order(others, original, by), in_order(ours, patch, by), original, by)


def _set_element_orders(merged: Object, patch: Object, schema: Schema) -> None:
    """Merges and orders the lists that `$setElementOrder` names, and takes them out of the patch."""
    for directive in [key for key in patch if key.startswith(ELEMENT_ORDER)]:
        order = patch.pop(directive)
        if not isinstance(order, list):
            raise _wrong_type([], order)
        name = _list_name(directive, ELEMENT_ORDER)
        original, ours = merged.get(name, []), patch.get(name, [])
        for value in (original, ours):
            if not isinstance(value, list):
                raise _wrong_type([], value)
        field = list_field(schema, name)
        key = field.patch_merge_key
        _check_order(ours, order, key)
        if name not in merged and name not in patch:
            continue
        if name not in patch:
            result = original
        elif name in merged:
            result = _merge_lists(original, ours, field)
        else:
            result = _without_directives(ours)
        maps = _element_type(original, ours) is dict
        merged[name] = _order(result, order, original, key, maps=maps)
        patch.pop(name, None)


def _check_order(patch: Items, order: Items, key: str) -> None:
    """Raises PatchError unless the patch's elements stand in the order that the directive gives."""
    if not patch or not order:
        return
    position = 0
    kept = [item for item in patch if not (key and _directive_of(item) == "delete")]
    for wanted in order:
        while position < len(kept) and _has_directive(kept[position]):
            position += 1
        if position >= len(kept):
            return
        left, right = kept[position], wanted
        if key:
            left, right = _key_of(left, key), _key_of(right, key)
        position += equal(left, right)
    if position < len(kept):
        raise failed(
            f"The order in patch list:\n{show(patch)}\n doesn't match {ELEMENT_ORDER} list:\n{show(order)}\n"
        )


def _element_type(*lists: Items) -> type:
    """Raises PatchError for elements of several types, lists of lists, and lists without elements."""
    found: type[Any] | None = None
    for item in (item for items in lists for item in items):
        if found is None and isinstance(item, list):
            raise rejected("lists of lists are not supported")
        if found is not None and type(item) is not found:
            raise failed(f"list element types are not identical: {show(list(lists))}")
        found = type(item)
    if found is None:
        raise failed("no elements in any of the given slices")
    return found


def _distinct(items: Items) -> Items:
    return list({identity(item): item for item in items}.values())


def _positions(items: Items, key: str) -> dict[Any, int]:
    """The first position of a key counts; lists may have tens of thousands of elements."""
    positions: dict[Any, int] = {}
    for position, item in enumerate(items):
        if key in item:
            positions.setdefault(identity(item[key]), position)
    return positions


def _keys_in(items: Items, key: str) -> set[Any]:
    """Elements without a key are left out; raises PatchError for one that is no map."""
    for position, item in enumerate(items):
        if not isinstance(item, dict):
            raise failed(f"value for key {position} is not a map")
    return {identity(item[key]) for item in items if key in item}


def _key_of(item: Any, key: str) -> Any:
    if not isinstance(item, dict):
        raise _wrong_type({}, item)
    if key not in item:
        raise failed(f"map: {show(item)} does not contain declared merge key: {key}")
    return item[key]


def _has_directive(item: Any) -> bool:
    return isinstance(item, dict) and DIRECTIVE in item


def _directive_of(item: Any) -> Any:
    if not isinstance(item, dict):
        raise _wrong_type({}, item)
    return item.get(DIRECTIVE)


def _list_name(directive: str, prefix: str) -> str:
    head, slash, name = directive.partition("/")
    if not slash or head != prefix:
        what = "primitive list" if prefix == DELETE_LIST else "setElementOrder list"
        raise malformed(f"invalid patch format of {what}")
    return name


# --- values that are taken as they are ------------------------------------------------------------------


def _take(merged: Object, name: str, value: Any) -> None:
    if _has_directive(value):
        merged.pop(name, None)
    else:
        merged[name] = _without_directives(value)


def _without_nulls(value: Any) -> Any:
    """Takes null members of maps out of the patch itself; null elements of lists stay."""
    if isinstance(value, dict):
        for key in [key for key, item in value.items() if item is None]:
            del value[key]
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _without_nulls(item)
    return value


def _without_directives(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_directives(item) for key, item in value.items() if not _has_directive(item)}
    if isinstance(value, list):
        return [_without_directives(item) for item in value if not _has_directive(item)]
    return value


def _unknown_directive(directive: Any, patch: Object) -> PatchError:
    return failed(f"unknown patch type: {show_as_text(directive)} in map: {show(patch)}")


def _wrong_type(expected: Sequence[Any] | Object, actual: Any) -> PatchError:
    return failed(f"expected a {type_name(expected)}, but received a {type_name(actual)}")
