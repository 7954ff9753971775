"""Differences between two runs of a history: step by step, and the class that a difference falls into."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from transcript_answers import apart
from transcripts import Run

_STEP = re.compile(r"step (\d+): (.*)", re.DOTALL)
_QUOTED = re.compile(r'"[^"]*"|\'[^\']*\'|`[^`]*`|\b\d+\b|\$\{\w+\}|<[^>]*>')
_GENERATED = re.compile(r"((?:\b[abc]|example\.com|\b10(?:\.\d+){3})-)[bcdfghjklmnpqrstvwxz2456789]{5}\b")
_DRAWN = re.compile(
    r"\b10\.96\.\d+\.\d+\b|(?<=[pP]ort:)3\d{4}\b|(?<=Port\\\\\\\":)3\d{4}\b|(?<=:)3\d{4}(?=/)"
    r"|(?<=Duplicate value: )3\d{4}\b"
)
_UNTYPED = re.compile(r"failed to create typed patch object \([^)]*\): ")
_TYPE = re.compile(r"\bselfType\d+")  # numbered by the process, across all definitions that it has seen
# UPSTREAM: <carry> a role of the fork whose sources the programs were built from, for all users.
_CARRIED = ["/.well-known", "/.well-known/*"]
_MESSAGE = re.compile(r"[\w.\[\]]*message: expected (.*), got (.*)", re.DOTALL)
# How releases up to 1.33 show a value in an error: docs/fidelity.md names the difference.
_GO_SYNTAX = re.compile(r"\w+\.\w+\{|\[\]|map\[|\"null\"|0x")
_INDEX = re.compile(r"\[\d+\]")


@dataclass(frozen=True, slots=True)
class Difference:
    """The first step that two servers answered apart, and how."""

    step: int  # from 0
    found: Sequence[str]

    def kind(self, sequence: dict[str, Any]) -> str:
        """Returns the class: the request's verb and resource, and the answers without names and numbers."""
        step = sequence["steps"][self.step]
        path = step["path"].partition("?")[0]
        parts = [
            each
            for each in path.split("/")
            if "${" not in each and each not in {"api", "apis", "namespaces", "a", "b", "c"}
        ]
        content = (
            step.get("headers", {}).get("Content-Type", "").removeprefix("application/").partition("+")[0]
        )
        query = "dryRun" if "dryRun" in step["path"] else ""
        said = _QUOTED.sub("_", _INDEX.sub("[]", self.found[0]))[:160]
        return " ".join(filter(None, (step["method"], "/".join(parts), content, query, said)))


def _with_fixed_names(run: Run) -> Run:
    """Returns the run without what the server drew: generated names, names of types, addresses, ports."""
    text = _TYPE.sub("selfType", _GENERATED.sub(r"\1<random>", json.dumps(run.answers)))
    text = _DRAWN.sub("<drawn>", text)
    run.answers = json.loads(text, object_hook=_sorted)
    for answer in run.answers:
        if isinstance(answer.get("body"), dict):
            _fix(answer["body"])
    return run


def _fix(body: dict[str, Any]) -> None:
    """Sorts a user's rules, which come in the order of a walk through a map of bindings, and leaves out what
    is written in the background."""
    if body.get("kind") == "SelfSubjectRulesReview":
        for name in ("resourceRules", "nonResourceRules"):
            rules = body.get("status", {}).get(name) or []
            rules.sort(key=lambda rule: json.dumps(rule, sort_keys=True))
            body["status"][name] = [rule for rule in rules if rule.get("nonResourceURLs") != _CARRIED]
    elif body.get("kind") == "CustomResourceDefinition":
        # Its conditions are written in the background, sooner or later.
        body.pop("status", None)
        body.get("metadata", {}).pop("resourceVersion", None)
        body.get("metadata", {}).pop("managedFields", None)


def _sorted(node: dict[str, Any]) -> dict[str, Any]:
    """An applied configuration is walked along Go's maps; an undeclared field ends a map's walk."""
    message = node.get("message")
    if isinstance(message, str) and (head := _UNTYPED.match(message)):
        if "field not declared in schema" in message:
            node["message"] = f"{head[0]}<with undeclared fields>"
        else:
            node["message"] = "\n".join(sorted(message.split("\n")))
    return node


def is_of_values(text: str) -> bool:
    """Returns whether messages are apart in how a value, or the difference of two, is written in them."""
    match = _MESSAGE.fullmatch(text)
    if match is None:
        return False
    real, ours = match[1], match[2]
    before, word, _ = real[: _common(real, ours)].rpartition("value: ")
    rest = real[len(real) - _common(real[::-1], ours[::-1]) :]
    ends = ": " in rest or real[-2:-1] in {"}", ")"}  # the value does
    if word and ends and _GO_SYNTAX.match(real[len(before + word) :]):
        return True
    return "\\n" in real and real.partition("\\n")[0] == ours.partition("\\n")[0]


def _common(one: str, other: str) -> int:
    """Returns the length of what two texts begin with."""
    apart = (at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1])
    return next(apart, min(len(one), len(other)))


def shows_json(minor: int) -> bool:
    """True of releases that show values in errors as JSON: others are compared without them."""
    return minor >= 34


def difference(one: Run, other: Run, *, values: bool = True) -> Difference | None:
    """Returns the first step that came out apart; None if all are alike.

    Without `values`, messages are not compared by how values are written in them.
    """
    found = [_STEP.fullmatch(each) for each in apart(_with_fixed_names(one), _with_fixed_names(other))]
    steps = [(int(each[1]) - 1, each[2]) for each in found if each is not None]
    # A real server that ends a connection has panicked: a bug of its own, behind which nothing is compared.
    panics = next((number for number, answer in enumerate(one.answers) if "failed" in answer), None)
    steps = [(number, text) for number, text in steps if panics is None or number < panics]
    steps = [(number, text) for number, text in steps if values or not is_of_values(text)]
    if not steps:
        return None
    first = min(number for number, _ in steps)
    return Difference(first, [text for number, text in steps if number == first])
