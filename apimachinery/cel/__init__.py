"""CEL, the Common Expression Language, as Kubernetes speaks it: parse, check, estimate, evaluate.

Users compile an expression once (`compile` caches) in an environment and evaluate it often:

    declared = {"self": declare(schema, root=True), "params": types.DYN}
    expressions = environment("1.36", stored=False, variables=declared)
    program = compile("self.replicas <= 5", expressions, (types.BOOL,))      # raises CompileError, cel-go's text
    program.result                      # types.Type of the result
    program.estimate()                  # (min, max) cost at admission; sizes come from the declared types
    program.names                       # the declared variables that the expression uses, e.g. {"self"}
    value, cost = program.evaluate({"self": to_value(obj, declared["self"])}, limit=1_000_000)
                                        # raises EvaluationError, its `cost` says what was spent

Public names:

- `environment(minor, *, stored, variables, strict_cost=True, ...) -> Environment`: the libraries of that minor. `stored` =
  expressions that are in storage already may use everything the server knows; new ones what the
  previous minor knows too. `Environment.extended(variables, ...)` adds variables (`variables: {name: Type | Declared}`).
- `compile(expression, environment, results=()) -> Program`; `results` are the types allowed, else CompileError
  `must evaluate to bool` / `must evaluate to one of [...]`.
- `types`: BOOL, INT, UINT, DOUBLE, STRING, BYTES, NULL, DYN, DURATION, TIMESTAMP, list_of(T), map_of(K, V),
  optional_of(T), opaque(NAME), object_type(NAME, {field: Type | Declared}).
- `declare(schema, root=False) -> Declared | None`: a declared type (with size limits for the estimate) of a
  structural JSON schema (dict as in a CRD); None if the schema has no type that CEL can see.
- `to_value(json, declared) -> value`: a JSON value as CEL sees it under its declaration (dates, durations, bytes, escaped field
  names, list types); pass the result as a binding. Undeclared (DYN) JSON may be bound as it is.
- Bindings may be values, or `Lazy(function)`: called once when first read (for `variables.*`: bind `variables`
  to a mapping type declared with `object_type("kubernetes.variables", {...})`, values may be `Lazy` too; the cost of what they evaluate is added by
  `Lazy` returning `(value, cost)`).
- `escape(name)`, `unescape(name)`: property names as CEL identifiers (`__dash__`, `__namespace__`).
- `authorizer.Authorizer(check)`: the value of `authorizer`; `check` is given attributes and answers
  (decision, reason).
- `devices`: the environment of device selectors (`resource.k8s.io`).
"""
