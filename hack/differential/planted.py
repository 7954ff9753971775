"""Errors drawn at random for our API server, and the histories that find them.

An error is one change of one expression or statement of the kinds' rules, defaults or strategies, on a line
that histories reach. Our server gets the changed module in place of its own; the sources stay as they are.
"""

import ast
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click
from aiohttp import ClientSession
from comparison import difference, shows_json
from histories import history
from objects import Objects
from servers import STORAGE, Pair, client, emulated_server

from benchmarks.real_servers import ROOT, RealServer, real_server
from hack.checks.mutants import PLANTING
from kubeskew.apimachinery.catalogue.table import Catalogue
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.registry.index import GROUP_PACKAGES

_SOURCES = ROOT / "apiserver" / "registry"
_LEFT_OUT = {"tables", "requests", "index.py", "codec.py", "cdi", "classic", "semantic", "__init__.py"}
_REACHING = 100  # histories, by which lines are known
_PART = 10
_OPERATORS: Mapping[type[ast.cmpop], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.In: "not in",
    ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Error:
    """A change of a module."""

    file: Path
    line: int
    kind: str
    old: str
    new: str
    text: str  # of the changed module

    @property
    def group(self) -> str | None:
        """The API group whose rules these are; None if several share them."""
        folder = self.file.relative_to(_SOURCES).parts[0]
        return next((group for group, room in GROUP_PACKAGES.items() if room == folder), None)

    def __str__(self) -> str:
        place = f"{self.file.relative_to(ROOT)}:{self.line}"
        return f"{place}: {self.kind}: {' '.join(self.old.split())} → {' '.join(self.new.split())}"


def errors_of(file: Path, lines: frozenset[int]) -> Iterator[Error]:
    """Yields each error that can be made in the functions of a module on one of its lines."""
    text = file.read_text()
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for part in (node for statement in function.body for node in ast.walk(statement)):
            if getattr(part, "lineno", None) in lines:
                for kind, node, new in _changes(part):
                    old = ast.get_source_segment(text, node) or ""
                    yield Error(file, node.lineno, kind, old, new, _replaced(text, node, new))


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.expr | ast.stmt, str]]:
    """Yields kinds of errors, what they replace, and by what."""
    match node:
        case ast.Expr(value=ast.Yield() | ast.YieldFrom()):
            yield "a rule that is missing", node, "yield from ()"
        case ast.Assign(targets=[ast.Subscript()]) | ast.AugAssign():
            yield "a write that is missing", node, "pass"
        case ast.Expr(value=ast.Call()):
            yield "a call that is missing", node, "pass"
        case ast.If() | ast.IfExp():
            yield "a condition turned around", node.test, f"not ({ast.unparse(node.test)})"
        case ast.Compare(ops=[operator]) if type(operator) in _OPERATORS:
            sides = ast.unparse(node.left), ast.unparse(node.comparators[0])
            yield "another comparison", node, f"({sides[0]} {_OPERATORS[type(operator)]} {sides[1]})"
        case ast.BoolOp(values=[*rest, _]):
            word = " and " if isinstance(node.op, ast.And) else " or "
            yield "an operand less", node, f"({word.join(map(ast.unparse, rest))})"
        case ast.Constant(value=bool(value)):
            yield "another value", node, str(not value)
        case ast.Constant(value=int(value)):
            yield "another value", node, str(value + 1)
        case ast.keyword(value=ast.Constant(value=str(value))) if value:
            yield "another value", node.value, repr(value + "x")


def _replaced(text: str, node: ast.expr | ast.stmt, new: str) -> str:
    """Returns the module with `new` in place of a node; positions are in bytes."""
    lines = text.encode().splitlines(keepends=True)
    start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: (node.end_lineno or node.lineno) - 1])) + (node.end_col_offset or 0)
    whole = b"".join(lines)
    return (whole[:start] + new.encode() + whole[end:]).decode()


def plant(error: Error, directory: Path) -> None:
    """Writes what makes an interpreter with the directory on its path import the changed module."""
    source = directory / "defect.py"
    source.write_text(error.text)
    module = ".".join(("kubeskew", *error.file.relative_to(ROOT).with_suffix("").parts))
    (directory / "sitecustomize.py").write_text(PLANTING.format(module=module, source=str(source)))


