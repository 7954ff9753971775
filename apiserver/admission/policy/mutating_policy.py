"""Changes objects by MutatingAdmissionPolicies: CEL makes an apply configuration or a JSON patch.

Sources: k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch/{smd,json_patch}.go, 1.36;
k8s.io/apiserver/pkg/admission/plugin/policy/{generic/policy_dispatcher,mutating/dispatcher}.go, 1.36.
"""

import copy
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kubeskew.apimachinery.errors import StatusError, forbidden, service_unavailable
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import GroupVersionKind
from kubeskew.apimachinery.schema import Kind, Schema
from kubeskew.apiserver.admission import CREATE, UPDATE, Attributes, Plugin
from kubeskew.apiserver.admission.dynamic import expressions
from kubeskew.apiserver.admission.dynamic.conditions import Conditions
from kubeskew.apiserver.admission.dynamic.expressions import BudgetSpentError, Expression
from kubeskew.apiserver.admission.dynamic.matching import EXEMPT, Invocation, ReinvokeContext, Versioned
from kubeskew.apiserver.admission.policy.policies import (
    Binding,
    Compiler,
    ConfigurationError,
    Policies,
    Policy,
    collect,
    declare_all,
    param_resource,
)
from kubeskew.apiserver.admission.services import AdmissionServices
from kubeskew.apiserver.apply.patching.json_patch import apply_json_patch
from kubeskew.apiserver.apply.patching.values import PatchError
from kubeskew.apiserver.caching.offload import offload_if_costly

APPLY, JSON_PATCH = "ApplyConfiguration", "JSONPatch"
KINDS = (APPLY, JSON_PATCH)
_FIELDS = {APPLY: "applyConfiguration", JSON_PATCH: "jsonPatch"}
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
        source = (given.get(_FIELDS[self.kind]) or {}).get("expression") or ""
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


_NAME = "MutatingAdmissionPolicy"


class _Evaluator:
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

    policy: Policy[_Evaluator]
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

    policy: Policy[_Evaluator]
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
        self._policies: Policies[_Evaluator] = Policies(
            services, "mutatingadmissionpolicies", lambda spec: _Evaluator(services, spec)
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
        self, policy: Policy[_Evaluator], attributes: Attributes, errors: list[_PolicyError]
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
        notes: ReinvokeContext = attributes.reinvocation.notes.setdefault(_NAME, ReinvokeContext())
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
