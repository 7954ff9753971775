"""Changes the cluster under the pods: `upgrade`, `downgrade`, `move`, `gates`, `restart`, `kill`, `driver`.

Before each, the pods are noted, so that `undisturbed` can compare.
"""

from collections.abc import Sequence
from typing import Any

from kubeskew.apimachinery.versions import Version
from kubeskew.conformance.bindings import bind
from kubeskew.conformance.context import CellContext
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.scenario import Operation


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

    Without `nodes` (or `node`), on all of its nodes. A switch that is null is taken back. Which switches
    there are stands in kubelet/drivers/switches.py.
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
