"""`apply`, `create`, `patch`, `delete`: operations that write objects."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from apimachinery.client.refs import Ref
from apimachinery.client.rest import MERGE_PATCH
from apimachinery.errors import StatusError
from conformance.bindings import bind
from conformance.context import CellContext, Object
from conformance.durations import seconds
from conformance.errors import ScenarioError, StepError
from conformance.scenario import Operation

POLL_SECONDS = 0.05


def resources(ctx: CellContext, operation: Operation) -> Iterator[Object]:
    """The objects of `resource` or `file`, with the cell's values in them."""
    body = operation.body
    if "resource" in body:
        yield bind(body["resource"], ctx.bindings)
    elif "file" in body:
        path = Path(operation.where.partition(":")[0]).parent / body["file"]
        for document in yaml.safe_load_all(path.read_text()):
            if document is not None:
                yield bind(document, ctx.bindings)
    else:
        raise ScenarioError(f"{operation.where}: expected `resource` or `file`")


def placed(ctx: CellContext, ref: Ref, obj: Object) -> Object:
    """The object in the scenario's namespace, unless it says another or has none."""
    metadata = dict(obj.get("metadata") or {})
    if ref.namespaced:
        metadata.setdefault("namespace", ctx.namespace)
    return {**obj, "metadata": metadata}


async def apply(ctx: CellContext, operation: Operation) -> None:
    """Create the object, or merge it into the one that is there."""
    for resource in resources(ctx, operation):
        ref = await ctx.kinds.ref(resource["apiVersion"], resource["kind"])
        obj = placed(ctx, ref, resource)
        metadata = obj["metadata"]

        async def write(ref: Ref = ref, obj: Object = obj, metadata: Object = metadata) -> Object:
            try:
                return await ctx.client.create(ref, obj)
            except StatusError as error:
                if error.reason != "AlreadyExists":
                    raise
            namespace = metadata.get("namespace", "")
            return await ctx.client.patch(ref, metadata["name"], namespace, obj, MERGE_PATCH)

        await _expecting(ctx, operation, write, f"apply of {describe(obj)}")


async def create(ctx: CellContext, operation: Operation) -> None:
    """Create the object; one that exists is a failure."""
    for resource in resources(ctx, operation):
        ref = await ctx.kinds.ref(resource["apiVersion"], resource["kind"])
        obj = placed(ctx, ref, resource)

        async def write(ref: Ref = ref, obj: Object = obj) -> Object:
            return await ctx.client.create(ref, obj)

        await _expecting(ctx, operation, write, f"create of {describe(obj)}")


async def patch(ctx: CellContext, operation: Operation) -> None:
    """Merge the object into the one that is there."""
    for resource in resources(ctx, operation):
        ref = await ctx.kinds.ref(resource["apiVersion"], resource["kind"])
        obj = placed(ctx, ref, resource)
        metadata = obj["metadata"]

        async def write(ref: Ref = ref, obj: Object = obj, metadata: Object = metadata) -> Object:
            namespace = metadata.get("namespace", "")
            return await ctx.client.patch(ref, metadata["name"], namespace, obj, MERGE_PATCH)

        await _expecting(ctx, operation, write, f"patch of {describe(obj)}")


async def _expecting(ctx: CellContext, operation: Operation, write: Any, what: str) -> None:
    """Run one write; `expect: [{check: {($error != null): true}}]` turns a refusal into what is wanted."""
    wants_error = any("$error" in str(entry.get("check")) for entry in operation.body.get("expect") or [])
    try:
        written = await write()
    except StatusError as error:
        if wants_error:
            return
        raise StepError(f"{what} to succeed", f"{error.code} {error.reason}: {error.message}") from error
    if wants_error:
        raise StepError(f"{what} to be refused", "success")
    bind_outputs(ctx, operation, written)


def bind_outputs(ctx: CellContext, operation: Operation, found: Any) -> None:
    """Bind `outputs: [{name, value: (expression of what was found)}]` for later steps."""
    from conformance.bindings import evaluate, expression

    for output in operation.body.get("outputs") or []:
        text = expression(output["value"])
        ctx.bindings[output["name"]] = evaluate(text, ctx.bindings, found) if text else output["value"]


async def delete(ctx: CellContext, operation: Operation) -> None:
    """Delete what `ref` names, or all that its labels select, and wait until it is gone."""
    target = bind(operation.body.get("ref") or {}, ctx.bindings)
    if "apiVersion" not in target or "kind" not in target:
        raise ScenarioError(f"{operation.where}.ref: expected apiVersion and kind")
    ref = await ctx.kinds.ref(target["apiVersion"], target["kind"])
    namespace = target.get("namespace", ctx.namespace) if ref.namespaced else ""
    found = await find(ctx, ref, target.get("name", ""), namespace, target.get("labels") or {})
    for obj in found:
        try:
            await ctx.client.delete(ref, obj["metadata"]["name"], namespace, propagation="Background")
        except StatusError as error:
            if error.reason != "NotFound":
                raise StepError(f"delete of {describe(obj)} to succeed", error.message) from error
    deadline = ctx.clock.monotonic() + _timeout(ctx, operation, "delete")
    uids = {obj["metadata"]["uid"] for obj in found}
    while left := [
        obj
        for obj in await find(ctx, ref, target.get("name", ""), namespace, target.get("labels") or {})
        if obj["metadata"]["uid"] in uids
    ]:
        if ctx.clock.monotonic() > deadline:
            names = ", ".join(describe(obj) for obj in left)
            raise StepError(f"{target['kind']} to be gone", f"still there: {names}")
        await ctx.clock.sleep(POLL_SECONDS)


async def find(ctx: CellContext, ref: Ref, name: str, namespace: str, labels: dict[str, str]) -> list[Object]:
    """The object of that name, or all with the labels."""
    if name:
        try:
            return [await ctx.client.get(ref, name, namespace)]
        except StatusError as error:
            if error.reason != "NotFound":
                raise
            return []
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    items: list[Object] = (await ctx.client.list(ref, namespace, selector))["items"]
    return items


def describe(obj: Object) -> str:
    """`Pod scenario/demo-1`."""
    metadata = obj.get("metadata") or {}
    name = metadata.get("name") or metadata.get("generateName", "")
    place = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{obj.get('kind', 'object')} {place}{name}"


def _timeout(ctx: CellContext, operation: Operation, kind: str) -> float:
    text = operation.body.get("timeout")
    return seconds(text, operation.where) if text else ctx.timeout(kind)
