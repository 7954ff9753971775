"""Applies strategic merge patches, in which the schema says which lists merge, and by which key.

Directives in the patch: `$patch` (replace, delete; in a list's element also for the list), `$retainKeys`,
`$setElementOrder/FIELD`, `$deleteFromPrimitiveList/FIELD`.

Source: k8s.io/apimachinery/pkg/util/strategicpatch/patch.go, 1.36 (the server's half).
"""

from collections.abc import Sequence
from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.schema import Field, Kind, Schema
from kubeskew.apiserver.apply.patching.ordering import in_order, merged_order
from kubeskew.apiserver.apply.patching.patch_fields import field_of, go_kind, list_field, strategy
from kubeskew.apiserver.apply.patching.values import (
    PatchError,
    clone,
    failed,
    identity,
    load,
    malformed,
    rejected,
    same,
    show,
    show_as_text,
    type_name,
)

Items = list[Any]

DIRECTIVE = "$patch"
RETAIN_KEYS = "$retainKeys"
DELETE_LIST = "$deleteFromPrimitiveList"
ELEMENT_ORDER = "$setElementOrder"

_ANY = Schema(Kind.ANY)


def apply_strategic(doc: Object, patch: bytes | Any, schema: Schema) -> Object:
    """Applies `patch` (bytes, or its JSON value) to `doc` of `schema`; raises PatchError."""
    return merge_strategic(doc, load_strategic(patch) if isinstance(patch, bytes) else clone(patch), schema)


def load_strategic(body: bytes) -> Any:
    """Returns the JSON value of a patch; raises PatchError."""
    try:
        return load(body)
    except ValueError as error:
        raise malformed(str(error)) from None


def merge_strategic(doc: Object, patch: Any, schema: Schema) -> Object:
    """Merges as `apply_strategic`, and takes applied parts out of `patch`, as upstream does, whose errors
    show the rest.
    """
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
    """Merges two values of one type."""
    if isinstance(patch, dict):
        field = field_of(schema, name)
        return patch if strategy(field) == "replace" else _merge_maps(original, patch, field.schema)
    if isinstance(patch, list):
        field = list_field(schema, name)
        return _merge_lists(original, patch, field, deleting=deleting)
    return patch


def _whole_map(patch: Object) -> Object:
    """Returns the map that a `$patch` directive in it results in."""
    directive = patch[DIRECTIVE]
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != DIRECTIVE}
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
    """Returns both lists after the elements with `$patch` have done their work."""
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
    """Orders items: those of the patch in its order, the rest as in the original, interleaved as they were
    there.
    """
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
    """Merges and orders the lists that `$setElementOrder` names; they are done with then."""
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
    """Checks that the elements of the patch stand in the order that the directive gives."""
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
        position += same(left, right)
    if position < len(kept):
        raise failed(
            f"The order in patch list:\n{show(patch)}\n doesn't match {ELEMENT_ORDER} list:\n{show(order)}\n"
        )


def _element_type(*lists: Items) -> type:
    """Returns the one type of all elements; lists of lists cannot be merged."""
    found: type[Any] | None = None
    for item in (item for items in lists for item in items):
        if isinstance(item, list):
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
    """Returns the first position of each merge key; lists may have tens of thousands of elements."""
    positions: dict[Any, int] = {}
    for position, item in enumerate(items):
        if key in item:
            positions.setdefault(identity(item[key]), position)
    return positions


def _keys_in(items: Items, key: str) -> set[Any]:
    """Returns the merge keys of those elements that have one."""
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
    """Returns `value` without the null members of its maps."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _without_directives(value: Any) -> Any:
    """Returns `value` without the maps in it that carry `$patch`."""
    if isinstance(value, dict):
        return {key: _without_directives(item) for key, item in value.items() if not _has_directive(item)}
    if isinstance(value, list):
        return [_without_directives(item) for item in value if not _has_directive(item)]
    return value


def _unknown_directive(directive: Any, patch: Object) -> PatchError:
    return failed(f"unknown patch type: {show_as_text(directive)} in map: {show(patch)}")


def _wrong_type(expected: Sequence[Any] | Object, actual: Any) -> PatchError:
    return failed(f"expected a {type_name(expected)}, but received a {type_name(actual)}")
