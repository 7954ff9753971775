"""Runs histories of a component one after the other, and keeps what came out apart twice, by class."""

import asyncio
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol

import click
from shrinking import shrunk
from worlds import Object

_DRAWN = re.compile(r'"[^"]*"|\b\d+\b|\b(?:node|pod|claim|data|volume|[abc])-[\w<>-]+|<[^>]*>')
_TRIES = 40

Apart = tuple[int, list[str]]


class Both(Protocol):
    """A component of upstream and ours, which run the same history."""

    async def first_apart(self, sequence: Mapping[str, Any], run: str) -> Apart | None:
        """Returns the first step that came out apart, and how."""
        ...


@dataclass(slots=True)
class Found:
    """The histories of one class of difference; the first of them stands for all."""

    kind: str
    sequence: Object
    apart: Apart
    seeds: list[int] = field(default_factory=list)


class ComponentRuns:
    """Histories of one component, and what came out apart."""

    def __init__(self, both: Both, make: Callable[[int], Object], at_once: int = 1) -> None:
        """`at_once` histories run side by side: those that share nothing can."""
        self._both = both
        self._at_once = at_once
        self._make = make
        self._runs = count()
        self.found: dict[str, Found] = {}
        self.done = 0
        self.steps = 0

    async def run(self, seeds: Iterable[int]) -> None:
        began, gate = time.monotonic(), asyncio.Semaphore(self._at_once)

        async def one(seed: int) -> None:
            async with gate:
                await self._compare(seed)
            self.done += 1
            if self.done % 20 == 0:
                click.echo(
                    f"{self.done} histories, {self.steps} steps, {len(self.found)} classes apart, "
                    f"{time.monotonic() - began:.0f} s",
                    err=True,
                )

        async with asyncio.TaskGroup() as group:
            for seed in seeds:
                group.create_task(one(seed))

    async def _compare(self, seed: int) -> None:
        sequence = self._make(seed)
        self.steps += len(sequence["steps"])
        if await self._apart(sequence) is None:
            return
        apart = await self._apart(sequence)
        if apart is None:  # a race, or the choice of another time
            return
        kind = kind_of(apart[1])
        found = self.found.setdefault(kind, Found(kind, sequence, apart))
        found.seeds.append(seed)
        click.echo(f"{seed}, step {apart[0]}: {apart[1][0][:600]}", err=True)

    async def _apart(self, sequence: Object) -> Apart | None:
        return await self._both.first_apart(sequence, f"h{next(self._runs)}")

    async def shrink(self, found: Found) -> None:
        """Makes the history of a class as small as can be."""

        async def holds(sequence: Object) -> bool:
            apart = await self._apart(sequence)
            return (
                apart is not None
                and apart[0] == len(sequence["steps"]) - 1
                and kind_of(apart[1]) == found.kind
            )

        found.sequence = await shrunk(found.sequence, found.apart[0], holds, tries=_TRIES)
        found.apart = await self._apart(found.sequence) or found.apart


def kind_of(found: list[str]) -> str:
    """Returns the class of a difference: the first one, without names and numbers."""
    return _DRAWN.sub("_", found[0])[:200]
