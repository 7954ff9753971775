"""Reads and applies JSON patches (RFC 6902) and JSON merge patches (RFC 7386) as evanphx/json-patch v4 does.

These differ from the RFC, and from the Python library of that name, in many places: `replace` of an absent
key adds it, a null member counts as absent for `test`, indices may be negative, and every error has its own
words.

Objects that it reads are written with sorted keys; others stay as they are.

Source: k8s.io/apiserver/pkg/endpoints/handlers/patch.go over sigs.k8s.io/json, 1.36.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.field import child, index
from kubeskew.apimachinery.golang import decode_errors
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.apply.patching.values import PatchError, clone, load, malformed, rejected, size
from kubeskew.apiserver.decoding import decoder
from kubeskew.apiserver.decoding.decoder import duplicates
from kubeskew.apiserver.structuralschema.values import equal

_JSON = "application/json"
_OPERATION = ("op", "path", "from", "value")
MAX_OPERATIONS = 10_000
MAX_COPIED = 3 << 20  # bytes of JSON that all copies of one patch may add; upstream's JSONPatchMaxCopyBytes

_INDEX = re.compile(r"[+-]?[0-9]+")
_ESCAPE = re.compile("~([01])")
_GO_KINDS = {dict: "object", list: "array", str: "string", bool: "bool", int: "number", float: "number"}

_MISSING = "missing value"
_BAD_INDEX = "invalid index referenced"
_TEST_FAILED = "test failed"

Operation = dict[str, Any]
Step = Callable[[Any, Operation], Any]
Visit = Callable[[Object], None]


class Patch(NamedTuple):
    """`strict` has the strict errors that reading the patch gave."""

    value: Any
    strict: list[str]


def read_operations(body: bytes) -> Patch:
    """Raises 400 for what is no list of operations."""
    value = _parsed(body)
    if not isinstance(value, list | None):
        raise _no(value, "[]handlers.jsonPatchOp")
    for operation in value or []:
        _check_operation(operation)
    return Patch(
        value, [f"json patch {text}" for text in decode_errors.kept_errors(_operations(value or []))]
    )


def read_merge(body: bytes) -> Patch:
    """Raises 400 for what is no object."""
    value = _parsed(body)
    if not isinstance(value, dict | None):
        raise _no(value, "map[string]interface {}")
    return Patch(value, decode_errors.kept_errors(duplicates(value)))


def _parsed(body: bytes) -> Any:
    try:
        return decoder.parse(body, _JSON).value
    except ValueError as error:
        raise errors.bad_request(f"error decoding patch: {error}") from None


def _no(value: Any, go_type: str) -> errors.StatusError:
    why = f"json: cannot unmarshal {decode_errors.found(value)} into Go value of type {go_type}"
    return errors.bad_request(f"error decoding patch: {why}")


def _check_operation(operation: Any) -> None:
    if not isinstance(operation, dict | None):
        raise _no(operation, "handlers.jsonPatchOp")
    for name, value in (operation or {}).items():
        if name in _OPERATION[:3] and not isinstance(value, str | None):
            where = f"Go struct field jsonPatchOp.{name} of type string"
            why = f"json: cannot unmarshal {decode_errors.found(value)} into {where}"
            raise errors.bad_request(f"error decoding patch: {why}")


def _operations(operations: list[Any]) -> Iterator[str]:
    for position, operation in enumerate(operations):
        if not isinstance(operation, dict):
            continue
        for name, item, again in decode_errors.members(operation):
            at = child(index("", position), name)
            if name not in _OPERATION:
                yield f'unknown field "{at}"'
                continue
            if again:
                yield f'duplicate field "{at}"'
            if name == "value":
                yield from duplicates(item, at)


class _StepError(Exception):
    """An operation failed; the text is upstream's."""


