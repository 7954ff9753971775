"""Expressions of webhooks and policies are compiled when they are written, to report their errors.

An expression that the old object has too was accepted before: it may use what is newer.
Source: k8s.io/kubernetes/pkg/apis/admissionregistration/validation/validation.go, 1.36.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from kubeskew.apimachinery.cel.release import Release
from kubeskew.apimachinery.field import ErrorType, FieldError, invalid
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.admission.dynamic import expressions
from kubeskew.apiserver.admission.dynamic.expressions import Expression
from kubeskew.apiserver.admission.policy import policies
from kubeskew.apiserver.admission.policy.policies import Compiler
from kubeskew.apiserver.registry.admissionregistration.validation import (
    Checks,
    ExpressionCheck,
    VariableCheck,
)

_INTERNAL = "program instantiation failed: "


def compile_errors(expression: Expression, path: str) -> Iterator[FieldError]:
    if expression.compiled() is None:
        why = expression.compile_error.removeprefix("compilation error: ")
        if why.startswith(_INTERNAL):
            yield FieldError(ErrorType.INTERNAL, path, detail=why)
        else:
            yield invalid(path, expression.source, why)


def condition_check(release: Release, known: frozenset[str], *, params: bool = False) -> ExpressionCheck:
    """`known` expressions were there before, and may use what is newer."""

    def check(source: str, path: str) -> Iterator[FieldError]:
        from kubeskew.apimachinery.cel import types

        environment = expressions.environment(release, params=params, stored=source in known)
        yield from compile_errors(Expression(source, environment, (types.BOOL,)), path)

    return check


def policy_checks(release: Release, spec: Object, old: Object | None, *, mutating: bool) -> Checks:
    """`old` is the spec that the policy had, None for a new one.

    The expressions of a validating policy without variables do not know `variables` at all.
    """
    from kubeskew.apimachinery.cel import types

    params = spec.get("paramKind") is not None
    known = frozenset(_expressions(old or {}))
    compiler = Compiler(release, params=params, composes=mutating or bool(spec.get("variables")))

    def check(results: Sequence[Any], *, authorizer: bool = True) -> ExpressionCheck:
        def run(source: str, path: str) -> Iterator[FieldError]:
            stored = source in known
            made = compiler.expression(source, results, authorizer=authorizer, stored=stored)
            yield from compile_errors(made, path)

        return run

    def mutation(kind: str) -> ExpressionCheck:
        def run(source: str, path: str) -> Iterator[FieldError]:
            stored = source in known
            yield from compile_errors(policies.expression(compiler, kind, source, stored=stored), path)

        return run

    return Checks(
        condition=condition_check(release, known, params=params),
        validation=check((types.BOOL,)),
        message=check((types.STRING,), authorizer=False),
        annotation=check((types.STRING, types.NULL)),
        mutation={kind: mutation(kind) for kind in policies.KINDS},
        variable=_variable_check(compiler, known),
    )


def _variable_check(compiler: Compiler, known: frozenset[str]) -> VariableCheck:
    def run(name: str, source: str, path: str) -> Iterator[FieldError]:
        expression = compiler.expression(source, stored=source in known)
        yield from compile_errors(expression, path)
        compiler.declare(name, expression)

    return run


def webhook_expressions(obj: Object) -> frozenset[str]:
    return frozenset(
        (condition.get("expression") or "").strip()
        for hook in obj.get("webhooks") or ()
        for condition in hook.get("matchConditions") or ()
    )


def _expressions(spec: Object) -> Iterator[str]:
    for condition in spec.get("matchConditions") or ():
        yield (condition.get("expression") or "").strip()
    for variable in spec.get("variables") or ():
        yield variable.get("expression") or ""
    for validation in spec.get("validations") or ():
        yield validation.get("expression") or ""
        yield validation.get("messageExpression") or ""
    for annotation in spec.get("auditAnnotations") or ():
        yield annotation.get("valueExpression") or ""
    for mutation in spec.get("mutations") or ():
        for name in ("applyConfiguration", "jsonPatch"):
            yield (mutation.get(name) or {}).get("expression") or ""
