"""Asks a real API server and ours who may do what, and reports by class what they answer apart."""

import asyncio
import json
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from access import Access, tokens
from access_answers import normal
from releases import PATCHES, of_api_servers
from servers import Pair, servers

from kubeskew.apimachinery.catalogue.table import Catalogue
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version

_AT_ONCE = 6
_RECORDED = 150  # questions
_NAMES = re.compile(r'"[^"]*"|\'[^\']*\'|`[^`]*`|\d+')
_WAIT = 60.0
_LAST = {
    "apiVersion": "authorization.k8s.io/v1",
    "kind": "SubjectAccessReview",
    "spec": {"user": "last", "resourceAttributes": {"verb": "get", "group": "last", "resource": "last"}},
}


@dataclass(slots=True)
class Apart:
    """The questions of one class that came out apart; the first of them stands for all."""

    question: dict[str, Any]
    real: Any
    ours: Any
    numbers: list[int] = field(default_factory=list)


class Checks:
    """Questions asked of two servers."""

    def __init__(self, pair: Pair, access: Access) -> None:
        self._pair = pair
        self._access = access
        self.apart: dict[str, Apart] = {}
        self.allowed = 0
        self.recorded: dict[str, dict[str, Any]] = {}  # by what is asked and how it is answered

    async def prepare(self) -> None:
        """Makes the objects at both servers, and waits until both authorizers have seen them."""
        for path, body in self._access.objects:
            step = {"method": "POST", "path": path, "headers": {}, "body": body}
            found = await self._both(step)
            if found[0][0] != found[1][0]:
                raise RuntimeError(f"{path} {json.dumps(body)}: {found}")
        async with asyncio.timeout(_WAIT):
            for url in (self._pair.real, self._pair.ours):
                step = {"method": "POST", "path": "/apis/authorization.k8s.io/v1/subjectaccessreviews"}
                asked = {**step, "headers": {}, "body": _LAST}
                while not normal(*await self._pair.answer(url, asked))[1].get("allowed"):
                    await asyncio.sleep(0.05)
        await asyncio.sleep(1.0)  # the informers of pods and volumes, which no review can be asked about

    async def run(self, numbers: Sequence[int]) -> None:
        gate = asyncio.Semaphore(_AT_ONCE)

        async def one(number: int) -> None:
            async with gate:
                await self._compare(number)

        async with asyncio.TaskGroup() as group:
            for number in numbers:
                group.create_task(one(number))

    async def _compare(self, number: int) -> None:
        question = self._access.question(number)
        real, ours = await self._both(question)
        reviewed = real[1] if len(real) > 1 else {}
        if real[0] < 300 and (not isinstance(reviewed, dict) or reviewed.get("allowed", True)):
            self.allowed += 1
        said = _NAMES.sub("_", json.dumps(real))
        self.recorded.setdefault(f"{question['about']} {said}", {**question, "answer": real})
        if real == ours:
            return
        kind = f"{question['about']}: {said[:160]}"
        found = self.apart.setdefault(kind, Apart(question, real, ours))
        found.numbers.append(number)

    def recording(self, release: str) -> dict[str, Any]:
        """Returns the objects, and a question of each sort with the real server's answer, evenly chosen."""
        found = [each for _, each in sorted(self.recorded.items())]
        chosen = found[:: max(1, len(found) // _RECORDED)]
        return {"release": release, "objects": self._access.objects, "checks": chosen}

    async def _both(self, step: dict[str, Any]) -> tuple[Any, Any]:
        real, ours = await self._pair.ask(step)
        return normal(*real), normal(*ours)


async def check(binaries: Path, minor: str, patch: str, seed: int, numbers: Sequence[int]) -> Checks:
    """Runs the questions of a seed."""
    version = Version.parse(minor)
    with tempfile.TemporaryDirectory(prefix="access-") as directory:
        file = Path(directory) / "tokens.csv"
        file.write_text(tokens())
        flags = [f"--token-auth-file={file}", "--enable-admission-plugins=NodeRestriction"]
        async with servers(binaries, minor, patch, {}, flags) as pair:
            checks, began = (
                Checks(pair, Access(Catalogue(version, FeatureGates(version)), seed)),
                time.monotonic(),
            )
            await checks.prepare()
            for start in range(0, len(numbers), 1000):
                part = numbers[start : start + 1000]
                await checks.run(part)
                click.echo(
                    f"{start + len(part)} of {len(numbers)} checks, {checks.allowed} allowed, "
                    f"{len(checks.apart)} classes apart, {time.monotonic() - began:.0f} s",
                    err=True,
                )
            return checks


def lines(recording: dict[str, Any]) -> str:
    """Returns a recording as JSON with an object or a question a line."""
    parts = [f'"release": {json.dumps(recording["release"])}']
    for name in ("objects", "checks"):
        rows = ",\n".join(json.dumps(each, separators=(",", ":")) for each in recording[name])
        parts.append(f'"{name}": [\n{rows}\n]')
    return "{" + ",\n".join(parts) + "}\n"


def only(real: Any, ours: Any) -> tuple[str, str]:
    """Returns both answers as text; of two lists of rules what the other has not."""
    if isinstance(real[-1], dict) and "resourceRules" in real[-1] and isinstance(ours[-1], dict):
        texts = [
            {
                f"{key} {json.dumps(rule)}"
                for key, value in side[-1].items()
                for rule in value or []
                if key[-1] == "s"
            }
            for side in (real, ours)
        ]
        if texts[0] != texts[1]:
            return "; ".join(sorted(texts[0] - texts[1])), "; ".join(sorted(texts[1] - texts[0]))
        rest = [
            json.dumps({key: v for key, v in side[-1].items() if key[-1] != "s"}) for side in (real, ours)
        ]
        return rest[0], rest[1]
    return json.dumps(real), json.dumps(ours)


@click.command()
@of_api_servers
@click.option("--seed", default=0, show_default=True, help="Of the roles, bindings, pods and questions.")
@click.option("--first", default=0, show_default=True, help="The first question.")
@click.option("--count", default=5000, show_default=True, help="How many questions.")
@click.option("--record", type=click.Path(path_type=Path), help="A file that gets what the real server said.")
def access(minor: str, binaries: Path, seed: int, first: int, count: int, record: Path | None) -> None:
    """Have a real kube-apiserver and ours say who may do what.

    Reviews of access of every identity and resource, and requests of nodes, service accounts, users with some
    roles and those who act as others; among them writes of roles by those who do not have all that they give.

    \b
      ETCD=/usr/bin/etcd hack/differential/run access 1.36 --binaries DIR --seed 1 --count 20000
    """
    checks = asyncio.run(check(binaries, minor, PATCHES[minor], seed, range(first, first + count)))
    for kind, each in sorted(checks.apart.items(), key=lambda item: -len(item[1].numbers)):
        click.echo(f"\n{len(each.numbers)} ({each.numbers[0]}): {kind}")
        click.echo(f"    {json.dumps(each.question)[:700]}")
        for side, line in zip(("real", "ours"), only(each.real, each.ours), strict=True):
            click.echo(f"    {side}: {line[:400]}")
    if record is not None:
        record.write_text(lines(checks.recording(PATCHES[minor])))
    apart = sum(len(each.numbers) for each in checks.apart.values())
    click.echo(f"\n{count} checks, {checks.allowed} allowed, {apart} apart, {len(checks.apart)} classes")
    sys.exit(1 if apart else 0)