class Visited:
    """Objects that a patch has read: Go writes them with sorted keys, others as they are."""

    def __init__(self) -> None:
        self._objects: list[Object] = []

    def add(self, value: Object) -> None:
        self._objects.append(value)

    def sort(self) -> None:
        """Sorts the keys of each, in place."""
        for value in self._objects:
            members = sorted(value.items())
            value.clear()
            value.update(members)


def apply_json_patch(
    doc: Any, patch: bytes | Any, *, whole: bool = True, visited: Visited | None = None
) -> Any:
    """Applies the operations of `patch` (bytes, or their JSON value) to `doc`; raises PatchError.

    Before v4.12.0 (not `whole`) the path of a replacement or a test could not be that of all of `doc`.
    `visited` gets the objects that the operations read.
    """
    operations = _read(patch)
    result = clone(doc)
    visit = _no_visit if visited is None else visited.add
    steps: dict[str, Step] = {
        "add": partial(_add, visit=visit),
        "remove": partial(_remove, visit=visit),
        "move": partial(_move, visit=visit),
        "copy": _Copier(visit, visited),
        "replace": partial(_replace, whole=whole, visit=visit),
        "test": partial(_test, whole=whole, visit=visit),
    }
    for operation in operations:
        kind = _member(operation, "op")
        kind = kind if isinstance(kind, str) else "unknown"
        if kind not in steps:
            raise rejected(f"Unexpected kind: {kind}")
        try:
            result = steps[kind](result, operation or {})
        except _StepError as error:
            raise rejected(str(error)) from None
        except RecursionError:  # copies of copies within themselves
            raise malformed("exceeded max depth") from None
    return result


def _no_visit(_: Object) -> None:
    """Nobody asks which objects were read."""


def sort_along(doc: Any, patch: bytes) -> None:
    """Sorts the keys of each object on the way to a patch's places: these objects are written again."""
    for operation in _read(patch):
        holder = doc
        for part in str(_member(operation, "path") or "").split("/")[1:]:
            if isinstance(holder, dict):
                members = sorted(holder.items())
                holder.clear()
                holder.update(members)
            try:
                holder = _get(holder, _unescape(part)) if isinstance(holder, dict | list) else None
            except _StepError:
                break


def _read(patch: bytes | Any) -> list[Operation | None]:
    if isinstance(patch, bytes):
        try:
            patch = load(patch)
        except ValueError as error:
            raise malformed(str(error)) from None
    if patch is None:
        return []
    if not isinstance(patch, list):
        raise malformed(_wrong_type(patch, "jsonpatch.Patch"))
    for operation in patch:
        if not isinstance(operation, dict | None):
            raise malformed(_wrong_type(operation, "jsonpatch.Operation"))
    if len(patch) > MAX_OPERATIONS:
        text = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(patch)}"
        message = f"Request entity too large: {text}"
        raise PatchError(errors.StatusError(413, "RequestEntityTooLarge", message), text)
    return patch


def _wrong_type(value: Any, go_type: str) -> str:
    return f"json: cannot unmarshal {_GO_KINDS[type(value)]} into Go value of type {go_type}"


def _member(operation: Operation | None, name: str) -> Any:
    return (operation or {}).get(name)


def _text(operation: Operation, name: str, absent: str) -> str:
    """The member must be text; raises _StepError."""
    value = operation.get(name)
    if value is None:
        raise _StepError(f"{absent}: {_MISSING}")
    if not isinstance(value, str):
        raise _StepError(_wrong_type(value, "string"))
    return value


def _path(operation: Operation, failing: str, *, explain: bool = True) -> str:
    try:
        return _text(operation, "path", "operation missing path field")
    except _StepError as error:
        raise _StepError(f"{failing} failed to decode path: {error if explain else _MISSING}") from None


def _from(operation: Operation, failing: str) -> str:
    try:
        return _text(operation, "from", "operation, missing from field")
    except _StepError as error:
        raise _StepError(f"{failing} failed to decode from: {error}") from None


# --- finding --------------------------------------------------------------------------------------------


