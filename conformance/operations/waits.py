"""Waits until the objects that a name or labels select are as wanted: a watch where the server allows one.

Only lists, reads and watches are used, as any Kubernetes API server has them: a scenario waits on somebody
else's cluster as on our own.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any

from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object, object_key
from kubeskew.conformance.bindings import bind
from kubeskew.conformance.chainsaw import seconds
from kubeskew.conformance.context import CellContext
from kubeskew.conformance.errors import ScenarioError, UnservedKindError
from kubeskew.conformance.scenario import Operation

POLL_SECONDS = 0.05
_UNWATCHED_SECONDS = 1.0  # until what cannot be watched is read again, such as metrics
EVERYWHERE = "*"  # a namespace, which stands for all
_EVENTS = frozenset({"ADDED", "MODIFIED", "DELETED"})

# Returns what keeps a wait from ending; empty if nothing.
Lacking = Callable[[list[Object]], str]


@dataclass(frozen=True, slots=True)
class Selection:
    """A selection is the object of a name, or all objects of the kind with the labels."""

    api_version: str
    kind: str
    namespace: str  # none for kinds without
    name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def label_selector(self) -> str:
        """With a name, labels are not needed: the name finds its object."""
        return "" if self.name else ",".join(f"{key}={value}" for key, value in self.labels.items())

    @property
    def field_selector(self) -> str:
        return f"metadata.name={self.name}" if self.name else ""


def label_mapping(selector: str) -> dict[str, str]:
    """Selectors have equalities only, `app=web,tier==front`. Raises ScenarioError."""
    labels = {}
    for pair in filter(None, (part.strip() for part in selector.split(","))):
        key, found, value = pair.replace("==", "=").partition("=")
        if not found or key.endswith("!") or " " in pair:
            raise ScenarioError(f"selector {selector!r}: expected equalities such as app=web")
        labels[key] = value
    return labels


async def until(ctx: CellContext, selection: Selection, lacking: Lacking, limit: float) -> str:
    """Waits until nothing is lacking; after `limit` seconds the text lists what is.

    While no API server answers, it may be starting again. A kind that is not served may be defined any
    moment. Raises StatusError for any other refusal to read, UnservedKindError for a kind that is not served
    at the end.
    """
    deadline = ctx.clock.monotonic() + limit
    while True:
        try:
            left = await _judged(ctx, selection, lacking, deadline)
        except CONNECTION_ERRORS as failure:
            left = f"no answer: {failure}"
        except UnservedKindError:
            if ctx.clock.monotonic() > deadline:
                raise
            left = "the kind is not served"
        if not left or ctx.clock.monotonic() > deadline:
            return left
        await ctx.clock.sleep(POLL_SECONDS)


async def _judged(ctx: CellContext, selection: Selection, lacking: Lacking, deadline: float) -> str:
    """Reads once; if something is lacking, follows the objects by a watch until it ends or time is over."""
    ref = await ctx.kinds.ref(selection.api_version, selection.kind)
    left = lacking(await find(ctx, ref, selection))
    if left and ctx.clock.monotonic() < deadline:
        with suppress(StatusError):  # no right to list or watch, or history that is gone: reading goes on
            left = await _followed(ctx, ref, selection, lacking, deadline, left)
    return left


async def _followed(
    ctx: CellContext, ref: Ref, selection: Selection, lacking: Lacking, deadline: float, left: str
) -> str:
    scope = (ref, _namespace(ref, selection), selection.label_selector, selection.field_selector)
    listed = await ctx.client.list(*scope)
    objects = {object_key(obj): obj for obj in listed["items"]}
    left = lacking([*objects.values()])
    version = listed["metadata"].get("resourceVersion")
    if not version:
        await ctx.clock.sleep(min(_UNWATCHED_SECONDS, deadline - ctx.clock.monotonic()))
        return left
    watch = ctx.client.watch(*scope, resource_version=version, bookmarks=False)
    async with aclosing(_until_deadline(ctx, watch, deadline)) as events:
        while left and (event := await anext(events, None)):
            kind, obj = event
            if kind == "DELETED":
                objects.pop(object_key(obj), None)
            elif kind in _EVENTS:
                objects[object_key(obj)] = obj
            left = lacking([objects[key] for key in sorted(objects)])
    return left


async def _until_deadline(
    ctx: CellContext, events: AsyncGenerator[tuple[str, Object], None], deadline: float
) -> AsyncGenerator[tuple[str, Object], None]:
    end = asyncio.ensure_future(ctx.clock.sleep(deadline - ctx.clock.monotonic()))
    coming: asyncio.Future[Any] | None = None
    try:
        while not end.done():
            coming = asyncio.ensure_future(anext(events, None))
            await asyncio.wait({coming, end}, return_when=asyncio.FIRST_COMPLETED)
            if not coming.done() or (event := coming.result()) is None:
                return
            yield event
    finally:
        waits = [wait for wait in (coming, end) if wait is not None]
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
        await events.aclose()


async def find(ctx: CellContext, ref: Ref, selection: Selection) -> list[Object]:
    """A name finds one object or none; otherwise all with the labels are listed, once."""
    namespace = _namespace(ref, selection)
    if selection.name and (namespace or not ref.namespaced):
        try:
            return [await ctx.client.get(ref, selection.name, namespace)]
        except StatusError as error:
            if error.reason != "NotFound":
                raise
            return []
    listed = await ctx.client.list(ref, namespace, selection.label_selector, selection.field_selector)
    items: list[Object] = listed["items"]
    return items


def _namespace(ref: Ref, selection: Selection) -> str:
    return selection.namespace if ref.namespaced and selection.namespace != EVERYWHERE else ""


def timeout_of(ctx: CellContext, operation: Operation, kind: str) -> float:
    """The operation's own timeout comes before that of its kind."""
    text = bind(operation.body.get("timeout"), ctx.bindings)
    return seconds(text, operation.where) if text else ctx.timeout(kind)
