"""`apply`, `create`, `update`, `patch`, `delete` and `request`: operations that write or send requests.

The objects of an operation are those of its `resource`, or of the files that it names. A scenario may expect
an answer of a write. `request` gives the whole answer: its status, its warnings and its body. On a cluster
that is not ours, the objects of a scenario are removed, the last first, as Chainsaw does.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, JSON, MERGE_PATCH
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.conformance import grammar
from kubeskew.conformance.assertion_trees import mismatches
from kubeskew.conformance.bindings import bind
from kubeskew.conformance.chainsaw import named_files, seconds
from kubeskew.conformance.context import CellContext, Made, bind_outputs
from kubeskew.conformance.errors import ScenarioError, StepError
from kubeskew.conformance.evidence.authors import last_written
from kubeskew.conformance.grammar import IGNORES_READ_ERRORS
from kubeskew.conformance.operations.waits import POLL_SECONDS, Selection, find, timeout_of, until
from kubeskew.conformance.results import OperationResult
from kubeskew.conformance.scenario import Operation

_ANSWERED = "(answered by kube-apiserver)"
_NOT_FOUND = 404
_WARNING = re.compile(r'299 - "((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


def documents(ctx: CellContext, operation: Operation) -> Iterator[Any]:
    """Expressions stay in `resource`, or in each document of the files that `file` names.

    A List stands for its items. Raises ScenarioError for a file that cannot be read.
    """
    body = operation.body
    if "resource" in body:
        yield from _items(body["resource"])
        return
    for path in named_files(operation.where, str(bind(body["file"], ctx.bindings))):
        for document in grammar.read(path):
            yield from _items(document)


def resources(ctx: CellContext, operation: Operation) -> Iterator[Object]:
    for document in documents(ctx, operation):
        yield bind(document, ctx.bindings)


def _items(document: Any) -> Iterator[Any]:
    if isinstance(document, Mapping) and (document.get("apiVersion"), document.get("kind")) == ("v1", "List"):
        yield from document.get("items") or ()
    else:
        yield document


async def write(
    ctx: CellContext, operation: Operation, obj: Object, send: Callable[[], Awaitable[Object]], what: str
) -> bool:
    """Sends the object; False if an expected refusal came. Without `expect` it must succeed.

    `expect: [{match: {kind: Pod}, check: {($error != null): true}}]` compares the answer with the checks
    whose `match` fits the object: in them `$error` is the message of a refusal, or null. Raises StepError.
    """
    error: str | None = None
    answer: Object = {}
    refusal = ""
    given = bind(operation.body.get("timeout"), ctx.bindings) if operation.kind != "delete" else None
    limit = seconds(given, operation.where) if given else None
    try:
        async with asyncio.timeout(limit):
            answer = await send()
    except TimeoutError:
        if limit is None:
            raise
        raise StepError(f"{what} to end within {limit:g} s", "no answer") from None
    except StatusError as failure:
        error = failure.message
        refusal = f"{failure.code} {failure.reason}: {error} {_ANSWERED}"
    checks = [
        entry.get("check") or {}
        for entry in operation.body.get("expect") or []
        if not list(mismatches(entry.get("match") or {}, obj, ctx.bindings))
    ]
    if not checks and error is not None:
        raise StepError(f"{what} to succeed", refusal)
    for check in checks:
        _hold(check, answer, {**ctx.bindings, "error": error}, refusal, what)
    if error is None:
        bind_outputs(ctx, operation, answer)
    return error is None


def _hold(check: Any, answer: Object, bindings: Object, refusal: str, what: str) -> None:
    differing = "; ".join(mismatches(check, answer, bindings))
    if not differing:
        return
    if not refusal and "$error" in str(check):
        raise StepError(f"{what} to be refused", f"success {_ANSWERED}")
    raise StepError(f"{what} to be answered as expected", refusal or differing)


def placed(ctx: CellContext, ref: Ref, obj: Object) -> Object:
    """An object without a namespace gets the scenario's, if its kind has one."""
    metadata = dict(obj.get("metadata") or {})
    if ref.namespaced:
        metadata.setdefault("namespace", ctx.namespace)
    return {**obj, "metadata": metadata}


async def apply(ctx: CellContext, operation: Operation) -> None:
    """Create the object, or merge it into the one that is there; Chainsaw tries until it succeeds."""
    given = bind(operation.body.get("timeout"), ctx.bindings)
    limit = seconds(given, operation.where) if given else ctx.timeout("apply")
    deadline = ctx.clock.monotonic() + (limit if ctx.is_chainsaw else 0.0)
    while True:
        try:
            await _apply(ctx, operation)
            return
        except (StepError, StatusError):
            if ctx.clock.monotonic() >= deadline:
                raise
        await ctx.clock.sleep(POLL_SECONDS)


