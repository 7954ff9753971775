"""`audit` and `migrate`: what `kubeskew storage` says of the stored objects, and how it writes them anew."""

from collections.abc import Iterable, Sequence

from kubeskew.apimachinery.gates import FeatureGates, parse_overrides
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.versions import Version
from kubeskew.conformance.bindings import bind
from kubeskew.conformance.context import CellContext
from kubeskew.conformance.errors import ScenarioError, StepError
from kubeskew.conformance.evidence.log import FAULT, KUBELET, ComponentChange
from kubeskew.conformance.operations.outputs import bind_outputs
from kubeskew.conformance.scenario import Operation
from kubeskew.conformance.storage import migration
from kubeskew.conformance.storage.way import Kubelets, Move, Present, StepFinding, audit_way, steps_of


async def audit(ctx: CellContext, operation: Operation) -> None:
    """Audit and compare: `audit: {for: "1.33", resources: [resourceclaims], answer: […]}`; `to` for a way.

    The answer has a line for each finding, such as `1.33: unreadable: resourceclaims c: delete it at 1.34`,
    or `1.34: lost: nodes n in allocated_pods_state`.
    """
    body = bind(dict(operation.body), ctx.bindings)
    try:
        found = _lines(await _audited(ctx, body), body.get("resources"))
    except ValueError as error:
        raise ScenarioError(f"{operation.where}.audit: {error}") from error
    expected = [str(line) for line in body.get("answer") or ()]
    if found != expected:
        raise StepError(f"the audit to say {expected}", f"{found}")
    bind_outputs(ctx, operation, found)


async def migrate(ctx: CellContext, operation: Operation) -> None:
    """Write all objects anew as `kubeskew storage migrate` does: `migrate: {resources: [flowschemas]}`."""
    resources = bind(operation.body.get("resources") or [], ctx.bindings)
    found = await migration.migrate(ctx.client, resources, lambda _: None)
    failed = [failure for each in found for failure in each.failed]
    if failed:
        raise StepError("all objects to be written anew", "; ".join(failed))
    bind_outputs(ctx, operation, {each.resource: each.rewritten for each in found})


async def _audited(ctx: CellContext, body: Object) -> list[StepFinding]:
    changes = [
        entry
        for entry in await ctx.control.log()
        if isinstance(entry, ComponentChange) and not entry.what.startswith(FAULT)
    ]
    servers = {change.component: change for change in changes if change.component.startswith("apiserver")}
    oldest = min(servers.values(), key=lambda server: Version.parse(server.version))
    gates, served = parse_overrides(oldest.gates), ctx.control.runtime_config
    there = Present(Version.parse(oldest.version).release, gates, served, _kubelets(changes))
    target = Version.parse(str(body.get("to") or body["for"]))
    move = Move(target, by_minor="to" in body, gates=body.get("gates"))
    steps = steps_of(there, move)
    return audit_way(await ctx.control.entries(), *steps, await ctx.control.kept_nodes())


def _kubelets(changes: Iterable[ComponentChange]) -> Kubelets:
    return {
        change.component.removeprefix(KUBELET): FeatureGates.parse(
            Version.parse(change.version), change.gates
        )
        for change in changes
        if change.component.startswith(KUBELET) and change.version
    }


def _lines(found: Sequence[StepFinding], wanted: Sequence[str] | None) -> list[str]:
    """Returns a line for each finding of the wanted resources (plural or plural.group)."""
    lines = []
    for step in found:
        key = step.found.key
        plural = key.resource.partition(".")[0]
        if wanted is None or plural in wanted or key.resource in wanted:
            file = f" in {step.found.stored}" if plural == "nodes" and not step.advice else ""
            what = f"{step.to}: {step.found.what}: {plural} {key.name}{file}"
            lines.append(f"{what}: {step.advice}" if step.advice else what)
    return lines
