"""`get`, `describe`, `events` and `podLogs` show objects and logs in the report, if there are any."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.conformance.bindings import bind
from kubeskew.conformance.context import CellContext
from kubeskew.conformance.operations.waits import Selection, find, label_mapping
from kubeskew.conformance.scenario import Operation

_EVENT = ("v1", "Event")
_POD = ("v1", "Pod")


async def get(ctx: CellContext, operation: Operation) -> None:
    """Show the objects of a kind, by `name` or `selector`, as YAML or in another `format`."""
    body = bind(dict(operation.body), ctx.bindings)
    ctx.show(_text(await _found(ctx, body, (body["apiVersion"], body["kind"])), body))


async def describe(ctx: CellContext, operation: Operation) -> None:
    """Show the objects of a kind, each with its events unless `showEvents: false`."""
    body = bind(dict(operation.body), ctx.bindings)
    objects = await _found(ctx, body, (body["apiVersion"], body["kind"]))
    shown = _text(objects, body)
    if body.get("showEvents", True) and objects:
        uids = {obj["metadata"]["uid"] for obj in objects}
        place = {key: body[key] for key in ("namespace",) if key in body}
        events = await _found(ctx, place, _EVENT)
        lines = [_line(event) for event in events if event["involvedObject"].get("uid") in uids]
        shown += "\nEvents:\n" + ("\n".join(lines) or "none")
    ctx.show(shown)


async def events(ctx: CellContext, operation: Operation) -> None:
    """Show the events of a namespace, a line for each, or as objects in a `format`."""
    body = bind(dict(operation.body), ctx.bindings)
    found = await _found(ctx, body, _EVENT)
    ctx.show(_text(found, body) if "format" in body else "\n".join(map(_line, found)) or "no events")


async def pod_logs(ctx: CellContext, body: Mapping[str, Any]) -> None:
    """Shows the logs of pods, by `selector` or of all in the namespace; of one `container`, or of each."""
    shown = []
    for pod in await _found(ctx, body, _POD):
        containers = [each["name"] for each in pod["spec"]["containers"]]
        for name in containers if not body.get("container") else [body["container"]]:
            shown += [f"{pod['metadata']['name']}/{name}:", await _log(ctx, pod, name, body.get("tail"))]
    ctx.show("\n".join(shown) or "no pods")


async def _log(ctx: CellContext, pod: Object, container: str, tail: int | None) -> str:
    metadata = pod["metadata"]
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/log"
    query = {"container": container, "tailLines": "" if tail is None else str(tail)}
    try:
        return f"{await ctx.client.request('GET', path, query=query, accept='*/*') or ''}".rstrip("\n")
    except StatusError as error:
        return error.message


async def _found(ctx: CellContext, body: Mapping[str, Any], kind: tuple[str, str]) -> Sequence[Object]:
    ref = await ctx.kinds.ref(*kind)
    labels = label_mapping(body.get("selector", ""))
    namespace = body.get("namespace", ctx.namespace)
    return await find(ctx, ref, Selection(*kind, namespace, body.get("name", ""), labels))


def _text(objects: Sequence[Object], body: Mapping[str, Any]) -> str:
    if not objects:
        return "nothing"
    plain = []
    for obj in objects:
        metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
        plain.append({**obj, "metadata": metadata})
    if body.get("format") == "json":
        return "\n".join(json.dumps(obj, indent=2) for obj in plain)
    return str(yaml.safe_dump_all(plain, sort_keys=False)).rstrip("\n")


def _line(event: Object) -> str:
    about = event["involvedObject"]
    when = event.get("lastTimestamp") or event.get("eventTime") or event["metadata"]["creationTimestamp"]
    what = f"{about.get('kind', '').lower()}/{about.get('name', '')}"
    return f"{when} {event.get('type', '')} {event.get('reason', '')} {what} {event.get('message', '')}"