class Hunt:
    """One real server, for all errors; ours is started anew for each, next to a sound one."""

    def __init__(self, binaries: Path, minor: str, patch: str, histories: int) -> None:
        self._binaries = binaries
        self._minor = minor
        self._patch = patch
        self._histories = histories
        version = Version.parse(minor)
        self._catalogue = Catalogue(version, FeatureGates(version))
        self._difference = partial(difference, values=shows_json(version.minor))

    async def run(self, seed: int, count: int) -> list[tuple[Error, str]]:
        """Draws errors, and returns each with what found it; empty if nothing did."""
        found = []
        async with AsyncExitStack() as stack:
            real = await stack.enter_async_context(
                real_server(self._binaries, self._minor, "etcd", extra=[STORAGE])
            )
            http = await stack.enter_async_context(client())
            reached = await self._reached(real, http)
            sound = await stack.enter_async_context(emulated_server(real, self._patch))
            for error in drawn(seed, reached):
                with tempfile.TemporaryDirectory() as directory:
                    plant(error, Path(directory))
                    try:
                        by = await self._find(error, Path(directory), real, sound, http)
                    except (TimeoutError, RuntimeError):
                        click.echo(f"{error}\n    left out: with it our server does not start")
                        continue
                found.append((error, by))
                click.echo(f"{error}\n    {by or 'not found'}")
                if len(found) == count:
                    break
        return found

    async def _reached(self, real: RealServer, http: ClientSession) -> Mapping[Path, frozenset[int]]:
        """Returns the lines of the sources that our server runs in some histories."""
        with tempfile.TemporaryDirectory() as name:
            data, settings = Path(name, "data"), Path(name, "coverage.cfg")
            settings.write_text(
                f"[run]\nsigterm = true\nconcurrency = thread\ndata_file = {data}\nsource = {_SOURCES}\n"
            )
            interpreter = (sys.executable, "-m", "coverage", "run", f"--rcfile={settings}")
            async with emulated_server(real, self._patch, interpreter=interpreter) as port:
                pair, objects = self._pair(real, port, http), Objects(self._catalogue)
                for seed in range(_REACHING):
                    await pair.runs(history(objects, seed))
            report = Path(name, "report.json")
            command = (
                sys.executable,
                "-m",
                "coverage",
                "json",
                f"--rcfile={settings}",
                "-q",
                "-o",
                str(report),
            )
            await asyncio.to_thread(subprocess.run, command, cwd=ROOT, check=True)
            files = json.loads(report.read_text())["files"]
        return {(ROOT / file).resolve(): frozenset(each["executed_lines"]) for file, each in files.items()}

    @staticmethod
    def _pair(real: RealServer, port: int, http: ClientSession) -> Pair:
        return Pair(f"https://127.0.0.1:{real.port}", f"https://127.0.0.1:{port}", http)

    async def _find(
        self, error: Error, directory: Path, real: RealServer, sound: int, http: ClientSession
    ) -> str:
        """Returns what found the error: a history that comes apart, and does not with the sound server."""
        path = os.pathsep.join(map(str, (directory, ROOT)))
        objects = Objects(self._catalogue, error.group)
        if not objects.sound:
            objects = Objects(self._catalogue)
        async with emulated_server(real, self._patch, environment={**os.environ, "PYTHONPATH": path}) as port:
            pair, other = self._pair(real, port, http), self._pair(real, sound, http)
            for start in range(0, self._histories, _PART):
                seeds = range(start, min(start + _PART, self._histories))
                apart = await asyncio.gather(
                    *(self._apart(pair, other, history(objects, seed)) for seed in seeds)
                )
                for seed, text in zip(seeds, apart, strict=True):
                    if text:
                        return f"found by {seed} of {objects.name}: {text}"
        return ""

    async def _apart(self, pair: Pair, sound: Pair, sequence: dict[str, object]) -> str:
        found = self._difference(*await pair.runs(sequence))
        if found is None or self._difference(*await sound.runs(sequence)):
            return ""
        apart = self._difference(*await pair.runs(sequence))
        return "" if apart is None else apart.kind(sequence)


def drawn(seed: int, reached: Mapping[Path, frozenset[int]]) -> Iterator[Error]:
    """Draws errors, each once: a module at random, then one of those that can be made in it."""
    chance, made = random.Random(seed), set[Error]()
    known = {
        file: [*errors_of(file, lines)]
        for file, lines in sorted(reached.items())
        if not _LEFT_OUT & {file.name, *file.relative_to(_SOURCES.resolve()).parts}
    }
    files = [file for file, errors in known.items() if errors]
    while files:
        file = chance.choice(files)
        error = chance.choice(known[file])
        if error in made:
            known[file] = [each for each in known[file] if each not in made]
            files = [each for each in files if known[each]]
            continue
        made.add(error)
        yield error
