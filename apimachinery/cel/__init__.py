"""CEL, the Common Expression Language, as Kubernetes speaks it: parse, check, estimate, evaluate.

Users compile an expression once (`compile` caches) in an environment and evaluate it often:

    declared = {"self": declare(schema, root=True), "params": types.DYN}
    expressions = environment(36, stored=False, variables=declared)
    program = compile("self.replicas <= 5", expressions, (types.BOOL,))  # raises CompileError, cel-go's text
    program.result      # types.Type of the result
    program.estimate()  # (min, max) cost at admission; sizes come from the declared types
    program.names       # the declared variables that the expression uses, e.g. {"self"}
    value, cost = program.evaluate({"self": to_value(obj, declared["self"])}, limit=1_000_000)
                        # raises EvaluationError, its `cost` says what was spent

- `environment(release, *, stored, variables) -> Environment`: the libraries of a `Release`, or of a minor
  (36). `stored`: expressions that are in storage already may use all that the server knows; new ones what the
  previous minor knows too. Keep it: programs are cached by environment. `Environment.extended(variables,
  named=..., libraries=...)` adds to it; names may be qualified (`authorizer.requestResource`); `named` are
  object types that expressions can make (`Object{...}`).
- `compile(expression, environment, results=()) -> Program`; `results` are the types allowed, else
  CompileError `must evaluate to bool but got int` / `must evaluate to one of [...] but got int`.
- `types`: BOOL, INT, UINT, DOUBLE, STRING, BYTES, NULL, DYN, DURATION, TIMESTAMP, list_of(T), map_of(K, V),
  optional_of(T), opaque(NAME), object_type(NAME, {field: Type | Declared}).
- `declare(schema, root=False, name=...) -> Declared | None`: a declared type (with sizes for the estimate)
  of a structural JSON schema (dict as in a CRD); None if expressions cannot see it.
- `to_value(json, declared) -> value`: a JSON value as its declaration says (times, durations, bytes, escaped
  names, list types). JSON declared DYN may be bound as it is. `to_json(value)` is the way back.
- Bindings may be `Lazy(function)`, computed when first read, also as values of a dict (`variables`); the
  function returns `(value, cost)`, and the cost is added to the reader's.
- `escape(name)`, `unescape(name)`: property names as CEL identifiers (`__dash__`, `__namespace__`).
- `authorizer.Authorizer(check)`: the value of `authorizer`; `check` is given what is asked and answers with
  (decision, reason).
- `devices`: the environment of device selectors (`resource.k8s.io`).
- `mutations`: `environment.extended(named=mutations.TYPES, libraries=(JSON_PATCH,))` lets expressions make
  `Object{...}` and `JSONPatch{...}`; `mutations.name_errors(value)` sees to the names of what was made.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubeskew.apimachinery.cel import authorizer, mutations, types
    from kubeskew.apimachinery.cel.declarations import Declared, escape, unescape
    from kubeskew.apimachinery.cel.environments import BINDINGS, JSON_PATCH, Environment, Library, environment
    from kubeskew.apimachinery.cel.errors import CELError, CompileError, EvaluationError, InstantiationError
    from kubeskew.apimachinery.cel.program import Program
    from kubeskew.apimachinery.cel.program import compile_expression as compile  # noqa: A004  # said as `cel.compile`
    from kubeskew.apimachinery.cel.schemas import declare, to_json, to_value
    from kubeskew.apimachinery.cel.types import Type
    from kubeskew.apimachinery.cel.values import Lazy

__all__ = [
    "BINDINGS",
    "JSON_PATCH",
    "CELError",
    "CompileError",
    "Declared",
    "Environment",
    "EvaluationError",
    "InstantiationError",
    "Lazy",
    "Library",
    "Program",
    "Type",
    "authorizer",
    "compile",
    "declare",
    "environment",
    "escape",
    "mutations",
    "to_json",
    "to_value",
    "types",
    "unescape",
]

# Where each public name is. Most servers never see an expression, and all of this takes a while to import.
_MODULES = {
    "BINDINGS": "environments",
    "JSON_PATCH": "environments",
    "CELError": "errors",
    "CompileError": "errors",
    "Declared": "declarations",
    "Environment": "environments",
    "EvaluationError": "errors",
    "InstantiationError": "errors",
    "Lazy": "values",
    "Library": "environments",
    "Program": "program",
    "Type": "types",
    "compile": "program",
    "declare": "schemas",
    "environment": "environments",
    "escape": "declarations",
    "to_json": "schemas",
    "to_value": "schemas",
    "unescape": "declarations",
}
_RENAMED = {"compile": "compile_expression"}


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name not in _MODULES:
        return import_module(f"{__name__}.{name}")
    found = getattr(import_module(f"{__name__}.{_MODULES[name]}"), _RENAMED.get(name, name))
    globals()[name] = found
    return found
