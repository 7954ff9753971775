"""Validates x-kubernetes-validations in a definition: texts, expressions and their cost.

Sources: apiextensions-apiserver pkg/apis/apiextensions/validation/cel_validation.go, 1.36;
apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go, 1.36.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from kubeskew.apimachinery import cel
from kubeskew.apimachinery.field import (
    OMITTED,
    ErrorType,
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.features import SchemaFeatures
from kubeskew.apiserver.structuralschema import conversion
from kubeskew.apiserver.structuralschema.rule_programs import (
    FieldPathError,
    RuleProgram,
    compile_rules,
    read_field_path,
)
from kubeskew.apiserver.structuralschema.validation_errors import child

RULE_LIMIT: Final = 10_000_000
DEFINITION_LIMIT: Final = 100_000_000
MOST: Final = 2**64 - 1
_REPORTED: Final = 4  # of the most expensive rules
_ADVICE: Final = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, "
    "and strings are declared)"
)
_BREAK = re.compile(r"[\n\r]")
REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_NO_TYPE = (
    "internal error: failed to construct type information for x-kubernetes-validations rules: "
    "unable to convert structural schema to CEL declarations"
)


@dataclass
class TotalCost:
    """`expensive` has cost and path of the rules that cost most."""

    cost: int = 0
    expensive: list[tuple[int, str]] = field(default_factory=list)

    def add(self, path: str, cost: int) -> None:
        self.cost = min(self.cost + cost, MOST)
        if cost >= DEFINITION_LIMIT // 100:
            self.expensive.append((cost, path))
            self.expensive = sorted(self.expensive, key=lambda entry: -entry[0])[:_REPORTED]


@dataclass(frozen=True, slots=True)
class Context:
    """Rules see a node of the schema; `cardinality` is the most values it may have, None without a limit."""

    props: Object
    total: TotalCost
    cardinality: int | None = 1
    root: bool = False

    def below(self, props: Object) -> "Context":
        factor = _elements(self.props)
        many = None if self.cardinality is None or factor is None else min(self.cardinality * factor, MOST)
        return Context(props, self.total, many)


def _elements(props: Object) -> int | None:
    """None if the number of values per field below is unlimited."""
    limit: int | None = 1
    if props.get("type") == "object" and props.get("additionalProperties") is not None:
        limit = props.get("maxProperties")
    elif props.get("type") == "array":
        limit = props.get("maxItems")
    return None if limit is None else max(limit, 0)


def excess(name: str, cost: int, limit: int) -> str:
    factor = cost / limit
    if factor > 100:
        shown = "more than 100x"
    elif factor < 1.5:
        shown = f"{factor:f}x"  # not "1.0x"
    else:
        shown = f"{factor:.1f}x"
    return f"{name} exceeds budget by factor of {shown} {_ADVICE}"


def check_rule_texts(
    rules: Sequence[Object], path: str, props: Object | None, features: SchemaFeatures
) -> list[FieldError]:
    """`props` is None where no path of a rule is followed."""
    prefix = features.names_rule_fields
    at = child(path, "x-kubernetes-validations")
    return [
        error
        for position, rule in enumerate(rules)
        for error in (
            *_text(rule, f"{at}[{position}]", named=prefix),
            *_rest(rule, f"{at}[{position}]", props, named=prefix),
        )
    ]


def _text(rule: Object, at: str, *, named: bool) -> Iterator[FieldError]:
    subject = "message " if named else ""
    expression, message = (rule.get("rule") or "").strip(), rule.get("message") or ""
    trimmed = message.strip()
    if not expression:
        yield required(f"{at}.rule", "rule is not specified")
    elif message and not trimmed:
        yield invalid(f"{at}.message", message, f"{subject}must be non-empty if specified")
    elif _BREAK.search(trimmed):
        yield invalid(f"{at}.message", message, f"{subject}must not contain line breaks")
    elif _BREAK.search(expression) and not trimmed:
        yield required(f"{at}.message", "message must be specified if rule contains line breaks")


def _rest(rule: Object, at: str, props: Object | None, *, named: bool) -> Iterator[FieldError]:
    subject = "fieldPath " if named else ""
    expression, reason = rule.get("messageExpression") or "", rule.get("reason")
    if expression and not expression.strip():
        yield required(f"{at}.messageExpression", "messageExpression must be non-empty if specified")
    if reason is not None and reason not in REASONS:
        yield not_supported(f"{at}.reason", reason, REASONS)
    path = rule.get("fieldPath") or ""
    if path and not path.strip():
        yield invalid(f"{at}.fieldPath", path, f"{subject}must be non-empty if specified")
    if _BREAK.search(path):
        yield invalid(f"{at}.fieldPath", path, f"{subject}must not contain line breaks")
    if path and props is not None and not _names_field(path, props):
        yield invalid(f"{at}.fieldPath", path, f"{subject}must be a valid path")


def _names_field(path: str, props: Object) -> bool:
    try:
        read_field_path(path, props)
    except FieldPathError:
        return False
    return True


class RuleCompiler:
    """Compiles the rules of a definition.

    `known` expressions are stored; without `charges` the cost of a single rule is not reported.
    """

    def __init__(self, features: SchemaFeatures, known: frozenset[str], *, charges: bool) -> None:
        self.features, self.known, self.charges = features, known, charges

    def check(self, props: Object, path: str, context: Context, uncorrelatable: str) -> list[FieldError]:
        """Costs of the rules are added to the context's total."""
        at = child(path, "x-kubernetes-validations")
        root = context.root or bool(props.get("x-kubernetes-embedded-resource"))
        declared = cel.declare(props, root=root)
        if declared is None:
            return [FieldError(ErrorType.INTERNAL, at, OMITTED, _NO_TYPE)]
        programs = compile_rules(
            tuple(props["x-kubernetes-validations"]),
            props,
            declared,
            self.features.expressions,
            self.known.__contains__,
        )
        return [
            error
            for position, program in enumerate(programs)
            for error in self._check(program, f"{at}[{position}]", context, uncorrelatable)
        ]

    def _check(
        self, program: RuleProgram, at: str, context: Context, uncorrelatable: str
    ) -> Iterator[FieldError]:
        often = program.most if context.cardinality is None else context.cardinality
        cost = min(program.max_cost * often, MOST)
        if self.charges and cost > RULE_LIMIT:
            yield forbidden(f"{at}.rule", excess("estimated rule cost", cost, RULE_LIMIT))
        context.total.add(f"{at}.rule", cost)
        if program.error:
            yield invalid(f"{at}.rule", conversion.go_rule(program.rule), program.error)
        if program.message_error:
            yield invalid(f"{at}.messageExpression", conversion.go_rule(program.rule), program.message_error)
        elif program.message is not None:
            cost = program.message_max_cost
            if self.charges and cost > RULE_LIMIT:
                text = excess("estimated messageExpression cost", cost, RULE_LIMIT)
                yield forbidden(f"{at}.messageExpression", text)
            context.total.add(f"{at}.messageExpression", cost)
        if program.uses_old and uncorrelatable:
            yield invalid(
                f"{at}.rule",
                program.rule["rule"],
                f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelatable}",
            )
        elif not program.uses_old and program.rule.get("optionalOldSelf") is not None:
            yield invalid(
                f"{at}.optionalOldSelf",
                program.rule["optionalOldSelf"],
                "may not be set if oldSelf is not used in rule",
            )
