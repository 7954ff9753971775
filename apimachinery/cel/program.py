"""Expressions compiled once: checked, estimated, evaluated."""

import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kubeskew.apimachinery.cel import allowance, checker
from kubeskew.apimachinery.cel.checker import Checked, Checker
from kubeskew.apimachinery.cel.declarations import Declared, size_at
from kubeskew.apimachinery.cel.environments import LIMIT, Environment
from kubeskew.apimachinery.cel.errors import (
    CompileError,
    CostExceededError,
    EvaluationError,
    InstantiationError,
    Issue,
    PanicError,
    report,
)
from kubeskew.apimachinery.cel.estimator import Estimator
from kubeskew.apimachinery.cel.interpreter import Frame, Interpreter
from kubeskew.apimachinery.cel.parser.syntax import parse
from kubeskew.apimachinery.cel.types import ANY, Type

_RECURSION = 12_000  # enough for an expression of the deepest nesting allowed
_MOST_KEPT, _LONGEST_KEPT = 2048, 10_000  # limits per environment: expressions, and their characters
_DEEP = 100  # expressions with fewer nodes cannot exceed Python's own limit


class _Depth:
    """Raises Python's recursion limit for deeply nested expressions while any thread needs it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._before = 0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._before = sys.getrecursionlimit()
                sys.setrecursionlimit(max(self._before, _RECURSION))
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    sys.setrecursionlimit(self._before)


_deep = _Depth()


class Program:
    def __init__(self, expression: str, environment: Environment) -> None:
        self.expression = expression
        self._environment = environment
        with _deep():
            self._checked = _check(expression, environment)
            interpreter = Interpreter(self._checked, environment.functions)
            try:
                self._step = interpreter.build(self._checked.root)
            except CompileError as error:
                raise InstantiationError(str(error), self._checked.result) from None
        self._places = interpreter.places
        self._deep = len(self._checked.types) > _DEEP

    @property
    def result(self) -> Type:
        return self._checked.result

    @property
    def names(self) -> frozenset[str]:
        """Variables of the environment that the expression uses."""
        return frozenset(self._checked.names.values()) & frozenset(self._environment.variables)

    def estimate(self, start: Declared | None = None) -> tuple[int, int]:
        """Least and largest cost over all inputs that the declarations allow.

        With `start` every path counts, even if its first name is no variable. Upstream's estimator for rules
        of definitions does so, even for the names of types.
        """
        variables = self._environment.variables
        estimator = Estimator(
            self._checked,
            lambda path: size_at({path[0]: start} if start is not None else variables, path),
            self._environment.overrides,
        )
        with _deep():
            found = estimator.estimate()
        return found.low, found.high

    def evaluate(self, bindings: Mapping[str, Any], limit: int = LIMIT) -> tuple[Any, int]:
        """The value and its cost; raises EvaluationError with the `cost` until then."""
        allowed = allowance.left()
        frame = Frame(bindings, self._places, limit if allowed is None else min(limit, max(allowed, 0)))
        try:
            if not self._deep:
                return self._step(frame), frame.cost
            with _deep():
                return self._step(frame), frame.cost
        except EvaluationError as error:
            failure = EvaluationError(*error.args)
        except PanicError as error:
            failure = EvaluationError(f"internal error: {error}")
        except CostExceededError as error:
            if frame.limit < limit:
                raise allowance.AllowanceSpentError from None
            failure = EvaluationError(*error.args)
        except RecursionError:
            failure = EvaluationError("operation interrupted")
        finally:
            allowance.spend(frame.cost)
        failure.cost = frame.cost
        raise failure


def _check(expression: str, environment: Environment) -> Checked:
    try:
        root = parse(expression, environment.macros, optionals=environment.language.optionals)
        variables = {name: declared.type for name, declared in environment.variables.items()}
        checker = Checker(
            variables, environment.functions, environment.named_type, keywords=environment.language.keywords
        )
        checked = checker.check(root)
    except CompileError as error:
        raise CompileError(f"compilation failed: {error}") from None
    issues = checker.issues or list(_invalid(checked, environment))
    if issues:
        raise CompileError(f"compilation failed: {report(expression, issues)}")
    return checked


def _invalid(checked: Checked, environment: Environment) -> Iterator[Issue]:
    yield from checker.mixed_aggregates(checked)
    yield from checker.wrong_arguments(checked)
    if environment.language.validated:
        yield from checker.wrong_literals(checked)
        yield from checker.wrong_formats(checked)


def _compiled(expression: str, environment: Environment) -> Program | CompileError:
    """The environment keeps the program or error, so that both are freed with the schema of that
    environment."""
    kept: dict[str, Program | CompileError] = environment.programs
    found = kept.get(expression)
    if found is None:
        allowance.ask(len(expression) * allowance.PER_CHARACTER)
        try:
            found = Program(expression, environment)
        except CompileError as error:
            found = error.with_traceback(None)
        if len(kept) >= _MOST_KEPT:
            kept.clear()
        if len(expression) <= _LONGEST_KEPT:
            kept[expression] = found
    return found


def compile_expression(expression: str, environment: Environment, results: tuple[Type, ...] = ()) -> Program:
    """Compiles an expression once per environment; `results` are the types it may have (all, if empty).

    Raises CompileError with Kubernetes' text, e.g. `compilation failed: ERROR: …`.
    """
    program = _compiled(expression, environment)
    if isinstance(program, CompileError) and not isinstance(program, InstantiationError):
        raise CompileError(*program.args)
    if results and program.result not in (*results, ANY):
        wanted = str(results[0]) if len(results) == 1 else f"one of [{' '.join(map(str, results))}]"
        got = f" but got {program.result}" if environment.language.shows_result_type else ""
        raise CompileError(f"must evaluate to {wanted}{got}")
    if isinstance(program, InstantiationError):
        raise InstantiationError(*program.args)
    return program
