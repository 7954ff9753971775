"""`assert`, `error`, `wait`, `undisturbed` and `prepared`: operations that look at objects, pods and claims.

`undisturbed` checks that pods live on as they did before the cluster was changed under them; `prepared`, that
claims are prepared on nodes, by which driver and with which devices.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kubeskew.apimachinery.client.refs import NODES, PODS
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS
from kubeskew.apimachinery.conditions import find_condition
from kubeskew.apimachinery.objects import Object
from kubeskew.conformance.assertion_trees import mismatches
from kubeskew.conformance.bindings import bind, evaluate
from kubeskew.conformance.chainsaw import json_path, parse_key, seconds
from kubeskew.conformance.context import CellContext, bind_outputs
from kubeskew.conformance.errors import ScenarioError, StepError
from kubeskew.conformance.evidence.aspects import claim_names
from kubeskew.conformance.evidence.authors import attributed, background, last_written
from kubeskew.conformance.evidence.components import with_version
from kubeskew.conformance.evidence.disturbances import ClusterSnapshot, PodSnapshot, disturbances, ending
from kubeskew.conformance.evidence.log import KUBELET, Logged
from kubeskew.conformance.evidence.nodes import PreparedClaim
from kubeskew.conformance.grammar import WAIT_KEYS
from kubeskew.conformance.operations.objects import describe, documents
from kubeskew.conformance.operations.waits import (
    POLL_SECONDS,
    Selection,
    find,
    label_mapping,
    timeout_of,
    until,
)
from kubeskew.conformance.scenario import Operation
from kubeskew.conformance.validation import is_of_bindings

Closest = tuple[Object, list[str]] | None  # an object, and what it lacks
_GROUP = "resource.k8s.io"
_CHOOSING = ("node", "driver", "claim", "labels", "pod")


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
    """Compares values of expressions, which do not change by waiting."""
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

    left = await until(ctx, _selection(ctx, expected), lacking, timeout_of(ctx, operation, kind))
    if left:
        kind_name = str(expected.get("kind"))
        what = f"a {kind_name} as asserted" if wanted else f"no {kind_name} of this kind"
        log = await ctx.control.log()
        if matching or closest:  # otherwise the server does not answer
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
    """Lists the objects that matched, what the closest other lacks where that is too few, and the writers as
    far as the log shows them."""
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
    """Of the objects that do not match, the closest comes with what it lacks."""
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

    if left := await until(ctx, selection, lacking, timeout_of(ctx, operation, "assert")):
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
    """The text is empty once the wait may end."""
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
        found_one = find_condition(obj, name) or {"status": "absent"}
        if found_one["status"].lower() != value.lower():
            why = ": ".join(filter(None, (found_one.get("reason"), found_one.get("message"))))
            return f"{describe(obj)}: {name} is {found_one['status']}" + (f" ({why})" if why else "")
    return ""


def _lacking_at(wanted: Mapping[str, Any], found: list[Object]) -> str:
    """Without a value, any value at the path will do."""
    path, value = json_path(wanted["path"]), wanted.get("value")
    for obj in found:
        there = None if path is None else evaluate(path, {}, obj)
        if there is None or (value is not None and _text(there) != _text(value)):
            return f"{describe(obj)}: {wanted['path']} is {'absent' if there is None else _text(there)}"
    return ""


def _text(value: Any) -> str:
    """JSON paths print lists, objects and booleans as JSON."""
    return json.dumps(value) if isinstance(value, bool | dict | list) else str(value)


async def undisturbed(ctx: CellContext, operation: Operation) -> None:
    """The pods of a name or labels live on as before the first change: containers, devices, claims, node.

    A pod that was Pending then counts from when it began to run. conformance/evidence/aspects.py lists the
    fields that must stay. With `count`, that many pods must be from before.
    """
    body = bind(dict(operation.body), ctx.bindings)
    chosen = Selection(
        *("v1", "Pod", body.get("namespace", ctx.namespace), body.get("name", "")), body.get("labels") or {}
    )
    pods = {pod["metadata"]["uid"]: pod for pod in await find(ctx, PODS, chosen)}
    known = [ctx.noted[uid] for uid in pods if uid in ctx.noted]
    seen = await _seen(ctx)
    failures = [
        (note, [ending(note, seen)])
        for uid, note in ctx.noted.items()
        if uid in ctx.present and uid not in pods and _meant(note, chosen)
    ]
    if not known and not failures:
        raise StepError("pods that ran before the change", f"none of {len(pods)} pods did")
    failures += [(note, disturbances(note, pods[note.pod["metadata"]["uid"]], seen)) for note in known]
    disturbed = [(describe(note.pod), changes) for note, changes in failures if changes]
    if disturbed:
        names = ", ".join(name for name, _ in disturbed)
        several = len(disturbed) > 1
        texts = ["; ".join(changes) for _, changes in disturbed]
        named = [f"{name}: {text}" for (name, _), text in zip(disturbed, texts, strict=True)]
        raise StepError(f"{names} undisturbed", " | ".join(named) if several else texts[0])
    expected = body.get("count")
    if expected is not None and len(known) != expected:
        raise StepError(f"{expected} pods from before the change", str(len(known)))


async def _seen(ctx: CellContext) -> ClusterSnapshot:
    nodes = {node["metadata"]["name"]: node for node in (await ctx.client.list(NODES))["items"]}
    return ClusterSnapshot(
        nodes, await ctx.control.prepared(), await ctx.control.log(), await ctx.control.node_records()
    )


def _meant(note: PodSnapshot, chosen: Selection) -> bool:
    metadata = note.pod["metadata"]
    named = chosen.name in {"", metadata["name"]} and metadata["namespace"] == chosen.namespace
    return named and chosen.labels.items() <= (metadata.get("labels") or {}).items()


async def prepared(ctx: CellContext, operation: Operation) -> None:
    """Wait until claims are prepared, or are not: `prepared: {node: n, claim: c, devices: [gpu-0]}`.

    The claims are chosen by `claim` (a name or several), `labels` or the `pod` that uses them, else all are
    meant; `node` and `driver` narrow it down. Each chosen claim must be prepared, with exactly these
    `devices` and `cdiDeviceIDs` where they are given; with `count` exactly that many are, with `absent: true`
    none. `outputs` bind the list of prepared claims, each `{node, driver, namespace, name, uid, devices}`.
    """
    body = bind({k: v for k, v in operation.body.items() if k != "outputs"}, ctx.bindings)
    if not body.keys() & set(_CHOOSING):
        raise ScenarioError(f"{operation.where}.prepared: expected one of {', '.join(_CHOOSING)}")
    count = body.get("count")
    if count is not None and (not isinstance(count, int) or isinstance(count, bool)):
        raise ScenarioError(f"{operation.where}.prepared.count: expected a number, found {count!r}")
    limit = seconds(body["timeout"], operation.where) if "timeout" in body else ctx.timeout("assert")
    deadline = ctx.clock.monotonic() + limit
    while True:
        try:
            names, unknown = await _chosen(ctx, body)
            held = [*_held(await ctx.control.prepared(), body, names, ctx.namespace)]
            lacking = unknown or _lacking(held, body, names)
        except CONNECTION_ERRORS as failure:
            lacking = f"no answer: {failure}"
        if not lacking:
            bind_outputs(ctx, operation, [_as_json(claim) for claim in held])
            return
        if ctx.clock.monotonic() > deadline:
            raise StepError(_wanted_claims(body, await ctx.control.log()), lacking)
        await ctx.clock.sleep(POLL_SECONDS)


async def _chosen(ctx: CellContext, body: Mapping[str, Any]) -> tuple[set[str] | None, str]:
    """None stands for all claims; the text is why the names are not known yet."""
    namespace = body.get("namespace", ctx.namespace)
    if "claim" in body:
        claims = body["claim"]
        return {claims} if isinstance(claims, str) else set(claims), ""
    if "pod" in body:
        pods = await find(ctx, PODS, Selection("v1", "Pod", namespace, body["pod"]))
        names = claim_names(pods[0]) if pods else set()
        return names, "" if names else f"no {'claim of ' if pods else ''}pod {body['pod']}"
    if "labels" in body:
        group = await ctx.client.request("GET", f"/apis/{_GROUP}")
        version = group["preferredVersion"]["groupVersion"]
        ref = await ctx.kinds.ref(version, "ResourceClaim")
        claims = await find(ctx, ref, Selection(version, "ResourceClaim", namespace, "", body["labels"]))
        labels = ",".join(f"{key}={value}" for key, value in body["labels"].items())
        return {claim["metadata"]["name"] for claim in claims}, "" if claims else f"no claim with {labels}"
    return None, ""


def _held(
    prepared: Mapping[str, Sequence[PreparedClaim]],
    body: Mapping[str, Any],
    names: set[str] | None,
    namespace: str,
) -> Iterator[PreparedClaim]:
    for node in sorted(prepared):
        for claim in prepared[node]:
            placed = body.get("node", node) == node and body.get("driver", claim.driver) == claim.driver
            named = names is None or (
                claim.name in names and claim.namespace == body.get("namespace", namespace)
            )
            if placed and named:
                yield claim


def _lacking(held: Sequence[PreparedClaim], body: Mapping[str, Any], names: set[str] | None) -> str:
    """The text is empty if nothing differs."""
    shown = ", ".join(map(str, held)) or "none"
    if body.get("absent"):
        return shown if held else ""
    if "count" in body:
        if len({claim.uid for claim in held}) != body["count"]:
            return shown
    elif not held:
        return shown
    elif missing := sorted((names or set()) - {claim.name for claim in held}):
        return f"{shown}; not {', '.join(missing)}"
    for kind, of in (("devices", "device_names"), ("cdiDeviceIDs", "cdi_ids")):
        together = sorted({name for claim in held for name in getattr(claim, of)})
        if kind in body and sorted(body[kind]) != together:
            return f"{kind} {', '.join(together) or 'none'}"
    return ""


def _wanted_claims(body: Mapping[str, Any], log: Sequence[Logged]) -> str:
    chosen = [f"{key} {_listed(body[key])}" for key in _CHOOSING if key in body and key != "node"]
    if "count" in body:
        text = f"{body['count']} claims prepared"
    else:
        text = "no claim prepared" if body.get("absent") else "claims prepared"
    if "node" in body:
        text += f" by {with_version(log, KUBELET + body['node'])}"
    details = [f"{key} {_listed(body[key])}" for key in ("devices", "cdiDeviceIDs") if key in body]
    return text + (f" ({', '.join(chosen)})" if chosen else "") + "".join(f" with {each}" for each in details)


def _listed(value: Any) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{key}={item}" for key, item in value.items())
    return value if isinstance(value, str) else ", ".join(map(str, value))


def _as_json(claim: PreparedClaim) -> dict[str, Any]:
    names = ("node", "driver", "namespace", "name", "uid", "devices")
    return {name: getattr(claim, name) for name in names}
