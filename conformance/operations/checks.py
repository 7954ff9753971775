"""`assert`, `error`, `wait`: operations that look at objects."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.conformance.bindings import bind, evaluate
from kubeskew.conformance.chainsaw.expressions import parse_key
from kubeskew.conformance.chainsaw.json_paths import json_path
from kubeskew.conformance.context import CellContext
from kubeskew.conformance.durations import seconds
from kubeskew.conformance.errors import ScenarioError, StepError
from kubeskew.conformance.evidence.authors import attributed, background, last_written
from kubeskew.conformance.evidence.log import Logged
from kubeskew.conformance.grammar import WAIT_KEYS
from kubeskew.conformance.matching import mismatches
from kubeskew.conformance.operations.objects import describe
from kubeskew.conformance.operations.outputs import bind_outputs
from kubeskew.conformance.operations.sources import documents
from kubeskew.conformance.operations.waiting import Selection, label_mapping, until
from kubeskew.conformance.scenario import Operation
from kubeskew.conformance.value_checking import is_of_bindings

Closest = tuple[Object, list[str]] | None  # an object, and what it lacks


async def assert_(ctx: CellContext, operation: Operation) -> None:
    """Some object matches the expectation, within the timeout; with `count` just so many do."""
    await _until(ctx, operation, "assert", wanted=True)


async def error(ctx: CellContext, operation: Operation) -> None:
    """No object matches the expectation (any more), within the timeout."""
    await _until(ctx, operation, "error", wanted=False)


async def _until(ctx: CellContext, operation: Operation, kind: str, *, wanted: bool) -> None:
    for expected in documents(ctx, operation):
        if is_of_bindings(expected):
            _hold(ctx, operation, expected, wanted=wanted)
        elif isinstance(expected, dict) and expected.get("apiVersion") and expected.get("kind"):
            await _until_found(ctx, operation, expected, kind, wanted=wanted)
        else:
            raise ScenarioError(f"{operation.where}: expected an object with `apiVersion` and `kind`")


def _hold(ctx: CellContext, operation: Operation, expected: Object, *, wanted: bool) -> None:
    """Hold what expressions give against what they are to give: it does not change by waiting."""
    differing = "; ".join(mismatches(expected, {}, ctx.bindings))
    if bool(differing) == wanted:
        raise StepError("the values as asserted" if wanted else "other values", differing or "just these")
    bind_outputs(ctx, operation, {})


async def _until_found(
    ctx: CellContext, operation: Operation, expected: Object, kind: str, *, wanted: bool
) -> None:
    count = bind(operation.body.get("count"), ctx.bindings)
    matching: list[Object] = []
    closest: Closest = None

    def lacking(candidates: list[Object]) -> str:
        nonlocal matching, closest
        matching, closest = _matching(ctx, expected, candidates)
        if bool(matching) == wanted if count is None else len(matching) == count:
            return ""
        return _found(expected["kind"], matching, closest, [], count)

    left = await until(ctx, _selection(ctx, expected), lacking, _seconds(ctx, operation, kind))
    if left:
        kind_name = str(expected.get("kind"))
        what = f"a {kind_name} as asserted" if wanted else f"no {kind_name} of this kind"
        log = await ctx.control.log()
        if matching or closest:  # what was found, with who wrote it; else the server does not answer
            left = _found(kind_name, matching, closest, log, count)
        shown = matching or ([closest[0]] if closest else [])
        name = bind((expected.get("metadata") or {}).get("name", ""), ctx.bindings)
        named = "" if shown else name
        lacking_one = closest[0] if closest and matching and _are_too_few(matching, count) else None
        since = ctx.step.revisions[0]
        left += background(log, kind_name, ctx.namespace, named, since, shown, lacking_one)
        raise StepError(what if count is None else f"{count} {kind_name} as asserted", left)
    if matching:
        bind_outputs(ctx, operation, matching[0])


def _found(
    kind: str, matching: list[Object], closest: Closest, log: Sequence[Logged], count: int | None
) -> str:
    """Says which objects matched, what the closest of the others lacks where that is too few, and who wrote
    that as far as the log tells."""
    lacking = []
    if closest is not None:
        obj, lacks = closest
        lacking = [f"{describe(obj)}: {text}" for text in attributed(obj, lacks, log)]
    if not matching:
        return "; ".join(lacking) or f"no {kind} at all"
    names = ", ".join(describe(obj) + last_written(obj, log) for obj in matching)
    if count is None:
        return names
    found = f"{len(matching)}: {names}"
    return f"{found}; not {'; '.join(lacking)}" if lacking and _are_too_few(matching, count) else found


def _are_too_few(matching: list[Object], count: int | None) -> bool:
    return count is not None and len(matching) < count


def _selection(ctx: CellContext, expected: Object) -> Selection:
    """Returns the objects that an assertion is of, as far as its metadata says."""
    metadata = expected.get("metadata") or {}
    labels = metadata.get("labels") or {}
    plain = {key: value for key, value in labels.items() if isinstance(value, str) and _names_a_label(key)}
    bound = bind(
        [
            *(expected.get("apiVersion"), expected.get("kind"), metadata.get("namespace", "")),
            *(metadata.get("name", ""), plain),
        ],
        ctx.bindings,
    )
    return Selection(bound[0], bound[1], bound[2] or ctx.namespace, *bound[3:])


def _names_a_label(key: str) -> bool:
    parsed = parse_key(key)
    return not parsed.of_each and not parsed.bound and (not parsed.is_expression or key.startswith("($"))


def _matching(ctx: CellContext, expected: Object, candidates: list[Object]) -> tuple[list[Object], Closest]:
    """The objects that match; of the others the closest and what it lacks."""
    differing = [(list(mismatches(expected, obj, ctx.bindings)), obj) for obj in candidates]
    matching = [obj for missing, obj in differing if not missing]
    missing, closest = min(
        (pair for pair in differing if pair[0]), key=lambda pair: len(pair[0]), default=([], None)
    )
    return matching, (closest, missing) if closest is not None else None


async def wait(ctx: CellContext, operation: Operation) -> None:
    """Until a condition holds, a JSON path has a value, objects are there, or the objects are deleted."""
    body = bind(dict(operation.body), ctx.bindings)
    condition = body.get("for") or {}
    if not {*WAIT_KEYS} & condition.keys():
        raise ScenarioError(f"{operation.where}.for: expected {' or '.join(WAIT_KEYS)}")
    labels = label_mapping(body.get("selector", ""))
    namespace = body.get("namespace", ctx.namespace)
    selection = Selection(body["apiVersion"], body["kind"], namespace, body.get("name", ""), labels)

    shown: list[Object] = []

    def lacking(found: list[Object]) -> str:
        nonlocal shown
        shown = found
        return _waiting_for(condition, found, body["kind"])

    if left := await until(ctx, selection, lacking, _seconds(ctx, operation, "assert")):
        log, name = await ctx.control.log(), "" if shown else body.get("name", "")
        left += background(log, body["kind"], ctx.namespace, name, ctx.step.revisions[0], shown)
        raise StepError(_wanted(condition, body), left)


def _wanted(condition: Any, body: Object) -> str:
    what = f"{body['kind']} {body.get('name') or body.get('selector', '')}".strip()
    if "deletion" in condition:
        return f"{what} to be gone"
    if "creation" in condition:
        return f"{what} to be there"
    if "jsonPath" in condition:
        value = condition["jsonPath"].get("value")
        return f"{what} to have {condition['jsonPath']['path']}" + ("" if value is None else f" {value}")
    return f"{what} to be {condition['condition']['name']}={condition['condition'].get('value', 'true')}"


def _waiting_for(condition: Any, found: list[Object], kind: str) -> str:
    """Returns what keeps the wait from ending; empty if nothing."""
    if "deletion" in condition:
        return ", ".join(describe(obj) for obj in found)
    if not found:
        return f"no {kind}"
    if "creation" in condition:
        return ""
    if "jsonPath" in condition:
        return _lacking_at(condition["jsonPath"], found)
    name, value = condition["condition"]["name"], str(condition["condition"].get("value", "true"))
    for obj in found:
        conditions = (obj.get("status") or {}).get("conditions") or []
        found_one = next((each for each in conditions if each["type"] == name), {"status": "absent"})
        if found_one["status"].lower() != value.lower():
            why = ": ".join(filter(None, (found_one.get("reason"), found_one.get("message"))))
            return f"{describe(obj)}: {name} is {found_one['status']}" + (f" ({why})" if why else "")
    return ""


def _lacking_at(wanted: Mapping[str, Any], found: list[Object]) -> str:
    """Returns which object has not the value at a path that is wanted; without a value, any will do."""
    path, value = json_path(wanted["path"]), wanted.get("value")
    for obj in found:
        there = None if path is None else evaluate(path, {}, obj)
        if there is None or (value is not None and _text(there) != _text(value)):
            return f"{describe(obj)}: {wanted['path']} is {'absent' if there is None else _text(there)}"
    return ""


def _text(value: Any) -> str:
    """Returns a value as a JSON path prints it."""
    return json.dumps(value) if isinstance(value, bool | dict | list) else str(value)


def _seconds(ctx: CellContext, operation: Operation, kind: str) -> float:
    text = bind(operation.body.get("timeout"), ctx.bindings)
    return seconds(text, operation.where) if text else ctx.timeout(kind)
