"""`undisturbed`: whether pods live on as they did before the cluster was changed under them."""

from kubeskew.apimachinery.client.refs import NODES, PODS
from kubeskew.conformance.bindings import bind
from kubeskew.conformance.context import CellContext
from kubeskew.conformance.errors import StepError
from kubeskew.conformance.evidence.disturbances import ClusterSnapshot, PodSnapshot, disturbances, ending
from kubeskew.conformance.operations.objects import describe
from kubeskew.conformance.operations.waiting import Selection, find
from kubeskew.conformance.scenario import Operation


async def undisturbed(ctx: CellContext, operation: Operation) -> None:
    """The pods of a name or labels live on as before the first change: containers, devices, claims, node.

    One that was Pending then counts from when it began to run. conformance/evidence/aspects.py lists what has
    to stay. With `count`, so many pods are from before.
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
