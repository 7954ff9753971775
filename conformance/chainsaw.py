r"""Chainsaw's language: expressions, paths, durations and files, and which of its keys are not done here.

A text in parentheses is JMESPath. Of a key, as kyverno-json reads them (pkg/core/expression/parser.go):

- `(length(items))` is evaluated against the object found;
- `~.(items)` or `~.items` is of every item of a list or mapping, `~at.(items)` binds its place to `$at`;
- `(status)->now` or `status->now` binds what was found to `$now`, for what stands below;
- `\(text)\` is the text `(text)` itself.

Paths are as kubectl writes them, `{.status.phase}`: those of names and places, which `wait` looks at.
Durations are as Go writes them. Files that a scenario names lie next to its own. Keys are done if
conformance/grammar.py takes them: the table of docs/chainsaw.md is the difference.

Source: kyverno/chainsaw, pkg/apis/v1alpha1 (test.go, step.go, operation.go, action.go).
"""

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubeskew.conformance.errors import ScenarioError

_DURATION = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>ms|s|m|h)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_EXPRESSION = re.compile(r"^\((?:\s*jp\s*;)?(?P<text>.+)\)$", re.DOTALL)
_EACH = re.compile(r"^~(?P<place>\w*)\.(?P<rest>.*)$", re.DOTALL)
_BINDING = re.compile(r"^(?P<rest>.*?)\s*->\s*(?P<name>\w+)$", re.DOTALL)
_ESCAPED = re.compile(r"^\\(?P<text>.+)\\$", re.DOTALL)
_CEL = re.compile(r"^\s*cel\s*;")
_PART = re.compile(r"\.(?P<name>[A-Za-z_][\w-]*)|\[(?P<place>\d+)\]|\['(?P<quoted>[^']+)'\]")
_WILD = frozenset("*?[")


def seconds(text: Any, where: str) -> float:
    """Parses a Go duration such as `1m30s`. Raises ScenarioError that names `where`."""
    found = list(_DURATION.finditer(str(text)))
    if not found or "".join(match[0] for match in found) != str(text):
        raise ScenarioError(f"{where}: {text!r} is not a duration; write 30s or 1m30s")
    return sum(float(match["number"]) * _UNITS[match["unit"]] for match in found)


def expression(text: Any) -> str | None:
    """None stands for anything but a string in parentheses."""
    found = _EXPRESSION.match(text) if isinstance(text, str) else None
    return found["text"] if found else None


def is_cel(text: str) -> bool:
    return bool(_CEL.match(text))


def unescaped(text: str) -> str:
    """A text between backslashes stands for what is between them."""
    found = _ESCAPED.match(text) if text.startswith("\\") else None
    return found["text"] if found else text


@dataclass(frozen=True, slots=True)
class Key:
    """A key of an assertion: an expression or the name of a field, whether each item of it is meant, and the
    names to which its value and the place of an item are bound."""

    text: str
    is_expression: bool
    of_each: bool = False
    place: str = ""
    binding: str = ""

    @property
    def bound(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.place, self.binding)))


@functools.lru_cache(1024)
def parse_key(text: str) -> Key:
    rest, each = text, _EACH.match(text)
    if each:
        rest = each["rest"]
    binding = _BINDING.match(rest)
    if binding:
        rest = binding["rest"]
    inner = expression(rest)
    return Key(
        unescaped(rest) if inner is None else inner,
        inner is not None,
        each is not None,
        each["place"] if each else "",
        binding["name"] if binding else "",
    )


