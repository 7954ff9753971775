"""Admission policies: CEL in objects of the API that refuses, warns, annotates or changes what is written.

Policies have bindings and parameters, and expressions that are compiled once. ValidatingAdmissionPolicies
refuse, warn or write audit annotations; MutatingAdmissionPolicies make apply configurations or JSON patches.

Sources, all 1.36: k8s.io/apiserver/pkg/admission/plugin: cel/composition.go,
policy/generic/{policy_source,policy_matcher,policy_dispatcher}.go,
policy/validating/{validator,dispatcher}.go, policy/mutating/dispatcher.go,
policy/mutating/patch/{smd,json_patch}.go.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from kubeskew.apimachinery.cel.release import Release
from kubeskew.apimachinery.errors import StatusError, forbidden, not_found, service_unavailable
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import GroupVersionKind, Resource
from kubeskew.apimachinery.schema import Kind, Schema
from kubeskew.apimachinery.selectors.labels import LabelSelector
from kubeskew.apiserver.admission import CONNECT, CREATE, DELETE, UPDATE, Attributes, Plugin
from kubeskew.apiserver.admission.dynamic import expressions
from kubeskew.apiserver.admission.dynamic.conditions import Conditions
from kubeskew.apiserver.admission.dynamic.expressions import BudgetSpentError, Expression, Outcome
from kubeskew.apiserver.admission.dynamic.matching import (
    EXEMPT,
    Criteria,
    Invocation,
    ReinvokeContext,
    Versioned,
    convert,
)
from kubeskew.apiserver.admission.services import AdmissionServices
from kubeskew.apiserver.apply.patching.json_patch import apply_json_patch
from kubeskew.apiserver.apply.patching.values import PatchError
from kubeskew.apiserver.caching.offload import offload_if_costly
from kubeskew.apiserver.caching.store_cache import DerivedFromStore
from kubeskew.apiserver.storage.encoding import dumps

if TYPE_CHECKING:
    from kubeskew.apimachinery.cel import Environment

_VARIABLES = "variables"
E = TypeVar("E")
_GROUP = "admissionregistration.k8s.io"


class Compiler:
    """Builds expressions that may use the variables declared before them."""

    def __init__(
        self,
        release: Release,
        *,
        params: bool,
        stored: bool = True,
        declared: Mapping[str, Any] | None = None,
        composes: bool = True,
    ) -> None:
        """With `composes`, expressions know `variables`, even if none is declared."""
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
        known = self._stored if stored is None else stored
        return Expression(source, self.environment(authorizer=authorizer, stored=known), results)

    def environment(self, *, authorizer: bool = True, stored: bool = True) -> "Environment":
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
        """Later expressions may use `variables.NAME`; a variable that does not compile has any type."""
        from kubeskew.apimachinery.cel import types

        program = expression.compiled()
        self._types[name] = types.DYN if program is None else program.result
        self._programs[name] = expression
        self._environments.clear()

    def bind(self, bound: Mapping[str, Any]) -> dict[str, Any]:
        """Each of the `variables` added is evaluated at its first use."""
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
    """Each variable may use those before it."""
    for variable in variables:
        expression = compiler.expression(variable.get("expression") or "")
        compiler.declare(variable.get("name") or "", expression)


class Binding(NamedTuple):
    """`criteria` is None if the binding does not narrow the policy."""

    name: str
    spec: Object
    criteria: Criteria | None


class Policy(Generic[E]):
    """The `evaluator` is compiled when a request first matches."""

    def __init__(self, obj: Object, bindings: list[Binding], make: Callable[[Object], E]) -> None:
        self.name: str = obj["metadata"]["name"]
        self.spec: Object = obj.get("spec") or {}
        self.bindings = bindings
        match = self.spec.get("matchConstraints") or {}
        self.criteria = _criteria(match)
        self._make = make
        self._evaluator: E | None = None

    @property
    def evaluator(self) -> E:
        if self._evaluator is None:
            self._evaluator = self._make(self.spec)
        return self._evaluator

    @property
    def ignores_failures(self) -> bool:
        return bool(self.spec.get("failurePolicy") == "Ignore")


def _criteria(match: Object) -> Criteria:
    return Criteria(match.get("resourceRules") or None, match, match.get("excludeResourceRules") or ())


class Policies(Generic[E]):
    """Policies without a binding are left out; the others stand by name."""

    def __init__(self, services: AdmissionServices, plural: str, make: Callable[[Object], E]) -> None:
        self._make_evaluator = make
        names = [f"{plural}.{_GROUP}", f"{plural.removesuffix('ies')}ybindings.{_GROUP}"]
        self._policies = DerivedFromStore(services.store, names, self._make, services.codec.current)

    def all(self) -> list[Policy[E]]:
        return self._policies.get()

    def _make(self, policies: list[Object], bindings: list[Object]) -> list[Policy[E]]:
        bound: dict[str, list[Binding]] = {}
        for obj in sorted(bindings, key=_name):
            spec = obj.get("spec") or {}
            match = spec.get("matchResources")
            criteria = None if match is None else _criteria(match)
            bound.setdefault(spec.get("policyName") or "", []).append(Binding(_name(obj), spec, criteria))
        return [
            Policy(obj, bound[_name(obj)], self._make_evaluator)
            for obj in sorted(policies, key=_name)
            if _name(obj) in bound
        ]


def _name(obj: Object) -> str:
    name: str = obj["metadata"]["name"]
    return name


class ConfigurationError(Exception):
    """A policy or a binding cannot be used; its failurePolicy decides."""


def param_resource(services: AdmissionServices, kind: Object | None) -> Resource | None:
    """None if the policy has no `spec.paramKind`; raises ConfigurationError."""
    if kind is None:
        return None
    group, _, version = (kind.get("apiVersion") or "").rpartition("/")
    gvk = GroupVersionKind(group, version, kind.get("kind") or "")
    found = services.table.by_kind(*gvk)
    if found is None or services.table.resource(group, version, found.plural) is None:
        named = f"{group}/{version}, Kind={gvk.kind}"
        raise ConfigurationError(f"failed to find resource referenced by paramKind: '{named}'")
    return found


async def collect(
    services: AdmissionServices, resource: Resource | None, reference: Object | None, namespace: str
) -> list[Object | None]:
    """[None] where the policy or the binding has no parameters; raises ConfigurationError."""
    if resource is None or reference is None:
        return [None]
    within = _namespace(resource, reference, namespace)
    found = [
        await convert(services, obj, resource) for obj in _selected(services, resource, reference, within)
    ]
    if not found and not services.features.admission.parameter_selectors:
        raise ConfigurationError(not_found(resource.group_resource, reference.get("name") or "").message)
    if not found and reference.get("parameterNotFoundAction") == "Deny":
        raise ConfigurationError("no params found for policy binding with `Deny` parameterNotFoundAction")
    return list(found)


def _namespace(resource: Resource, reference: Object, namespace: str) -> str:
    named = reference.get("namespace") or ""
    if not resource.namespaced:
        if named:
            raise ConfigurationError(
                "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
            )
        return ""
    if not named and not namespace:
        raise ConfigurationError(
            "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
        )
    return named or namespace


def _selected(
    services: AdmissionServices, resource: Resource, reference: Object, namespace: str
) -> Iterator[Object]:
    registry = services.registry(resource)
    name, selector = reference.get("name"), reference.get("selector")
    if name:
        if selector is not None:
            raise ConfigurationError("paramRef.name and paramRef.selector are mutually exclusive")
        entry = services.store.get(registry.key(namespace, name))
        if entry is not None:
            yield registry.object(entry)
        return
    if selector is None:
        raise ConfigurationError("one of name or selector must be provided")
    wanted = LabelSelector.from_object(selector)
    within = namespace if resource.namespaced else None
    for entry in services.store.list(registry.resource.storage_resource, within).entries:
        obj = registry.object(entry)
        if wanted.matches(obj["metadata"].get("labels")):
            yield obj


_MAX_MESSAGE = 5 * 1024
INVALID = "Invalid"
_CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413, "Invalid": 422}
_MAX_ANNOTATION = 10 * 1024


@dataclass(frozen=True, slots=True)
class PolicyDecision:
    """A decision without a message admits; `position` is the validation's in the policy."""

    position: int
    message: str = ""
    reason: str = ""


