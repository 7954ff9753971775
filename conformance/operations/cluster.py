"""Operations on the cluster under the pods: its versions and processes, kubelets, branches and storage.

These are `upgrade`, `downgrade`, `move`, `gates`, `restart`, `kill` and `driver`, before each of which the
pods are noted, so that `undisturbed` can compare; `kubelet`, for what an operator does with a node's kubelet,
and what its files say; `fork` and `compare`, for branches of the cluster; `audit` and `migrate`, for what
`kubeskew storage` says of the stored objects, and how it writes them again.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kubeskew.apimachinery.gates import FeatureGates, parse_overrides
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.versions import Version
from kubeskew.cluster.failures import UserError
from kubeskew.conformance.bindings import bind
from kubeskew.conformance.chainsaw import seconds
from kubeskew.conformance.context import CellContext, bind_outputs
from kubeskew.conformance.errors import ScenarioError, StepError
from kubeskew.conformance.evidence.comparison import (
    BranchDifference,
    ExpectedDifference,
    differences,
    fields,
    unexpected,
)
from kubeskew.conformance.evidence.log import FAULT, KUBELET, ComponentChange
from kubeskew.conformance.operations.waits import POLL_SECONDS
from kubeskew.conformance.results import StepResult
from kubeskew.conformance.scenario import Operation
from kubeskew.conformance.storage import migration
from kubeskew.conformance.storage.way import Kubelets, Move, Present, StepFinding, audit_way, steps_of

_POLL_SECONDS = 0.2
_SHOWN = 12


async def upgrade(ctx: CellContext, operation: Operation) -> None:
    """Bring components to a newer version."""
    body = bind(dict(operation.body), ctx.bindings)
    await ctx.remember_pods()
    to, components = _required(body, "to", operation), _components(body)
    await ctx.control.upgrade(str(to), components, force=bool(body.get("force")))


async def downgrade(ctx: CellContext, operation: Operation) -> None:
    """Bring components to an older version."""
    body = bind(dict(operation.body), ctx.bindings)
    await ctx.remember_pods()
    to, components = _required(body, "to", operation), _components(body)
    await ctx.control.downgrade(str(to), components, force=bool(body.get("force")))


async def move(ctx: CellContext, operation: Operation) -> None:
    """Bring components from one version to another, newer or older: a hop of a path, `move: {from, to}`."""
    body = bind(dict(operation.body), ctx.bindings)
    await ctx.remember_pods()
    before, after, force = str(body["from"]), str(body["to"]), bool(body.get("force"))
    down = Version.parse(after) < Version.parse(before)
    change = ctx.control.downgrade if down else ctx.control.upgrade
    await change(after, _components(body), force=force)


async def gates(ctx: CellContext, operation: Operation) -> None:
    """Set feature gates: `gates: {set: {A: true}, components: [scheduler]}`.

    Without `components` all are meant, with an empty list none.
    """
    body = bind(dict(operation.body), ctx.bindings)
    await ctx.remember_pods()
    chosen = _required(body, "set", operation)
    if body.get("components") != []:
        await ctx.control.gates(chosen, _components(body))


async def restart(ctx: CellContext, operation: Operation) -> None:
    """Restart a component gracefully."""
    body = bind(dict(operation.body), ctx.bindings)
    await ctx.remember_pods()
    await ctx.control.restart(_required(body, "component", operation))


async def kill(ctx: CellContext, operation: Operation) -> None:
    """End a component with SIGKILL."""
    body = bind(dict(operation.body), ctx.bindings)
    await ctx.remember_pods()
    await ctx.control.kill(_required(body, "component", operation))


async def driver(ctx: CellContext, operation: Operation) -> None:
    """Have a driver misbehave, or behave again: `driver: {name: …, nodes: […], refusePrepare: true, …}`.

    Without `nodes` (or `node`), it does on all of its nodes. A switch that is null is taken back. The
    switches are listed in kubelet/drivers/switches.py.
    """
    body = bind(dict(operation.body), ctx.bindings)
    await ctx.remember_pods()
    name = _required(body, "name", operation)
    nodes = body.get("nodes") or ([body["node"]] if body.get("node") else [])
    changes = {key: value for key, value in body.items() if key not in {"name", "node", "nodes"}}
    await ctx.control.driver(name, nodes, changes)


def _required(body: dict[str, Any], name: str, operation: Operation) -> Any:
    if name not in body:
        raise ScenarioError(f"{operation.where}.{operation.kind}: expected `{name}`")
    return body[name]


def _components(body: dict[str, Any]) -> Sequence[str]:
    components: Sequence[str] = body.get("components") or []
    return components


async def kubelet(ctx: CellContext, operation: Operation) -> None:
    """Remove files of a kubelet, or set its policies: `kubelet: {node: a, removeFiles: [cpu_manager_state]}`.

    `set: {cpuManagerPolicy: none}` holds from the kubelet's next start. With `file`, it waits until that file
    `matches` a pattern, or with `absent: true` is not there; `outputs` bind its text, as `(@)`. Files are
    named by their path below the kubelet's root directory.
    """
    body = bind({k: v for k, v in operation.body.items() if k != "outputs"}, ctx.bindings)
    node = str(body["node"])
    if not {"removeFiles", "set", "file"} & body.keys():
        raise ScenarioError(f"{operation.where}.kubelet: expected `removeFiles`, `set` or `file`")
    try:
        if body.get("removeFiles"):
            await ctx.control.remove_kubelet_files(node, [str(name) for name in body["removeFiles"]])
        if body.get("set"):
            await ctx.control.configure_kubelet(node, body["set"])
    except UserError as error:
        raise StepError("a kubelet with these files and settings", str(error)) from error
    if "file" in body:
        bind_outputs(ctx, operation, await _awaited(ctx, node, body, operation.where))


async def _awaited(ctx: CellContext, node: str, body: Mapping[str, Any], where: str) -> str:
    """Waits until the file's text matches, or until the file is absent, and returns the text."""
    pattern = _pattern(body.get("matches", ""), where)
    limit = seconds(body["timeout"], where) if "timeout" in body else ctx.timeout("assert")
    deadline = ctx.clock.monotonic() + limit
    while True:
        text = await ctx.control.kubelet_file(node, str(body["file"]))
        if text is None if body.get("absent") else text is not None and pattern.search(text):
            return text or ""
        if ctx.clock.monotonic() > deadline:
            wanted = "to be absent" if body.get("absent") else f"to match {pattern.pattern or 'anything'}"
            raise StepError(f"{body['file']} of {node} {wanted}", "no file" if text is None else text)
        await ctx.clock.sleep(POLL_SECONDS)


