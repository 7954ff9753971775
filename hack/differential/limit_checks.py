"""Asks a real API server and ours for what is below, at and above each limit, and reports what is apart."""

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from limits import PREPARED, Limit, of_release, said
from releases import PATCHES, of_api_servers
from servers import Pair, servers

from kubeskew.apimachinery.versions import Version

Found = dict[str, dict[str, list[Any]]]  # by what is limited and how many there were: the real answer, ours


async def check(binaries: Path, minor: str, patch: str) -> Found:
    found: Found = {}
    async with servers(binaries, minor, patch, {}) as pair:
        for path, body in PREPARED:
            await pair.ask({"method": "POST", "path": path, "headers": {}, "body": body})
        for limit in of_release(Version.parse(minor).minor):
            numbers = await _searched(pair, limit) if limit.searched else limit.numbers
            for number in numbers:
                answers = [said(status, text) for status, text in await pair.ask(limit.make(number))]
                found.setdefault(limit.what, {})[str(number)] = answers
    return found


async def _searched(pair: Pair, limit: Limit) -> Sequence[int]:
    """Returns the most that a real server takes, and one more."""
    taken, refused = limit.numbers[0], limit.numbers[-1]
    while refused - taken > 1:
        middle = (taken + refused) // 2
        status, _ = await pair.answer(pair.real, limit.make(middle))
        taken, refused = (middle, refused) if status < 400 else (taken, middle)
    return taken, refused


@click.command()
@of_api_servers
@click.option("--record", type=click.Path(path_type=Path), help="A file that gets what the real server said.")
def limits(minor: str, binaries: Path, record: Path | None) -> None:
    """Ask a real kube-apiserver and ours for what is below, at and above each limit.

    \b
      ETCD=/usr/bin/etcd hack/differential/run limits 1.36 --binaries DIR
    """
    found = asyncio.run(check(binaries, minor, PATCHES[minor]))
    apart = 0
    for what, numbers in found.items():
        codes = ", ".join(f"{number}: {real[0]}" for number, (real, _) in numbers.items())
        click.echo(f"{what}: {codes}")
        for number, (real, ours) in numbers.items():
            if real != ours:
                apart += 1
                click.echo(f"    {number} real: {json.dumps(real)}\n    {number} ours: {json.dumps(ours)}")
    if record is not None:
        rows = {what: {number: real for number, (real, _) in each.items()} for what, each in found.items()}
        text = ",\n".join(f"{json.dumps(what)}: {json.dumps(each)}" for what, each in rows.items())
        record.write_text(f'{{"release": "{PATCHES[minor]}",\n"limits": {{\n{text}\n}}}}\n')
    click.echo(f"{sum(map(len, found.values()))} requests, {apart} apart")
    sys.exit(1 if apart else 0)