def _find(doc: Any, path: str, visit: Visit) -> tuple[Any, str] | None:
    """The object or array that holds the last part of `path` comes with that part; None if there is none."""
    parts = path.split("/")
    if len(parts) < 2:
        return None
    holder = doc
    for part in parts[1:-1]:
        try:
            holder = _get(holder, _unescape(part))
        except _StepError:
            return None
        if isinstance(holder, dict):
            visit(holder)
        elif not isinstance(holder, list):
            return None
    return holder, _unescape(parts[-1])


def _unescape(part: str) -> str:
    return _ESCAPE.sub(lambda found: "/" if found[1] == "1" else "~", part) if "~" in part else part


def _index(key: str, length: int) -> int:
    """A negative `key` counts from the end of the array; raises _StepError."""
    position = _atoi(key)
    if position >= length or position < -length:
        raise _StepError(f"Unable to access invalid index: {position}: {_BAD_INDEX}")
    return position + length if position < 0 else position


def _atoi(key: str) -> int:
    if _INDEX.fullmatch(key) is None:
        raise _StepError(f'strconv.Atoi: parsing "{key}": invalid syntax')
    position = int(key)
    if not -(1 << 63) <= position < 1 << 63:
        raise _StepError(f'strconv.Atoi: parsing "{key}": value out of range')
    return position


def _get(holder: Any, key: str) -> Any:
    return holder.get(key) if isinstance(holder, dict) else holder[_index(key, len(holder))]


def _add_to(holder: Any, key: str, value: Any) -> None:
    if isinstance(holder, dict):
        holder[key] = value
    elif key == "-":
        holder.append(value)
    else:
        try:
            _atoi(key)
        except _StepError as error:
            raise _StepError(f"value was not a proper array index: '{key}': {error}") from None
        holder.insert(_index(key, len(holder) + 1), value)


def _remove_from(holder: Any, key: str) -> None:
    if isinstance(holder, list):
        del holder[_index(key, len(holder))]
    elif key in holder:
        del holder[key]
    else:
        raise _StepError(f"Unable to remove nonexistent key: {key}: {_MISSING}")


# --- the operations: each gives the new document --------------------------------------------------------


def _add(doc: Any, operation: Operation, *, visit: Visit) -> Any:
    path = _path(operation, "add operation", explain=False)
    found = _find(doc, path, visit)
    if found is None:
        raise _StepError(f'add operation does not apply: doc is missing path: "{path}": {_MISSING}')
    _within(f"error in add for path: '{path}'", _add_to, *found, clone(operation.get("value")))
    return doc


def _remove(doc: Any, operation: Operation, *, visit: Visit) -> Any:
    path = _path(operation, "remove operation", explain=False)
    found = _find(doc, path, visit)
    if found is None:
        raise _StepError(f'remove operation does not apply: doc is missing path: "{path}": {_MISSING}')
    _within(f"error in remove for path: '{path}'", _remove_from, *found)
    return doc


def _replace(doc: Any, operation: Operation, *, whole: bool, visit: Visit) -> Any:
    path = _path(operation, "replace operation")
    value = clone(operation.get("value"))
    if not path and whole:
        if not isinstance(value, dict | list):
            raise _StepError("replace operation value must be object or array: %!w(<nil>)")
        return value
    found = _find(doc, path, visit)
    if found is None:
        raise _StepError(f"replace operation does not apply: doc is missing path: {path}: {_MISSING}")
    holder, key = found
    try:
        holder[key if isinstance(holder, dict) else _index(key, len(holder))] = value
    except _StepError:
        text = f"replace operation does not apply: doc is missing key: {path}: {_MISSING}"
        raise _StepError(text) from None
    return doc


