"""Recorded sequences of requests, had again with a server of ours: reading, running, comparing.

What the keys of a step mean is said by the tool that recorded them; its format is 1.
"""

import asyncio
import json
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
from yarl import URL

_TOKEN = re.compile(r'\["([^"]*)"\]|\[(\d+|\*)\]|\[([\w./-]+)=([^\]]*)\]|(\*\*|\*|[^.\[\]]+)|\.')
_LITERAL = ("save", "expect", "pick", "ignore")
_MANY = 10**6
SIDE_BY_SIDE = 8


def load(path: Path) -> dict[str, Any]:
    """The sequences of a golden file by name."""
    return {sequence["name"]: sequence for sequence in json.loads(path.read_text())["sequences"]}


def filled(value: Any, names: dict[str, Any], *, partial: bool = False) -> Any:
    """`value` with ${name} replaced; values may refer to names. `partial` leaves unknown ones alone."""
    if isinstance(value, dict):
        return {
            filled(key, names, partial=partial): filled(one, names, partial=partial)
            for key, one in value.items()
        }
    if isinstance(value, list):
        return [filled(one, names, partial=partial) for one in value]
    if not isinstance(value, str):
        return value
    alone = re.fullmatch(r"\$\{([\w.-]+)\}", value)
    if alone and alone[1] in names:
        return filled(names[alone[1]], names, partial=partial)

    def one(found: re.Match[str]) -> str:
        if found[1] not in names and partial:
            return found[0]
        return str(filled(names[found[1]], names, partial=partial))

    return re.sub(r"\$\{([\w.-]+)\}", one, value)


# --- paths into JSON ---------------------------------------------------------------------------------------


def _parsed(path: str) -> list[tuple[Any, ...]]:
    steps: list[tuple[Any, ...]] = []
    for quoted, number, field, wanted, plain in _TOKEN.findall(path):
        if number:
            steps.append(("any",) if number == "*" else ("index", int(number)))
        elif field:
            steps.append(("where", field, wanted))
        elif plain in {"*", "**"}:
            steps.append(("any",) if plain == "*" else ("deep",))
        elif quoted or plain:
            steps.append(("key", quoted or plain))
    return steps


def _places(node: Any, path: list[tuple[Any, ...]]) -> Iterator[tuple[Any, Any]]:
    """(container, key) of every place that `path` names under `node`."""
    if not path:
        return
    (kind, *args), rest = path[0], path[1:]
    if kind == "deep":
        yield from _places(node, rest)
        for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            yield from _places(child, path)
        return
    for key in _keys(node, kind, args):
        if rest:
            yield from _places(node[key], rest)
        else:
            yield node, key


def _keys(node: Any, kind: str, args: list[Any]) -> list[Any]:
    if isinstance(node, dict):
        return list(node) if kind == "any" else [args[0]] if kind == "key" and args[0] in node else []
    if not isinstance(node, list):
        return []
    if kind == "where":
        return [
            at for at, one in enumerate(node) if isinstance(one, dict) and str(one.get(args[0])) == args[1]
        ]
    if kind == "any":
        return list(range(len(node)))
    return [args[0]] if kind == "index" and args[0] < len(node) else []


def lookup(node: Any, path: str) -> list[Any]:
    """Everything that a path names."""
    return [container[key] for container, key in _places(node, _parsed(path))]


def remove(node: Any, path: str) -> None:
    """Take out everything that a path names."""
    places = sorted(_places(node, _parsed(path)), key=lambda one: str(one[1]).rjust(9), reverse=True)
    for container, key in places:
        del container[key]


# --- one run of one sequence -------------------------------------------------------------------------------