@dataclass(slots=True)
class Result:
    """A policy has one result per parameter. `errors` are annotations that failed to evaluate: they deny."""

    decisions: list[PolicyDecision] = field(default_factory=list)
    annotations: list[tuple[str, str]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Validation:
    expression: Expression
    message: Expression | None
    text: str
    reason: str


class Evaluator:
    def __init__(self, services: AdmissionServices, spec: Object) -> None:
        from kubeskew.apimachinery.cel import types

        params = spec.get("paramKind") is not None
        self._fails = spec.get("failurePolicy") != "Ignore"
        self._conditions = Conditions(
            services, spec.get("matchConditions") or (), fails=self._fails, params=params
        )
        self._compiler = Compiler(services.features.expressions, params=params)
        declare_all(self._compiler, spec.get("variables") or [])
        self._validations = [self._validation(validation) for validation in spec.get("validations") or ()]
        self._annotations = [
            (
                annotation.get("key") or "",
                self._compiler.expression(
                    annotation.get("valueExpression") or "", (types.STRING, types.NULL)
                ),
            )
            for annotation in spec.get("auditAnnotations") or ()
        ]

    def _validation(self, given: Mapping[str, Any]) -> _Validation:
        from kubeskew.apimachinery.cel import types

        message = given.get("messageExpression")
        return _Validation(
            self._compiler.expression(given.get("expression") or "", (types.BOOL,)),
            self._compiler.expression(message, (types.STRING,), authorizer=False) if message else None,
            (given.get("message") or "").strip(),
            given.get("reason") or INVALID,
        )

    def decide(self, bound: Mapping[str, Any]) -> Result:
        """Each validation has a decision; an error is a denial where the policy fails on errors."""
        holds, error = self._conditions.decide(bound)
        if error:
            return Result([self._failed(0, error)])
        if not holds:
            return Result()
        complete = self._compiler.bind(bound)
        try:
            return self._decide(complete)
        except BudgetSpentError as spent:
            return Result([self._failed(0, str(spent))])

    def _decide(self, bound: Mapping[str, Any]) -> Result:
        budget = expressions.BUDGET
        outcomes: list[Outcome] = []
        for validation in self._validations:
            outcome, budget = validation.expression.evaluate(bound, budget)
            outcomes.append(outcome)
        result = Result()
        for position, (validation, outcome) in enumerate(zip(self._validations, outcomes, strict=True)):
            if outcome.error:
                result.decisions.append(self._failed(position, outcome.error))
            elif outcome.value is not True:
                message, budget = self._message(validation, bound, budget)
                result.decisions.append(PolicyDecision(position, message, validation.reason))
            else:
                result.decisions.append(PolicyDecision(position))
        self._annotate(result, bound)
        return result

    def _failed(self, position: int, message: str) -> PolicyDecision:
        return PolicyDecision(position, message) if self._fails else PolicyDecision(position)

    @staticmethod
    def _message(validation: _Validation, bound: Mapping[str, Any], budget: int) -> tuple[str, int]:
        """The computed text comes first, if it is usable, then the fixed one, then the expression."""
        message = ""
        if validation.message is not None:
            outcome, budget = validation.message.evaluate(bound, budget)
            if isinstance(outcome.value, str):
                message = outcome.value.strip()
            if len(message.encode()) > _MAX_MESSAGE or "\n" in message:
                message = ""
        source = validation.expression.source.strip()
        return message or validation.text or f"failed expression: {source}", budget

    def _annotate(self, result: Result, bound: Mapping[str, Any]) -> None:
        budget = expressions.BUDGET
        for key, expression in self._annotations:
            outcome, budget = expression.evaluate(bound, budget)
            if outcome.error:
                if self._fails:
                    result.errors.append(outcome.error)
            elif isinstance(outcome.value, str) and outcome.value.strip():
                result.annotations.append((key, outcome.value.strip()))


class Denial(NamedTuple):
    """`binding` is empty where the policy itself is at fault."""

    policy: str
    binding: str
    message: str
    reason: str = ""


class ValidatingAdmissionPolicy(Plugin):
    waits = True
    operations = frozenset({CREATE, UPDATE, DELETE, CONNECT})
    subresources = None

    def __init__(self, services: AdmissionServices) -> None:
        self._services = services
        # 1.26 has no actions; from then on a binding stored without any does nothing.
        self._implied = () if services.features.admission.policy_actions else ("Deny",)
        self._policies: Policies[Evaluator] = Policies(
            services, "validatingadmissionpolicies", lambda spec: Evaluator(services, spec)
        )

    async def validate(self, attributes: Attributes) -> None:
        policies = self._policies.all()
        if not policies or attributes.resource.storage_resource in EXEMPT:
            return
        versioned = Versioned(self._services, attributes)
        denials: list[Denial] = []
        for policy in policies:
            denials += await self._evaluate(policy, versioned)
        if denials:
            raise _refusal(attributes, denials[0])

    async def _evaluate(self, policy: Policy[Evaluator], versioned: Versioned) -> list[Denial]:
        services, attributes = self._services, versioned.attributes
        try:
            invocation = policy.criteria.match(attributes, services.table, services.store)
            if invocation is None:
                return []
            resource = param_resource(services, policy.spec.get("paramKind"))
        except (StatusError, ConfigurationError) as error:
            return _misconfigured(policy, "", f"failed to configure policy: {error}")
        denials: list[Denial] = []
        published: dict[str, list[str]] = {}
        for binding in policy.bindings:
            try:
                if not self._is_bound(binding, attributes):
                    continue
                params = await collect(services, resource, binding.spec.get("paramRef"), attributes.namespace)
            except (StatusError, ConfigurationError) as error:
                denials += _misconfigured(policy, binding.name, f"failed to configure binding: {error}")
                continue
            bound = await self._bindings(invocation, versioned)
            for param in params:
                result = await _decided(policy, {**bound, "params": param})
                denials += _enforce(policy, binding, result, attributes, self._implied)
                for key, value in result.annotations:
                    published.setdefault(key, []).append(value[:_MAX_ANNOTATION])
        for key, values in published.items():
            attributes.annotations[f"{policy.name}/{key}"] = ", ".join(dict.fromkeys(values))
        return denials

    def _is_bound(self, binding: Binding, attributes: Attributes) -> bool:
        services = self._services
        if binding.criteria is None:
            return True
        return binding.criteria.match(attributes, services.table, services.store) is not None

    async def _bindings(self, invocation: Invocation, versioned: Versioned) -> dict[str, Any]:
        services, attributes = self._services, versioned.attributes
        objects = await versioned.object(invocation), await versioned.old(invocation)
        bound = expressions.bindings(services, attributes, invocation, objects)
        bound["namespaceObject"] = expressions.namespace_value(services, attributes)
        return bound


async def _decided(policy: Policy[Evaluator], bound: dict[str, Any]) -> Result:
    return await offload_if_costly(lambda: policy.evaluator.decide(bound))


def _misconfigured(policy: Policy[Evaluator], binding: str, message: str) -> list[Denial]:
    return [] if policy.ignores_failures else [Denial(policy.name, binding, message)]


def _enforce(
    policy: Policy[Evaluator],
    binding: Binding,
    result: Result,
    attributes: Attributes,
    implied: tuple[str, ...],
) -> list[Denial]:
    """Applies the binding's actions, or those `implied`; the denials that come back refuse the request."""
    denials: list[Denial] = []
    actions = binding.spec.get("validationActions") or implied
    for decision in result.decisions:
        if not decision.message:
            continue
        for action in actions:
            if action == "Deny":
                denials.append(Denial(policy.name, binding.name, decision.message, decision.reason))
            elif action == "Warn":
                attributes.warnings.append(
                    f"Validation failed for ValidatingAdmissionPolicy '{policy.name}' with binding "
                    f"'{binding.name}': {decision.message}"
                )
            elif action == "Audit":
                _note_failure(policy, binding, decision, attributes)
    return [*denials, *(Denial(policy.name, binding.name, error) for error in result.errors)]


def _note_failure(
    policy: Policy[Evaluator], binding: Binding, decision: PolicyDecision, attributes: Attributes
) -> None:
    failure: Object = {
        "message": decision.message,
        "policy": policy.name,
        "binding": binding.name,
        "expressionIndex": decision.position,
        "validationActions": list(binding.spec.get("validationActions") or ()),
    }
    key = "validation.policy.admission.k8s.io/validation_failure"
    attributes.annotations[key] = dumps([failure]).decode()


def _refusal(attributes: Attributes, denial: Denial) -> StatusError:
    bound = f" with binding '{denial.binding}'" if denial.binding else ""
    message = f"ValidatingAdmissionPolicy '{denial.policy}'{bound} denied request: {denial.message}"
    metadata = (attributes.object or {}).get("metadata") or {}
    name = attributes.name or metadata.get("name") or metadata.get("generateName") or "Unknown"
    error = forbidden((attributes.requested or attributes.resource).group_resource, name, message)
    error.reason = denial.reason or INVALID
    error.code = _CODES.get(error.reason, 422)
    error.details = {**(error.details or {}), "causes": [{"message": message}]}
    return error


APPLY, JSON_PATCH = "ApplyConfiguration", "JSONPatch"
KINDS = (APPLY, JSON_PATCH)
_MUTATION_FIELDS = {APPLY: "applyConfiguration", JSON_PATCH: "jsonPatch"}
_PATCH_FIELDS = ("op", "path", "from", "value")


class MutationError(Exception):
    """A mutation cannot be applied; failurePolicy decides."""


def expression(compiler: Compiler, kind: str, source: str, *, stored: bool = True) -> Expression:
    """`kind` is the patchType: the expression's result is an `Object`, or a list of `JSONPatch`."""
    from kubeskew.apimachinery import cel
    from kubeskew.apimachinery.cel import mutations, types

    environment = compiler.environment(stored=stored).extended(
        named=mutations.TYPES, libraries=(cel.JSON_PATCH,) if kind == JSON_PATCH else ()
    )
    made = mutations.TYPES[mutations.ROOT]
    result = types.list_of(mutations.JSON_PATCH_TYPE) if kind == JSON_PATCH else made
    return Expression(source, environment, (result,))


class Mutation:
    def __init__(self, compiler: Compiler, given: Mapping[str, Any]) -> None:
        self.kind: str = given.get("patchType") or ""
        source = (given.get(_MUTATION_FIELDS[self.kind]) or {}).get("expression") or ""
        self.expression = expression(compiler, self.kind, source)

    def apply(self, value: Any, obj: Object, schema: Schema) -> Object:
        """`value` is the result of the expression; raises MutationError."""
        if self.kind == JSON_PATCH:
            return _patched(value, obj)
        return _merged(value, obj, schema)


def _patched(value: Any, obj: Object) -> Object:
    operations = [_operation(operation) for operation in value]
    try:
        patched: Object = apply_json_patch(obj, operations)
    except PatchError as error:
        if "test failed" in error.why or "testing " in error.why:  # a test that fails leaves all as it is
            return obj
        raise MutationError(f"JSON Patch: {error.why}") from None
    return patched


def _operation(value: Any) -> Object:
    from kubeskew.apimachinery import cel

    _check_names(value.get("value"))
    try:
        plain = cel.to_json(value)
    except cel.EvaluationError as error:
        why = "JSONPath valueExpression evaluated to a type that could not marshal to JSON"
        raise MutationError(f"{why}: {error}") from None
    return {name: plain[name] for name in _PATCH_FIELDS if name in plain}


def _check_names(value: Any) -> None:
    from kubeskew.apimachinery.cel import mutations

    errors = mutations.name_errors(value)
    if errors:
        raise MutationError("type mismatch: " + "\n".join(errors))


def _merged(value: Any, obj: Object, schema: Schema) -> Object:
    """Fields that the apply configuration names win; those that it omits stay."""
    from kubeskew.apimachinery import cel
    from kubeskew.apiserver.apply.managedfields import typed
    from kubeskew.apiserver.apply.managedfields.typed import TypedError

    _check_names(value)
    try:
        config: Object = {**cel.to_json(value), "apiVersion": obj["apiVersion"], "kind": obj["kind"]}
    except cel.EvaluationError as error:
        raise MutationError(str(error)) from None
    failing = "failed to convert patch object to typed object"
    try:
        typed.validate(config, schema)
        atoms = list(_atoms(config, schema, ""))
        if atoms:
            why = f"may not mutate atomic arrays, maps or structs: {', '.join(atoms)}"
            raise MutationError(f"error applying patch: invalid ApplyConfiguration: {why}")
        failing = "failed to convert original object to typed object"
        typed.validate(obj, schema, allow_duplicates=True)
        failing = "failed to merge patch"
        return typed.merge(obj, config, schema)
    except TypedError as error:
        raise MutationError(f"error applying patch: {failing}: {error}") from None


def _atoms(value: Any, schema: Schema | None, path: str) -> Iterator[str]:
    """Configurations may not set atomic lists and maps; fields without a schema are passed over."""
    if schema is None:
        return
    if isinstance(value, dict) and schema.kind in {Kind.MAP, Kind.OBJECT}:
        if schema.map_type == "atomic":
            yield path
        for name, item in value.items():
            found = schema.fields.get(name)
            yield from _atoms(item, found.schema if found is not None else None, f"{path}.{name}")
    elif isinstance(value, list) and schema.kind is Kind.LIST:
        if schema.list_type == "atomic":
            yield path
        for position, item in enumerate(value):
            yield from _atoms(item, schema.items, f"{path}[{position}]")


def schema_of(services: AdmissionServices, kind: GroupVersionKind) -> Schema:
    """Raises 503 if the kind is not served."""
    resource = services.table.by_kind(*kind)
    if resource is None:
        raise service_unavailable(
            f"Resource kind {kind.group}/{kind.version}, Kind={kind.kind} not found. There can be a delay "
            "between when CustomResourceDefinitions are created and when they are available."
        )
    return resource.schema


_MUTATING_PLUGIN = "MutatingAdmissionPolicy"


class _MutationEvaluator:
    """Compiles a policy's conditions, variables and mutations."""

    def __init__(self, services: AdmissionServices, spec: Object) -> None:
        params = spec.get("paramKind") is not None
        fails = spec.get("failurePolicy") != "Ignore"
        listed = spec.get("matchConditions") or ()
        self.conditions = Conditions(services, listed, fails=fails, params=params)
        self.compiler = Compiler(services.features.expressions, params=params)
        declare_all(self.compiler, spec.get("variables") or [])
        self.mutations = [Mutation(self.compiler, mutation) for mutation in spec.get("mutations") or ()]


class _PolicyError(NamedTuple):
    """`binding` is empty where no binding is concerned."""

    policy: Policy[_MutationEvaluator]
    binding: str
    message: str
    reason: str = ""

    def __str__(self) -> str:
        if self.binding:
            bound = f"policy '{self.policy.name}' with binding '{self.binding}'"
            return f"{bound} denied request: {self.message}"
        return f'policy "{self.policy.name}" denied request: {self.message}'


class _Call(NamedTuple):
    """A policy is applied once for each of its parameters."""

    policy: Policy[_MutationEvaluator]
    binding: Binding
    invocation: Invocation
    param: Object | None

    @property
    def key(self) -> str:
        metadata = (self.param or {}).get("metadata") or {}
        return f"{self.policy.name}/{self.binding.name}/{metadata.get('namespace')}/{metadata.get('name')}"


class MutatingAdmissionPolicy(Plugin):
    """Applies every policy that is bound and matches, by name; some again if others changed the object."""

    waits = True
    operations = frozenset({CREATE, UPDATE})
    subresources = None

    def __init__(self, services: AdmissionServices) -> None:
        self._services = services
        self._policies: Policies[_MutationEvaluator] = Policies(
            services, "mutatingadmissionpolicies", lambda spec: _MutationEvaluator(services, spec)
        )

    async def admit(self, attributes: Attributes) -> None:
        if not self._services.features.admission.mutates:
            return
        policies = self._policies.all()
        if not policies or attributes.resource.storage_resource in EXEMPT:
            return
        versioned, errors = Versioned(self._services, attributes), list[_PolicyError]()
        calls = [call for policy in policies for call in await self._calls(policy, attributes, errors)]
        if calls:
            await self._apply_all(calls, versioned, errors)
        _refuse(attributes, [error for error in errors if not error.policy.ignores_failures])

    async def _calls(
        self, policy: Policy[_MutationEvaluator], attributes: Attributes, errors: list[_PolicyError]
    ) -> list[_Call]:
        services = self._services
        try:
            invocation = policy.criteria.match(attributes, services.table, services.store)
            if invocation is None:
                return []
            resource = param_resource(services, policy.spec.get("paramKind"))
        except (StatusError, ConfigurationError) as error:
            errors.append(_PolicyError(policy, "", f"failed to configure policy: {error}"))
            return []
        calls: list[_Call] = []
        for binding in policy.bindings:
            criteria, reference = binding.criteria, binding.spec.get("paramRef")
            try:
                if criteria is not None and not criteria.match(attributes, services.table, services.store):
                    continue
                params = await collect(services, resource, reference, attributes.namespace)
            except (StatusError, ConfigurationError) as error:
                errors.append(_PolicyError(policy, binding.name, f"failed to configure binding: {error}"))
                continue
            calls += [_Call(policy, binding, invocation, param) for param in params]
        return calls

    async def _apply_all(self, calls: list[_Call], versioned: Versioned, errors: list[_PolicyError]) -> None:
        attributes = versioned.attributes
        notes: ReinvokeContext = attributes.reinvocation.notes.setdefault(_MUTATING_PLUGIN, ReinvokeContext())
        again = attributes.reinvocation.again
        if again and notes.last != attributes.object:
            notes.require()
        patched = False
        for call in calls:
            if not await self._holds(call, versioned, errors) or (again and call.key not in notes.due):
                continue
            before = copy.deepcopy(attributes.object)
            patched |= await self._apply(call, versioned, errors)
            if attributes.object != before:
                notes.require()
            if call.policy.spec.get("reinvocationPolicy") == "IfNeeded":
                notes.eligible.add(call.key)
        if (
            patched
        ):  # even if nothing changed: all policies with reinvocation are called again, the last one too
            notes.require()
            attributes.reinvocation.wanted = True
        notes.last = copy.deepcopy(attributes.object)

    async def _holds(self, call: _Call, versioned: Versioned, errors: list[_PolicyError]) -> bool:
        bound = await self._bindings(call, versioned)
        evaluator = await offload_if_costly(lambda: call.policy.evaluator)
        holds, error = await offload_if_costly(lambda: evaluator.conditions.decide(bound))
        if error:
            errors.append(_PolicyError(call.policy, call.binding.name, error, "Invalid"))
        return holds

    async def _apply(self, call: _Call, versioned: Versioned, errors: list[_PolicyError]) -> bool:
        """Mutations run in order; True if one of them succeeded."""
        patched = False
        for mutation in call.policy.evaluator.mutations:
            try:
                patched |= await self._mutate(mutation, call, versioned)
            except (MutationError, BudgetSpentError) as failure:
                errors.append(_PolicyError(call.policy, call.binding.name, str(failure), "Invalid"))
        return patched

    async def _mutate(self, mutation: Mutation, call: _Call, versioned: Versioned) -> bool:
        """False if there is no object to change."""
        current = await versioned.object(call.invocation)
        if current is None:
            return False
        schema = schema_of(self._services, call.invocation.kind)
        bound, bind = await self._bindings(call, versioned), call.policy.evaluator.compiler.bind
        expression = mutation.expression
        outcome, _ = await offload_if_costly(lambda: expression.evaluate(bind(bound), expressions.BUDGET))
        if outcome.error:
            raise MutationError(outcome.error)
        changed = mutation.apply(outcome.value, current, schema)
        await versioned.replace(call.invocation, changed, strict=mutation.kind == JSON_PATCH)
        return True

    async def _bindings(self, call: _Call, versioned: Versioned) -> dict[str, Any]:
        services, attributes, invocation = self._services, versioned.attributes, call.invocation
        objects = await versioned.object(invocation), await versioned.old(invocation)
        bound = expressions.bindings(services, attributes, invocation, objects)
        bound["namespaceObject"] = expressions.namespace_value(services, attributes)
        return {**bound, "params": call.param}


def _refuse(attributes: Attributes, errors: list[_PolicyError]) -> None:
    """Raises 403 with every error as a cause; the first is the message."""
    if not errors:
        return
    metadata = (attributes.object or {}).get("metadata") or {}
    name = attributes.name or metadata.get("name") or metadata.get("generateName") or "Unknown"
    error = forbidden((attributes.requested or attributes.resource).group_resource, name, "")
    error.message, error.reason = str(errors[0]), errors[0].reason or error.reason
    causes = [{"message": str(error)} for error in errors]
    error.details = {**(error.details or {}), "causes": causes}
    raise error
