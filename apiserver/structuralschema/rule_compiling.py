"""Checks the expressions of a definition: they must compile, and their cost is limited.

Source: apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go, 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery import cel
from kubeskew.apimachinery.field import OMITTED, ErrorType, FieldError, forbidden, invalid
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.features import SchemaFeatures
from kubeskew.apiserver.structuralschema import costs, go_struct
from kubeskew.apiserver.structuralschema.costs import Context
from kubeskew.apiserver.structuralschema.paths import child
from kubeskew.apiserver.structuralschema.rule_programs import RuleProgram, compile_rules

_NO_TYPE = (
    "internal error: failed to construct type information for x-kubernetes-validations rules: "
    "unable to convert structural schema to CEL declarations"
)


class RuleCompiler:
    """Compiles the rules of a definition.

    `known` expressions are stored; without `charges` the cost of a single rule is not told.
    """

    def __init__(self, features: SchemaFeatures, known: frozenset[str], *, charges: bool) -> None:
        self.features, self.known, self.charges = features, known, charges

    def check(self, props: Object, path: str, context: Context, uncorrelatable: str) -> list[FieldError]:
        """Returns errors of the rules of a schema; their costs are added to the context's total."""
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
        cost = min(program.max_cost * often, costs.MOST)
        if self.charges and cost > costs.RULE_LIMIT:
            yield forbidden(f"{at}.rule", costs.excess("estimated rule cost", cost, costs.RULE_LIMIT))
        context.total.add(f"{at}.rule", cost)
        if program.error:
            yield invalid(f"{at}.rule", go_struct.rule(program.rule), program.error)
        if program.message_error:
            yield invalid(f"{at}.messageExpression", go_struct.rule(program.rule), program.message_error)
        elif program.message is not None:
            cost = program.message_max_cost
            if self.charges and cost > costs.RULE_LIMIT:
                text = costs.excess("estimated messageExpression cost", cost, costs.RULE_LIMIT)
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