async def _apply(ctx: CellContext, operation: Operation) -> None:
    """Creates the object, or merges it into the one that is there; with a field manager the server merges
    it."""
    manager = operation.body.get("fieldManager", "")
    for ref, obj in await _placed(ctx, operation):

        async def send(ref: Ref = ref, obj: Object = obj) -> Object:
            if manager:
                subresource = operation.body.get("subresource", "")
                return await ctx.client.apply(ref, obj, field_manager=manager, subresource=subresource)
            try:
                return await _made(ctx, ref, obj)
            except StatusError as error:
                if error.reason != "AlreadyExists":
                    raise
            return await _merge(ctx, operation, ref, obj)

        await write(ctx, operation, obj, send, f"apply of {describe(obj)}")


async def create(ctx: CellContext, operation: Operation) -> None:
    """Create the object; one that exists is a failure."""
    for ref, obj in await _placed(ctx, operation):

        async def send(ref: Ref = ref, obj: Object = obj) -> Object:
            return await _made(ctx, ref, obj)

        await write(ctx, operation, obj, send, f"create of {describe(obj)}")


async def update(ctx: CellContext, operation: Operation) -> None:
    """Put the object in the place of the one that is there, whatever version that has by now."""
    for ref, obj in await _placed(ctx, operation):

        async def send(ref: Ref = ref, obj: Object = obj) -> Object:
            metadata = obj["metadata"]
            there = await ctx.client.get(ref, metadata["name"], metadata.get("namespace", ""))
            version = there["metadata"]["resourceVersion"]
            new = {**obj, "metadata": {**metadata, "resourceVersion": version}}
            return await ctx.client.update(ref, new, field_validation=ctx.field_validation)

        await write(ctx, operation, obj, send, f"update of {describe(obj)}")


async def patch(ctx: CellContext, operation: Operation) -> None:
    """Merge the object into the one that is there, or into its `subresource`, such as status."""
    for ref, obj in await _placed(ctx, operation):

        async def send(ref: Ref = ref, obj: Object = obj) -> Object:
            return await _merge(ctx, operation, ref, obj)

        await write(ctx, operation, obj, send, f"patch of {describe(obj)}")


async def _placed(ctx: CellContext, operation: Operation) -> list[tuple[Ref, Object]]:
    found = []
    for resource in resources(ctx, operation):
        ref = await ctx.kinds.ref(resource["apiVersion"], resource["kind"])
        found.append((ref, placed(ctx, ref, resource)))
    return found


async def _merge(ctx: CellContext, operation: Operation, ref: Ref, obj: Object) -> Object:
    metadata = obj["metadata"]
    return await ctx.client.patch(
        ref,
        metadata["name"],
        metadata.get("namespace", ""),
        obj,
        MERGE_PATCH,
        subresource=operation.body.get("subresource", ""),
        field_validation=ctx.field_validation,
    )


async def _made(ctx: CellContext, ref: Ref, obj: Object) -> Object:
    made = await ctx.client.create(ref, obj, field_validation=ctx.field_validation)
    ctx.made[-1].append((ref, made["metadata"].get("namespace", ""), made["metadata"]["name"]))
    return made


async def delete(ctx: CellContext, operation: Operation) -> None:
    """Delete what `ref` names, all that its labels select, or the objects of a `file`; wait until it is gone.

    `gracePeriodSeconds: 0` forces a pod's deletion, as kubectl's --force does; `wait: false` does not wait;
    `ignoreStoreReadErrorWithClusterBreakingPotential` deletes what `ref` names though it cannot be read.
    """
    waits = operation.body.get("wait", True)
    if not isinstance(waits, bool):
        raise ScenarioError(f"{operation.where}.wait: expected true or false, found {waits!r}")
    if "ref" in operation.body:
        await _delete(ctx, operation, bind(operation.body["ref"] or {}, ctx.bindings), waits=waits)
        return
    for obj in resources(ctx, operation):
        metadata = obj.get("metadata") or {}
        named = {key: metadata[key] for key in ("name", "namespace") if metadata.get(key)}
        target = {"apiVersion": obj.get("apiVersion"), "kind": obj.get("kind"), **named}
        await _delete(ctx, operation, target, waits=waits)


async def _delete(ctx: CellContext, operation: Operation, target: Object, *, waits: bool) -> None:
    if not target.get("apiVersion") or not target.get("kind"):
        raise ScenarioError(f"{operation.where}.ref: expected apiVersion and kind")
    ref = await ctx.kinds.ref(target["apiVersion"], target["kind"])
    namespace = target.get("namespace", ctx.namespace) if ref.namespaced else ""
    if operation.body.get(IGNORES_READ_ERRORS):
        await _delete_unread(ctx, ref, namespace, str(target.get("name", "")))
        return
    selection = Selection(
        target["apiVersion"], target["kind"], namespace, target.get("name", ""), target.get("labels") or {}
    )
    doomed = [
        obj
        for obj in await find(ctx, ref, selection)
        if await _delete_expecting(ctx, operation, ref, obj, obj["metadata"]["name"], namespace)
    ]
    if not waits:
        return
    uids = {obj["metadata"]["uid"] for obj in doomed}

    remaining: list[Object] = []

    def left(found: list[Object]) -> str:
        nonlocal remaining
        remaining = [obj for obj in found if obj["metadata"]["uid"] in uids]
        return ", ".join(map(describe, remaining))

    if names := await until(ctx, selection, left, timeout_of(ctx, operation, "delete")):
        log = await ctx.control.log()
        held = ", ".join(f"{describe(obj)}{_held(obj)}{last_written(obj, log)}" for obj in remaining)
        raise StepError(f"{target['kind']} to be gone", f"still there: {held or names}")


