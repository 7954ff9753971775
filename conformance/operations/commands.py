"""`script` and `sleep`: operations beside the API."""

import asyncio
import os

from kubeskew.conformance.bindings import bind
from kubeskew.conformance.context import CellContext
from kubeskew.conformance.durations import seconds
from kubeskew.conformance.errors import ScenarioError, StepError
from kubeskew.conformance.scenario import Operation


async def script(ctx: CellContext, operation: Operation) -> None:
    """Run a shell script against the cluster: KUBECONFIG and NAMESPACE are set, bindings by `env`."""
    body = bind(dict(operation.body), ctx.bindings)
    if not isinstance(body.get("content"), str):
        raise ScenarioError(f"{operation.where}.content: expected a script")
    environment = {
        **os.environ,
        "KUBECONFIG": str(ctx.control.kubeconfig),
        "NAMESPACE": ctx.namespace,
        **{entry["name"]: str(entry["value"]) for entry in body.get("env") or []},
    }
    limit = seconds(body["timeout"], operation.where) if "timeout" in body else ctx.timeout("exec")
    process = await asyncio.create_subprocess_exec(
        *("/bin/sh", "-ec", body["content"]),
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), limit)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise StepError(f"the script to end within {limit:g} s", "it was still running") from None
    if process.returncode != 0:
        text = output.decode(errors="replace").strip()
        raise StepError("the script to exit 0", f"exit {process.returncode}: {text}")


async def sleep(ctx: CellContext, operation: Operation) -> None:
    """Let time pass."""
    duration = bind(operation.body.get("duration"), ctx.bindings)
    await ctx.clock.sleep(seconds(duration, f"{operation.where}.duration"))
