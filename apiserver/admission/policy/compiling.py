"""Compiles the expressions of one policy in an environment that grows with its variables.

Source: k8s.io/apiserver/pkg/admission/plugin/cel/composition.go, 1.36.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kubeskew.apimachinery.cel.release import Release
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.admission.dynamic import expressions
from kubeskew.apiserver.admission.dynamic.expressions import Expression

if TYPE_CHECKING:
    from kubeskew.apimachinery.cel import Environment

_VARIABLES = "variables"


class Compiler:
    """Makes expressions that may name the variables declared so far."""

    def __init__(
        self,
        release: Release,
        *,
        params: bool,
        stored: bool = True,
        declared: Mapping[str, Any] | None = None,
        composes: bool = True,
    ) -> None:
        """Makes a compiler; `composes`: its expressions know `variables`, if only as none."""
        self._release, self._params, self._stored = release, params, stored
        self._declared = dict(declared or {})  # what is known of variables that may be anything
        self._composes = composes
        self._types: dict[str, Any] = {}
        self._programs: dict[str, Expression] = {}
        self._environments: dict[tuple[bool, bool], Environment] = {}

    def expression(
        self,
        source: str,
        results: Sequence[Any] = (),
        *,
        authorizer: bool = True,
        stored: bool | None = None,
    ) -> Expression:
        """Returns an expression; it is compiled when it is first needed."""
        known = self._stored if stored is None else stored
        return Expression(source, self.environment(authorizer=authorizer, stored=known), results)

    def environment(self, *, authorizer: bool = True, stored: bool = True) -> "Environment":
        """Returns the environment with the variables declared so far."""
        from kubeskew.apimachinery.cel import types

        key = authorizer, stored
        if key not in self._environments:
            base = expressions.environment(
                self._release, params=self._params, stored=stored, authorizer=authorizer
            )
            declared = dict(self._declared)
            if self._composes:
                declared[_VARIABLES] = types.object_type("kubernetes.variables", dict(self._types))
            self._environments[key] = base.extended(declared)
        return self._environments[key]

    def declare(self, name: str, expression: Expression) -> None:
        """Lets later expressions use `variables.NAME`; a variable that does not compile has any type."""
        from kubeskew.apimachinery.cel import types

        program = expression.compiled()
        self._types[name] = types.DYN if program is None else program.result
        self._programs[name] = expression
        self._environments.clear()

    def bind(self, bound: Mapping[str, Any]) -> dict[str, Any]:
        """Returns `bound` with `variables`, each of which is evaluated at its first use."""
        from kubeskew.apimachinery import cel

        variables: dict[str, Any] = {}
        complete = {**bound, _VARIABLES: variables}

        def lazy(name: str, expression: Expression) -> Any:
            def evaluate() -> tuple[Any, int]:
                program = expression.compiled()
                if program is None:
                    why = expression.compile_error.removeprefix("compilation error: ")
                    raise cel.EvaluationError(f'composited variable "{name}" fails to compile: {why}')
                try:
                    return program.evaluate(complete, limit=expressions.BUDGET)
                except cel.EvaluationError as error:
                    text = f'composited variable "{name}" fails to evaluate: {error}'
                    raise cel.EvaluationError(text) from None

            return cel.Lazy(evaluate)

        for name, expression in self._programs.items():
            variables[name] = lazy(name, expression)
        return complete


def declare_all(compiler: Compiler, variables: Sequence[Object]) -> None:
    """Declares `spec.variables` in order: each may use those before it."""
    for variable in variables:
        expression = compiler.expression(variable.get("expression") or "")
        compiler.declare(variable.get("name") or "", expression)