def _move(doc: Any, operation: Operation, *, visit: Visit) -> Any:
    source = _from(operation, "move operation")
    found = _find(doc, source, visit)
    if found is None:
        raise _StepError(f"move operation does not apply: doc is missing from path: {source}: {_MISSING}")
    failing = f"error in move for path: '{found[1]}'"
    value = _within(failing, _get, *found)
    _within(failing, _remove_from, *found)
    path = _path(operation, "move operation")
    found = _find(doc, path, visit)
    if found is None:
        raise _StepError(
            f"move operation does not apply: doc is missing destination path: {path}: {_MISSING}"
        )
    _within(f"error in move for path: '{path}'", _add_to, *found, value)
    return doc


class _Copier:
    """All `copy` operations of one patch together may add MAX_COPIED bytes."""

    def __init__(self, visit: Visit, visited: Visited | None) -> None:
        self._visit = visit
        self._visited = visited
        self._copied = 0

    def __call__(self, doc: Any, operation: Operation) -> Any:
        source = _from(operation, "copy operation")
        found = _find(doc, source, self._visit)
        if found is None:
            raise _StepError(f"copy operation does not apply: doc is missing from path: {source}: {_MISSING}")
        value = _within(f"error in copy for from: '{source}'", _get, *found)
        path = _path(operation, "copy operation", explain=False)
        found = _find(doc, path, self._visit)
        if found is None:
            raise _StepError(
                f"copy operation does not apply: doc is missing destination path: {path}: {_MISSING}"
            )
        if self._visited is not None:
            self._visited.sort()  # copies are made of what is written
        self._count(value)
        _within("error while adding value during copy", _add_to, *found, clone(value))
        return doc

    def _count(self, value: Any) -> None:
        self._copied += size(value)
        if self._copied > MAX_COPIED:
            grown = f"the accumulated size increase of copy is {self._copied}"
            raise _StepError(f"Unable to complete the copy, {grown}, exceeding the limit {MAX_COPIED}")


def _test(doc: Any, operation: Operation, *, whole: bool, visit: Visit) -> Any:
    path = _path(operation, "test operation")
    wanted = operation.get("value")
    if path or not whole:
        found = _find(doc, path, visit)
        if found is None:
            raise _StepError(f"test operation does not apply: is missing path: {path}: {_MISSING}")
        value = _within(f"error in test for path: '{path}'", _get, *found)
    else:
        value = doc
    if not equal(value, wanted):
        raise _StepError(f"testing value {path} failed: {_TEST_FAILED}")
    _visit_all(value, visit)
    return doc


def _visit_all(value: Any, visit: Visit) -> None:
    if isinstance(value, dict):
        visit(value)
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _visit_all(item, visit)


def _within(failing: str, change: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return change(*arguments)
    except _StepError as error:
        raise _StepError(f"{failing}: {error}") from None


def apply_merge_patch(doc: Any, patch: bytes | Any) -> Any:
    """Applies `patch` (bytes, or its JSON value) to `doc`; raises PatchError."""
    if isinstance(patch, bytes):
        try:
            patch = load(patch)
        except ValueError:
            raise malformed("Invalid JSON Patch") from None
    if isinstance(patch, list) or (isinstance(patch, dict) and not isinstance(doc, dict)):
        return _without_nulls(patch)
    if not isinstance(patch, dict):
        raise malformed("Invalid JSON Patch")
    return _merge(doc, patch)


def _merge(doc: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    merged = dict(doc)
    for key, value in patch.items():
        current = merged.get(key)
        if value is None:
            merged.pop(key, None)
        elif isinstance(current, dict) and isinstance(value, dict):
            merged[key] = _merge(current, value)
        elif isinstance(current, dict):
            merged[key] = value  # nulls within an array stay when it takes the place of an object
        else:
            merged[key] = _without_nulls(value)
    return dict(sorted(merged.items()))


def _without_nulls(value: Any) -> Any:
    """Null members of objects go; null elements of arrays stay."""
    if isinstance(value, dict):
        return {key: _without_nulls(value[key]) for key in sorted(value) if value[key] is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