def _pattern(text: Any, where: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except (re.error, TypeError) as error:
        raise ScenarioError(f"{where}.kubelet.matches: no regular expression: {error}") from error


async def fork(ctx: CellContext, operation: Operation) -> None:
    """Branch the cluster off at its newest revision, once for each branch; all of them start."""
    await ctx.remember_pods()
    names = operation.body["branches"]
    controls = await ctx.control.fork(names)
    for name, control in zip(names, controls, strict=True):
        ctx.branches[name] = ctx.of_branch(name, control)


async def compare(ctx: CellContext, operation: Operation) -> None:
    """Wait until the branches differ in just what is named; then note how they do, for the report."""
    body = bind(dict(operation.body), ctx.bindings)
    names = body.get("branches") or [*ctx.branches]
    expected = [_expected(entry) for entry in body.get("differences") or []]
    limit = seconds(body["timeout"], operation.where) if "timeout" in body else ctx.timeout("assert")
    deadline = ctx.clock.monotonic() + limit
    while True:
        found = await _found(ctx, names, body)
        extra, missing = unexpected(found, expected)
        if not (extra or missing) or ctx.clock.monotonic() > deadline:
            break
        await ctx.clock.sleep(_POLL_SECONDS)
    ctx.compared[ctx.step.name] = [str(each) for each in found]
    lines = [*map(str, extra), *(f"no difference {each}" for each in missing)]
    lines += _outcomes(ctx, names, body.get("outcomes") or [])
    if lines:
        more = [f"and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
        wanted = "; ".join(map(str, expected)) or "nothing"
        raise StepError(f"the branches to differ in {wanted}", "; ".join([*lines[:_SHOWN], *more]))


async def _found(ctx: CellContext, names: Sequence[str], body: Mapping[str, Any]) -> list[BranchDifference]:
    namespace, resources = body.get("namespace", ctx.namespace), body.get("resources") or []
    states = {name: fields(await ctx.branches[name].control.log(), namespace, resources) for name in names}
    return differences(states)


def _expected(entry: Mapping[str, Any]) -> ExpectedDifference:
    values = {str(branch): _text(value) for branch, value in (entry.get("values") or {}).items()}
    return ExpectedDifference(entry["object"], str(entry.get("path") or ""), values)


def _text(value: Any) -> str:
    return str(value)


def _outcomes(ctx: CellContext, names: Sequence[str], expected: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lists steps since the last comparison with other outcomes in some branches, unless these are expected,
    and expected ones without a difference."""
    came: dict[str, dict[str, str]] = {}
    for step, result in ctx.done:
        if step.compares:
            came.clear()
        elif step.branch in names:
            name = step.name.removeprefix(f"{step.branch}: ")
            came.setdefault(name, {})[step.branch] = _outcome(result)
    named = {entry["step"]: dict(entry.get("values") or {}) for entry in expected}
    found = []
    for name, outcomes in came.items():
        description = (
            f"the step {name!r}: {', '.join(f'{branch} {each}' for branch, each in outcomes.items())}"
        )
        differs = len({*outcomes.values()}) > 1
        wanted = named.pop(name, None)
        as_wanted = not differs
        if wanted is not None:
            as_wanted = differs and all(outcomes.get(branch) == each for branch, each in wanted.items())
        if not as_wanted:
            found.append(description)
    return [*found, *(f"there is no step {name!r}" for name in named)]


def _outcome(result: StepResult) -> str:
    return "notRun" if result.left_out else "failed" if result.failed else "passed"


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
    """Write all objects again as `kubeskew storage migrate` does: `migrate: {resources: [flowschemas]}`."""
    resources = bind(operation.body.get("resources") or [], ctx.bindings)
    found = await migration.migrate(ctx.client, resources, lambda _: None)
    failed = [failure for each in found for failure in each.failed]
    if failed:
        raise StepError("all objects to be written again", "; ".join(failed))
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
    """Resources are wanted by plural or by plural.group; each finding is a line."""
    lines = []
    for step in found:
        key = step.found.key
        plural = key.resource.partition(".")[0]
        if wanted is None or plural in wanted or key.resource in wanted:
            file = f" in {step.found.stored}" if plural == "nodes" and not step.advice else ""
            what = f"{step.to}: {step.found.what}: {plural} {key.name}{file}"
            lines.append(f"{what}: {step.advice}" if step.advice else what)
    return lines
