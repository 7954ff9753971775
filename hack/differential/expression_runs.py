"""Has a real API server and ours compile and evaluate batches of random expressions."""

import asyncio
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from expression_batches import BUDGET, Listed, Rule, RuleBatch, fuel, policy, selectors
from releases import PATCHES, of_api_servers
from servers import Pair, servers

from kubeskew.apimachinery.versions import Version

_AT_ONCE = 3
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_DRY = "?dryRun=All"
_PLACE = re.compile(r"properties\[f(\d)\]\.items\.x-kubernetes-validations\[(\d+)\]\.(\w+)")
_RULE = re.compile(r"spec\]\.x-kubernetes-validations\[(\d+)\]")
_NUMBER = re.compile(r"(?:: r|rule: r)(\d+)\b")
_VALUE = re.compile(
    r"^Invalid value: (?:apiextensions\.ValidationRule)?\{.*?\}: (?=compilation|program|cel |message|must)",
    re.DOTALL,
)
_QUOTED = re.compile(r'"[^"]*"|\'[^\']*\'|`[^`]*`|-?\b\d[\w.+-]*')
_TYPE = re.compile(r"\bselfType\d+")  # numbered by the process
_OUT = "running out of cost budget"
_MOST_EVALUATED = 1_000_000
_OF_A_DEFINITION = 40_000_000

Causes = Mapping[Any, Sequence[str]]


@dataclass(slots=True)
class Apart:
    """Expressions that came out apart in one way."""

    kind: str
    expression: str
    real: str
    ours: str
    seeds: list[int] = field(default_factory=list)


