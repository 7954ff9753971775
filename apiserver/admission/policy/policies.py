"""Both policy plugins share this: policies with bindings and parameters, compiled expressions.

Sources: k8s.io/apiserver/pkg/admission/plugin/cel/composition.go, 1.36;
k8s.io/apiserver/pkg/admission/plugin/policy/generic/{policy_source,policy_matcher}.go, 1.36;
k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_dispatcher.go (CollectParams), 1.36.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from kubeskew.apimachinery.cel.release import Release
from kubeskew.apimachinery.errors import not_found
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import GroupVersionKind, Resource
from kubeskew.apimachinery.selectors.labels import LabelSelector
from kubeskew.apiserver.admission.dynamic import expressions
from kubeskew.apiserver.admission.dynamic.expressions import Expression
from kubeskew.apiserver.admission.dynamic.matching import Criteria, convert
from kubeskew.apiserver.admission.services import AdmissionServices
from kubeskew.apiserver.caching.store_cache import DerivedFromStore

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
