"""The errors of parsing, checking and evaluating expressions, worded as cel-go words them."""

from dataclasses import dataclass
from typing import Any


class CELError(Exception):
    """Any failure of an expression; the message is cel-go's."""


class CompileError(CELError):
    """The expression is not valid in its environment."""


class InstantiationError(CompileError):
    """The expression is valid, of type `result`, and a constant in it is not."""

    def __init__(self, message: str, result: Any) -> None:
        super().__init__(message, result)
        self.result = result

    def __str__(self) -> str:
        return str(self.args[0])


class EvaluationError(CELError):
    """The expression failed on this input; `cost` is the cost until then, once the error left `evaluate`."""

    cost: int = 0


class CostExceededError(CELError):
    """The cost limit was reached. Unlike other errors, nothing within the expression can catch it."""


class PanicError(CELError):
    """cel-go panicked, which ends the evaluation: nothing within the expression can catch it."""


NO_SUCH_OVERLOAD = "no such overload"
COST_EXCEEDED = "operation cancelled: actual cost limit exceeded"
_REPORTED = 100  # errors shown of one expression


@dataclass(frozen=True, slots=True)
class Issue:
    """One problem; `offset` counts code points, -1 for the expression as a whole."""

    offset: int
    message: str


def located(source: str, issue: Issue) -> str:
    """Adds the issue's place in `source` as cel-go shows it; columns count from 1."""
    if issue.offset < 0:
        return f"ERROR: <input>:-1:0: {issue.message}"
    if not source:
        return f"ERROR: <input>:1:0: {issue.message}"
    line_start = source.rfind("\n", 0, issue.offset) + 1
    line_number = source.count("\n", 0, issue.offset) + 1
    column = issue.offset - line_start
    line = source[line_start:].split("\n", 1)[0].replace("\t", " ")
    dots = "".join("\uff0e" if _is_wide(char) else "." for char in line[:column].ljust(column))
    caret = "\uff3e" if column < len(line) and _is_wide(line[column]) else "^"
    return f"ERROR: <input>:{line_number}:{column + 1}: {issue.message}\n | {line}\n | {dots}{caret}"


def _is_wide(char: str) -> bool:
    """Characters of more than one byte in UTF-8 are underlined by cel-go with a full-width sign."""
    return ord(char) > 0x7F


def report(source: str, issues: list[Issue]) -> str:
    """Sorts issues by place; those at one place keep their order, and 100 are shown at most."""
    ordered = sorted(issues, key=lambda issue: issue.offset)
    text = "\n".join(located(source, issue) for issue in ordered[:_REPORTED])
    if len(ordered) > _REPORTED:
        text += f"\n{len(ordered) - _REPORTED} more errors were truncated"
    return text