class ExpressionRuns:
    """Compares two servers' answers to batches; `found` has what came out apart, by class."""

    def __init__(self, pair: Pair, minor: int, objects: int) -> None:
        self._pair, self._minor, self._objects = pair, minor, objects
        self.found: dict[str, Apart] = {}
        self.expressions = self.evaluations = self.compiled = self.budgets = 0

    async def run(self, mix: str, seeds: Sequence[int], count: int) -> None:
        gate, began = asyncio.Semaphore(_AT_ONCE), time.monotonic()
        done = 0

        async def one(seed: int) -> None:
            nonlocal done
            async with gate:
                if mix == "rules":
                    try:
                        await self._rules(seed, count)
                    except (ArithmeticError, LookupError, TypeError, AttributeError) as error:
                        self._note("crash", seed, "", [], [f"{type(error).__name__}: {error}"])
                else:
                    await self._listed(
                        (policy if mix == "policies" else selectors)(self._minor, seed, count), seed
                    )
            done += 1
            if done % 10 == 0:
                click.echo(
                    f"{done} of {len(seeds)} batches, {self.expressions} expressions "
                    f"({self.compiled} compiled), {self.evaluations} evaluations, "
                    f"{len(self.found)} classes, {time.monotonic() - began:.0f} s",
                    err=True,
                )

        async with asyncio.TaskGroup() as group:
            for seed in seeds:
                group.create_task(one(seed))

    # -- requests

    async def _post(self, path: str, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        step = {"method": "POST", "path": path, "headers": {}, "body": body}
        answers = await self._pair.ask(step)
        return [
            json.loads(text) if text[:1] == "{" else {"code": status, "message": text}
            for status, text in answers
        ]

    def _note(self, sort: str, seed: int, expression: str, real: Sequence[str], ours: Sequence[str]) -> None:
        one, other = ("\n".join(each) for each in (real, ours))
        short = [_QUOTED.sub("_", _brief(each))[:90] for each in (one, other)]
        kind = f"{sort}: {short[0]} | {short[1]}"
        found = self.found.get(kind)
        if found is None:
            found = self.found[kind] = Apart(kind, expression, one, other)
        elif len(expression) < len(found.expression):
            found.expression, found.real, found.ours = expression, one, other
        found.seeds.append(seed)

    def _compare(self, sort: str, seed: int, texts: Mapping[Any, str], real: Causes, ours: Causes) -> None:
        for key in sorted({*real, *ours}, key=str):
            one, other = real.get(key, ()), ours.get(key, ())
            if list(map(_compared, one)) != list(map(_compared, other)):
                self._note(sort, seed, texts.get(key, ""), one, other)

    # -- what is only compiled

    async def _listed(self, listed: Listed, seed: int) -> None:
        self.expressions += len(listed.expressions)
        real, ours = await self._post(listed.path + _DRY, listed.body)
        found = [_by_field(each) for each in (real, ours)]
        self.compiled += len(listed.expressions) - len(found[0])
        if real.get("code") != ours.get("code"):
            self._note("code", seed, "", [str(real)[:300]], [str(ours)[:300]])
        self._compare("compile", seed, listed.expressions, *found)

    # -- rules

    async def _rules(self, seed: int, count: int) -> None:
        batch = RuleBatch(self._minor, seed, count)
        self.expressions += len(batch.rules)
        chosen, cost = [], 0
        for rule in await self._compiled(batch, batch.rules):
            if rule.most <= _MOST_EVALUATED and cost + rule.most <= _OF_A_DEFINITION:
                chosen.append(rule)
                cost += rule.most
        if chosen:
            await self._evaluated(batch, chosen)

    async def _compiled(self, batch: RuleBatch, rules: Sequence[Rule]) -> list[Rule]:
        """Compares what the rules' compilation comes to; returns those that both take."""
        definition, places = batch.estimates(rules)
        answers = await self._post(_DEFINITIONS + _DRY, definition)
        if answers[0].get("code") == 0:  # it panicked
            if len(rules) == 1:
                self._note(
                    "panic", batch.seed, rules[0].expression, [], [str(answers[1].get("message"))[:300]]
                )
                return []
            half = len(rules) // 2
            return [*await self._compiled(batch, rules[:half]), *await self._compiled(batch, rules[half:])]
        causes = [_by_place(each) for each in answers]
        parts = ("rule", "messageExpression")
        placed = {
            (at, number): rule for at, listed in enumerate(places) for number, rule in enumerate(listed)
        }
        texts = {(*place, part): rule.expression for place, rule in placed.items() for part in parts}
        self._compare("compile", batch.seed, texts, *causes)
        taken = []
        for place, rule in placed.items():
            said = [text for found in causes for part in parts for text in found.get((*place, part), ())]
            if rule.compiles and all("estimated rule cost" in text for text in said):
                taken.append(rule)
        self.compiled += len(taken)
        return taken

    async def _evaluated(self, batch: RuleBatch, rules: Sequence[Rule]) -> None:
        answers = await self._post(_DEFINITIONS, batch.evaluated(rules))
        refused = sorted({int(at) for each in answers for at in _RULE.findall(str(each.get("details")))})
        if refused and batch.burning <= refused[0]:  # for the cost of their messages
            rules = [rule for at, rule in enumerate(rules, batch.burning) if at not in refused]
            answers = await self._post(_DEFINITIONS, batch.evaluated(rules))
        name = f"{_DEFINITIONS}/{batch.name}.example.com"
        if any(each.get("kind") == "Status" for each in answers):
            self._note("definition", batch.seed, "", *[[str(each.get("message"))[:500]] for each in answers])
        else:
            path = f"/apis/example.com/v1/{batch.name}"
            await asyncio.gather(*(self._served(url, path) for url in (self._pair.real, self._pair.ours)))
            for number in range(self._objects):
                await self._object(batch, rules, number, path + _DRY)
        step = {"method": "DELETE", "path": name, "headers": {}}
        await self._pair.ask(step)

    async def _served(self, url: str, path: str) -> None:
        step = {"method": "GET", "path": path, "headers": {}}
        for _ in range(600):
            if (await self._pair.answer(url, step))[0] == 200:
                return
            await asyncio.sleep(0.05)

    async def _object(self, batch: RuleBatch, rules: Sequence[Rule], number: int, path: str) -> None:
        spec = batch.values(number)
        real, ours = [_by_rule(each) for each in await self._post(path, batch.thing(spec))]
        self.evaluations += len(rules)
        texts = {int(str(rule.rule["message"])[1:]): rule.expression for rule in rules}
        self._compare("value", batch.seed, texts, real, ours)
        if any(_OUT in str(each) for each in (real, ours)):
            return
        await self._budget(batch, rules, spec, path)

    async def _budget(
        self, batch: RuleBatch, rules: Sequence[Rule], spec: Mapping[str, Any], path: str
    ) -> None:
        """Leaves of the budget exactly what we need for all rules, then one less."""
        empty = {"fuel": "", "fine": "", "rest": ""}
        costs = batch.costs(rules, {**spec, **empty})
        sums = [sum(costs[: at + 1]) for at in range(len(costs))]

        async def ends(total: int) -> list[tuple[bool, frozenset[Any]]]:
            burnt = fuel(BUDGET - total)
            if burnt is None:
                return []
            answers = await self._post(path, batch.thing({**spec, **burnt}))
            return [(_OUT in str(each), frozenset(_by_rule(each))) for each in answers]

        async def apart(at: int) -> bool:
            for total in (sums[at], sums[at] - 1):
                found = await ends(total)
                if found and found[0] != found[1]:
                    return True
            return False

        self.budgets += 1
        last = len(sums) - 1
        enough, short = await ends(sums[last]), await ends(sums[last] - 1)
        if enough and short and enough[0] == enough[1] and short[0] == short[1]:
            if enough[1][0] or not short[1][0]:
                self._note("harness", batch.seed, "", [str(sums[last])], [f"{enough[1][0]} {short[1][0]}"])
            return
        low, high = 0, last  # the first place at which sums are apart
        while low < high:
            middle = (low + high) // 2
            if await apart(middle):
                high = middle
            else:
                low = middle + 1
        around = [
            f"{costs[at]}: {rules[at].rule['rule']}"
            for at in range(max(low - 1, 0), min(low + 1, len(rules)))
        ]
        self._note("cost", batch.seed, rules[low].expression, ["other"], around)


def _brief(text: str) -> str:
    """The words of a message without the expression that it shows."""
    text = _without_value(text).partition("\n |")[0]
    return re.sub(
        r"(evaluating rule|for rule): .*|ERROR: <input>:[-\d]+:\d+: |^Invalid value: \"object\": ",
        "",
        text,
        flags=re.DOTALL,
    )


def _without_value(text: str) -> str:
    return _TYPE.sub("selfType", _VALUE.sub("", text))


def _compared(text: str) -> str:
    """A message as it is compared: of a text that does not parse, syntax errors alone (docs/fidelity.md)."""
    text = _without_value(text)
    if "Syntax error" not in text:
        return text
    found = re.findall(r"ERROR: <input>:\d+:\d+: Syntax error: [^\n]*", text)
    return "\n".join(found)


def _details(answer: Mapping[str, Any]) -> Sequence[Mapping[str, str]]:
    return (answer.get("details") or {}).get("causes") or ()


def _by_field(answer: Mapping[str, Any]) -> Causes:
    found: dict[Any, list[str]] = {}
    for cause in _details(answer):
        found.setdefault(cause.get("field"), []).append(cause["message"])
    return found


def _by_place(answer: Mapping[str, Any]) -> Causes:
    found: dict[Any, list[str]] = {}
    for cause in _details(answer):
        place = _PLACE.search(cause.get("field", ""))
        key: Any = (int(place[1]), int(place[2]), place[3]) if place else ()
        text = cause["message"]
        if "contributed to" not in text and "entire OpenAPIv3 schema" not in text:
            found.setdefault(key, []).append(text)
    if "details" not in answer and answer.get("kind") == "Status":
        found[()] = [str(answer.get("message"))]
    return found


def _by_rule(answer: Mapping[str, Any]) -> Causes:
    found: dict[Any, list[str]] = {}
    for cause in _details(answer):
        number = _NUMBER.search(cause["message"])
        found.setdefault(int(number[1]) if number else "", []).append(cause["message"])
    if answer.get("kind") == "Status" and not found:
        found[""] = [str(answer.get("message"))]
    return found


@click.command()
@of_api_servers
@click.option(
    "--mix", type=click.Choice(["rules", "policies", "selectors"]), default="rules", show_default=True
)
@click.option("--first", default=0, show_default=True, help="The seed of the first batch.")
@click.option("--count", default=20, show_default=True, help="How many batches.")
@click.option("--size", default=300, show_default=True, help="How many expressions are in a batch.")
@click.option(
    "--objects", default=4, show_default=True, help="How many objects the rules of a batch look at."
)
@click.option("--out", type=click.Path(path_type=Path), help="A file that gets what came out apart, as JSON.")
def expressions(
    minor: str, binaries: Path, mix: str, first: int, count: int, size: int, objects: int, out: Path | None
) -> None:
    """Have a real kube-apiserver and ours compile and evaluate random CEL expressions.

    \b
      ETCD=/usr/bin/etcd hack/differential/run expressions 1.36 --binaries DIR --count 350
      hack/differential/run expressions 1.36 --binaries DIR --mix selectors
    """

    async def compared() -> ExpressionRuns:
        async with servers(binaries, minor, PATCHES[minor], {}) as pair:
            runs = ExpressionRuns(pair, Version.parse(minor).minor, objects)
            await runs.run(mix, range(first, first + count), size)
            _report(runs, out)
            return runs

    raise SystemExit(1 if asyncio.run(compared()).found else 0)


def _report(runs: ExpressionRuns, out: Path | None) -> None:
    classes = sorted(runs.found.values(), key=lambda each: -len(each.seeds))
    for each in classes:
        click.echo(f"\n{len(each.seeds)} ({each.seeds[0]}): {each.kind}\n  {each.expression[:600]}")
        click.echo(f"    real: {each.real[:600]}\n    ours: {each.ours[:600]}")
    apart = sum(len(each.seeds) for each in classes)
    click.echo(
        f"\n{runs.expressions} expressions ({runs.compiled} compiled), {runs.evaluations} evaluations, "
        f"{runs.budgets} budgets, {apart} apart, {len(classes)} classes"
    )
    if out is not None:
        rows = [
            {"kind": e.kind, "seeds": e.seeds, "expression": e.expression, "real": e.real, "ours": e.ours}
            for e in classes
        ]
        out.write_text(json.dumps(rows, indent=1))
