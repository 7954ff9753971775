"""The smallest history that still comes out apart in the same way."""

import copy
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

Holds = Callable[[dict[str, Any]], Awaitable[bool]]
_TRIES = 150


async def shrunk(sequence: dict[str, Any], last: int, holds: Holds, *, tries: int = _TRIES) -> dict[str, Any]:
    """Returns a sequence of which no step and no part of a body can be left out; `last` is the step apart."""
    best = {**sequence, "steps": sequence["steps"][: last + 1]}
    if not await holds(best):
        return sequence
    size = max(1, len(best["steps"]) // 2)
    while size >= 1 and tries:
        at = 0
        while at < len(best["steps"]) - 1 and tries:
            end = min(at + size, len(best["steps"]) - 1)
            tried = {**best, "steps": best["steps"][:at] + best["steps"][end:]}
            tries -= 1
            if await holds(tried):
                best = tried
            else:
                at += size
        size //= 2
    progress = True
    while progress and tries:
        progress = False
        for tried in _smaller(best):
            if not tries:
                break
            tries -= 1
            if await holds(tried):
                best, progress = tried, True
                break
    return best


def _smaller(sequence: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields sequences with one part of one body less, the largest parts first."""
    for number, step in enumerate(sequence["steps"]):
        if "?" in step.get("path", ""):
            path, _, query = step["path"].partition("?")
            options = query.split("&")
            for at in range(len(options)):
                rest = "&".join(options[:at] + options[at + 1 :])
                yield _with_step(sequence, number, {**step, "path": f"{path}?{rest}" if rest else path})
        for path in sorted(_paths(step.get("body")), key=len):
            body = copy.deepcopy(step["body"])
            container = body
            for part in path[:-1]:
                container = container[part]
            del container[path[-1]]
            yield _with_step(sequence, number, {**step, "body": body})


def _with_step(sequence: dict[str, Any], number: int, step: dict[str, Any]) -> dict[str, Any]:
    steps = [*sequence["steps"]]
    steps[number] = step
    return {**sequence, "steps": steps}


def _paths(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in pairs:
        if path or key not in {"apiVersion", "kind", "metadata"}:
            yield (*path, key)
        yield from _paths(value, (*path, key))