def bound_below(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, below in value.items():
            if isinstance(key, str):
                yield from parse_key(key).bound
            yield from bound_below(below)
    elif isinstance(value, list):
        for item in value:
            yield from bound_below(item)


def json_path(text: str) -> str | None:
    """Only names and places can be translated to JMESPath: None for a path with filters or wildcards."""
    path = text.removeprefix("{").removesuffix("}").removeprefix("$")
    path = path if path.startswith((".", "[")) else f".{path}"
    parts = list(_PART.finditer(path))
    if not parts or "".join(part[0] for part in parts) != path:
        return None
    return ".".join(
        f'"{part["name"] or part["quoted"]}"' if part["place"] is None else f"[{part['place']}]"
        for part in parts
    ).replace(".[", "[")


def folder_of(where: str) -> Path:
    """A place in a scenario reads `FILE: spec.steps[0]`."""
    return Path(where.partition(":")[0]).parent


def named_files(where: str, name: str) -> list[Path]:
    """The name may be a shell pattern; files come in the order of their names.

    Raises ScenarioError if there is none.
    """
    if "://" in name:
        raise ScenarioError(
            f"{where}.file: Chainsaw's files at a URL are not supported here: put {name} next to the scenario"
        )
    folder = folder_of(where)
    try:
        found = sorted(folder.glob(name)) if _WILD & {*name} else [folder / name]
    except (NotImplementedError, ValueError) as error:  # an absolute pattern, or ** within a name
        raise ScenarioError(
            f"{where}.file: {name} is no pattern of files next to the scenario: {error}"
        ) from error
    found = [path for path in found if path.is_file()]
    if not found:
        raise ScenarioError(f"{where}.file: there is no file {folder / name}")
    return found


_CLUSTERS = ("cluster", "clusters")
_WRITING = ("resource", "file", "expect", "outputs", "bindings", "template", "dryRun", "timeout", *_CLUSTERS)
_LOOKING = ("resource", "file", "bindings", "template", "timeout", *_CLUSTERS)
_RUNNING = (
    *("env", "check", "outputs", "bindings", "skipLogOutput", "skipCommandOutput", "workDir", "timeout"),
    *_CLUSTERS,
)
_SELECTING = ("name", "namespace", "selector", "timeout", *_CLUSTERS)
_KINDED = ("apiVersion", "kind")

# By where they stand; operations by their names.
KEYS: Mapping[str, Sequence[str]] = {
    "Test": (
        *("description", "steps", "bindings", "timeouts", "catch", "namespace", "concurrent", "skipDelete"),
        *("template", "fastNamespaceDeletion", "failFast", "skip", "scenarios", "namespaceTemplate"),
        *("namespaceTemplateCompiler", "compiler", "delayBeforeCleanup", "deletionPropagationPolicy"),
        *("forceTerminationGracePeriod", *_CLUSTERS),
    ),
    "step": (
        *("name", "description", "bindings", "timeouts", "try", "catch", "finally", "cleanup"),
        *("template", "skipDelete", "use", "compiler", "deletionPropagationPolicy", *_CLUSTERS),
    ),
    "any operation": ("description", "continueOnError", "compiler"),
    "apply": _WRITING,
    "create": _WRITING,
    "update": _WRITING,
    "patch": (*_WRITING, "subresource"),
    "delete": (
        *("ref", "file", "expect", "bindings", "template", "deletionPropagationPolicy", "timeout"),
        *_CLUSTERS,
    ),
    "assert": _LOOKING,
    "error": _LOOKING,
    "script": ("content", "shell", "shellArgs", *_RUNNING),
    "command": ("entrypoint", "args", *_RUNNING),
    "sleep": ("duration",),
    "wait": (*_KINDED, "for", "format", *_SELECTING),
    "get": (*_KINDED, "format", *_SELECTING),
    "describe": (*_KINDED, "showEvents", *_SELECTING),
    "events": ("format", *_SELECTING),
    "podLogs": ("container", "tail", *_SELECTING),
    "proxy": (*_KINDED, "name", "namespace", "port", "path", "outputs", "timeout", *_CLUSTERS),
    "bindings": ("name", "value", "compiler"),
    "outputs": ("name", "value", "match", "compiler"),
    "expect": ("match", "check"),
}

# What to write instead of what is not done.
INSTEAD: Mapping[str, str] = {
    "cluster": "name a context of the kubeconfig by `through` next to the operation",
    "clusters": "name a context of the kubeconfig by `through` next to the operation",
    "compiler": "write JMESPath, which is what an expression is without it",
    "delayBeforeCleanup": "write a `sleep` in `cleanup`",
    "deletionPropagationPolicy": "write it in the `delete`",
    "dryRun": "write a `script` with `kubectl --dry-run=server`",
    "failFast": "choose cells by `--only`",
    "forceTerminationGracePeriod": "write `gracePeriodSeconds` in the `delete`",
    "namespaceTemplate": "write a `patch` of the Namespace",
    "namespaceTemplateCompiler": "write a `patch` of the Namespace",
    "proxy": "write a `script` with `kubectl get --raw`",
    "scenarios": "write `parameters` in a header, which make a cell for each value",
    "skip": "choose cells by `--only`",
    "skipDelete": "write it in the Test's `spec`",
    "use": "write the steps out, or repeat them by `forEach`",
}

# Bindings that Chainsaw has and nothing here has, and what to write instead.
BINDINGS: Mapping[str, str] = {
    "values": "write `bindings`",
    "client": "write an `assert`",
    "config": "write a `script`, which has $KUBECONFIG",
    "test": "write its name",
    "step": "write its number",
    "operation": "write `outputs` with a `match`",
}
