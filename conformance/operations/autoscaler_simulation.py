"""`simulate`: the cluster autoscaler's questions, asked of the scheduler's plugins about the cluster."""

from collections.abc import Mapping
from typing import Any

from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.versions import Version
from kubeskew.cluster.autoscaling import simulator, templates
from kubeskew.cluster.autoscaling.manifests import Manifests
from kubeskew.cluster.autoscaling.simulator import Source, placement_json, removal_json
from kubeskew.cluster.failures import ClusterError, UserError
from kubeskew.conformance.assertion_trees import mismatches
from kubeskew.conformance.bindings import bind
from kubeskew.conformance.context import CellContext, bind_outputs
from kubeskew.conformance.errors import ScenarioError, StepError
from kubeskew.conformance.evidence.log import FAULT, ComponentChange
from kubeskew.conformance.scenario import Operation
from kubeskew.scheduler.autoscaling.scale_down import UnknownNodeError
from kubeskew.scheduler.autoscaling.scale_up import MOST_NODES
from kubeskew.scheduler.autoscaling.snapshot import SimulationError

_FAILURES = (*CONNECTION_ERRORS, ClusterError, UnknownNodeError, SimulationError)


async def simulate(ctx: CellContext, operation: Operation) -> None:
    """Ask once and compare: `simulate: {scaleUp: {nodes: […], max: 3}, answer: {…}}`, or `scaleDown: NODE`.

    `nodes` are templates as in a cluster file; the answer is that of `kubeskew simulate … -o json`.
    """
    asked = {key: operation.body[key] for key in ("scaleUp", "scaleDown") if key in operation.body}
    body = bind(asked, ctx.bindings)
    try:
        found = await _answer(ctx, operation, body)
    except _FAILURES as error:
        raise StepError("an answer of the simulation", f"{type(error).__name__}: {error}") from error
    wrong = [*mismatches(operation.body.get("answer") or {}, found, ctx.bindings)]
    if wrong:
        raise StepError("the simulation to answer as the file says", "; ".join(wrong))
    bind_outputs(ctx, operation, found)


async def _answer(ctx: CellContext, operation: Operation, body: Mapping[str, Any]) -> Object:
    source = await _source(ctx)
    if "scaleDown" in body:
        return removal_json(await simulator.scale_down(source, str(body["scaleDown"])))
    question = body["scaleUp"]
    try:
        made = templates.of_entries(question.get("nodes"), f"{operation.where}.scaleUp", source.manifests)
    except UserError as error:
        raise ScenarioError(str(error)) from error
    most = int(question.get("max", MOST_NODES))
    return placement_json(await simulator.scale_up(source, made, most, lambda _: None))


async def _source(ctx: CellContext) -> Source:
    """Version and gates are those of the cell's scheduler."""
    changes = [
        entry
        for entry in await ctx.control.log()
        if isinstance(entry, ComponentChange)
        and entry.component == "scheduler"
        and not entry.what.startswith(FAULT)
    ]
    version = Version.parse(changes[-1].version)
    gates = FeatureGates.parse(version, changes[-1].gates)

    async def listed(path: str) -> Object:
        found: Object = await ctx.client.request("GET", path)
        return found

    return Source(version, gates, listed, Manifests(version, gates))