class Run:
    """Runs a sequence against a server; `answers` holds what came back, raw."""

    def __init__(self, http: aiohttp.ClientSession, base: str, sequence: dict[str, Any]) -> None:
        self._http = http
        self._base = base
        self.sequence = sequence
        self.name = "r" + secrets.token_hex(4)
        self._names = {**sequence["vars"], "run": self.name}
        self.saved: dict[str, Any] = {}
        self.answers: list[Any] = []
        self._watches: dict[str, tuple[asyncio.Task[None], dict[str, Any], dict[str, Any]]] = {}

    async def go(self) -> "Run":
        try:
            for step in self.sequence["steps"]:
                self.answers.append(await self._step(step))
        except KeyError as error:  # a variable that an earlier answer should have given
            self.answers.append({"failed": str(error.args[0])})
        finally:
            for task, _, _ in self._watches.values():
                task.cancel()
            for path in self.sequence["cleanup"]:
                await self._request({"method": "DELETE", "path": filled(path, self._names)})
        return self

    async def _step(self, step: dict[str, Any]) -> Any:
        if "sleep" in step:
            return None  # what it waits for is there at once: watches are opened before they are answered
        if "collect" in step:
            task, box, options = self._watches[step["collect"]]
            return await self._ended(task, box, options)
        step = {key: value if key in _LITERAL else filled(value, self._names) for key, value in step.items()}
        answer = await self._watch(step) if "watch" in step else await self._until(step)
        for name, path in step.get("save", {}).items():
            found = lookup(answer.get("body"), path) if isinstance(answer.get("body"), dict) else []
            if found:
                self._names[name] = self.saved[name] = found[0]
        return answer

    async def _until(self, step: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request, which is made again until what the step waits for holds."""
        deadline = time.monotonic() + step.get("within", 20)
        while True:
            answer = await self._request(step)
            if "until" not in step or _holds(answer, step["until"]):
                return answer
            if time.monotonic() > deadline:
                return {**answer, "note": f"never came to {json.dumps(step['until'])}"}
            await asyncio.sleep(0.02)

    def _prepared(self, step: dict[str, Any]) -> dict[str, Any]:
        headers = {"Accept": "application/json", "User-Agent": "transcript/1.0", **step.get("headers", {})}
        data = step["raw"].encode() if "raw" in step else None
        if "body" in step:
            data = json.dumps(step["body"]).encode()
        if data is not None:
            headers.setdefault("Content-Type", "application/json")
        url = URL(self._base + step["path"].replace(" ", "%20"), encoded=True)
        return {"method": step["method"], "url": url, "headers": headers, "data": data}

    async def _request(self, step: dict[str, Any]) -> dict[str, Any]:
        async with self._http.request(**self._prepared(step), allow_redirects=False) as response:
            return _envelope(response, await response.read())

    async def _watch(self, step: dict[str, Any]) -> dict[str, Any]:
        options, ready = step["watch"], asyncio.Event()
        box: dict[str, Any] = {"events": []}

        async def read() -> None:
            try:
                async with self._http.request(
                    **self._prepared(step), timeout=aiohttp.ClientTimeout(None)
                ) as response:
                    box.update(_envelope(response, None))
                    ready.set()
                    if response.status != 200:
                        box.update(_envelope(response, await response.read()))
                        del box["events"]
                        return
                    await _collect(response, box, options)
            finally:
                ready.set()

        task = asyncio.create_task(read())
        if "name" not in options:
            return await self._ended(task, box, options)
        self._watches[options["name"]] = task, box, options
        await ready.wait()
        return {key: value for key, value in box.items() if key not in {"events", "ended"}}

    async def _ended(
        self, task: asyncio.Task[None], box: dict[str, Any], options: dict[str, Any]
    ) -> dict[str, Any]:
        await asyncio.wait([task], timeout=options.get("timeout", 5))
        task.cancel()
        return box


async def _collect(response: aiohttp.ClientResponse, box: dict[str, Any], options: dict[str, Any]) -> None:
    """Read the events of a watch, as many as are wanted."""
    async for line in response.content:
        event = json.loads(line)
        if event["type"] != "BOOKMARK" or options.get("bookmarks"):
            box["events"].append(event)
        if len(box["events"]) >= options.get("events", _MANY):
            return
    box["ended"] = True


def _envelope(response: aiohttp.ClientResponse, data: bytes | None) -> dict[str, Any]:
    kind = response.headers.get("Content-Type", "").split(";")[0].strip()
    answer: dict[str, Any] = {"status": response.status, "type": kind}
    warnings = [re.sub(r'^\d+ \S+ "(.*)"$', r"\1", one) for one in response.headers.getall("Warning", [])]
    if warnings:
        answer["warnings"] = warnings
    if data:
        text = data.decode("utf-8", "replace")
        try:
            answer["body"] = json.loads(text)
        except ValueError:
            answer["text"] = text
    return answer


def _holds(answer: dict[str, Any], conditions: dict[str, Any]) -> bool:
    for path, value in conditions.items():
        if path == "http":
            if answer["status"] != value:
                return False
            continue
        found = lookup(answer.get("body", {}), path)
        if (value == "!" and found) or (value != "!" and not found):
            return False
        if value not in ("*", "!") and value not in found:
            return False
    return True


async def run_all(server: str, recorded: Mapping[str, Any], token: str = "secret") -> dict[str, Run]:
    """Runs every sequence once, some side by side, as an administrator with that token."""
    gate = asyncio.Semaphore(SIDE_BY_SIDE)
    headers = {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession(
        headers=headers,
        connector=aiohttp.TCPConnector(ssl=False),
        max_line_size=2**16,
        max_field_size=2**16,
    ) as http:

        async def run(name: str) -> tuple[str, Run]:
            async with gate:
                return name, await Run(http, server, recorded[name]).go()

        return dict(await asyncio.gather(*map(run, recorded)))