async def _delete_expecting(
    ctx: CellContext, operation: Operation, ref: Ref, obj: Object, name: str, namespace: str
) -> bool:
    """Deletes one object; one that has gone meanwhile is no failure. Returns False if its refusal was
    expected."""
    propagation = bind(operation.body.get("deletionPropagationPolicy", "Background"), ctx.bindings)

    async def send() -> Object:
        try:
            return await ctx.client.delete(
                ref,
                name,
                namespace,
                grace_period=operation.body.get("gracePeriodSeconds"),
                propagation=propagation,
            )
        except StatusError as error:
            if error.reason != "NotFound":
                raise
            return obj

    return await write(ctx, operation, obj, send, f"delete of {describe(obj)}")


async def _delete_unread(ctx: CellContext, ref: Ref, namespace: str, name: str) -> None:
    """Deletes an object that the server cannot read, without a read before."""
    options = {"apiVersion": "v1", "kind": "DeleteOptions", IGNORES_READ_ERRORS: True}
    await ctx.client.request("DELETE", ref.path(namespace, name), body=options)
    try:
        await ctx.client.get(ref, name, namespace)
    except StatusError as error:
        if error.code == _NOT_FOUND:
            return
        raise
    raise StepError(f"{ref.kind} {name} to be gone", "still there")


def _held(obj: Object) -> str:
    finalizers = obj["metadata"].get("finalizers") or ()
    return f" held by {', '.join(finalizers)}" if finalizers else ""


def describe(obj: Mapping[str, Any]) -> str:
    """The text reads `Pod scenario/demo-1`."""
    metadata = obj.get("metadata") or {}
    name = metadata.get("name") or metadata.get("generateName", "")
    place = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{obj.get('kind', 'object')} {place}{name}"


async def request(ctx: CellContext, operation: Operation) -> None:
    """Send once and compare: `request: {path: /api/v1/nodes, accept: …, answer: {status: 200, body: {…}}}`.

    `method` is GET if it is left out; a `body` goes as `contentType`, JSON if that is left out, too. The
    answer has `status`, `warnings` (their texts) and `body`, parsed if it is JSON. An error is an answer.
    """
    asked = {key: value for key, value in operation.body.items() if key not in ("answer", "outputs")}
    body: Mapping[str, Any] = bind(asked, ctx.bindings)
    method, path = str(body.get("method", "GET")), str(body["path"])
    try:
        status, headers, content = await ctx.client.exchange(
            method,
            path,
            body=body.get("body"),
            content_type=str(body.get("contentType", JSON)),
            accept=str(body.get("accept", JSON)),
        )
    except CONNECTION_ERRORS as error:
        raise StepError(f"an answer of {method} {path}", f"{type(error).__name__}: {error}") from error
    found = _answer(status, headers, content)
    if wrong := [*mismatches(operation.body.get("answer") or {"status": 200}, found, ctx.bindings)]:
        said = found["body"].get("message", "") if isinstance(found["body"], dict) else ""
        status_text = f" ({status} {said})" if status >= 400 else ""
        raise StepError(f"{method} {path} to be answered as the file says", "; ".join(wrong) + status_text)
    bind_outputs(ctx, operation, found)


def _answer(status: int, headers: Mapping[str, str], content: bytes) -> Object:
    try:
        body: Any = orjson.loads(content)
    except orjson.JSONDecodeError:
        body = content.decode(errors="replace")
    texts = (_ESCAPED.sub(r"\1", text) for text in _WARNING.findall(headers.get("Warning") or ""))
    return {"status": status, "warnings": [*texts], "body": body}


async def remove(ctx: CellContext, made: Sequence[Made]) -> Sequence[OperationResult]:
    """Deletes the objects, the last first, and waits until each is gone; those that stay until the timeout
    `cleanup` are failures."""
    failures = []
    for ref, namespace, name in reversed(made):
        started = ctx.clock.monotonic()
        if found := await _remove(ctx, ref, namespace, name):
            took = ctx.clock.monotonic() - started
            about = f"{ref.kind} {name}"
            failures.append(
                OperationResult("delete", "delete", took, f"{about} to be gone", found, "cleanup", about)
            )
    return failures


async def _remove(ctx: CellContext, ref: Ref, namespace: str, name: str) -> str:
    """The text is the reason that the object is not gone, or empty."""
    deadline = ctx.clock.monotonic() + ctx.timeout("cleanup")
    try:
        await ctx.client.delete(ref, name, namespace, propagation="Background")
        while True:
            await ctx.client.get(ref, name, namespace)
            if ctx.clock.monotonic() > deadline:
                return "it is still there"
            await ctx.clock.sleep(POLL_SECONDS)
    except StatusError as error:
        return "" if error.reason == "NotFound" else error.message
    except CONNECTION_ERRORS as error:
        return f"no answer: {error}"
