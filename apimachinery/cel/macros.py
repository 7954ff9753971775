"""What is not an ordinary call: logic that swallows errors, `has`, comprehensions, `cel.bind`, `optMap`."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from apimachinery.cel.errors import NO_SUCH_OVERLOAD, EvaluationError
from apimachinery.cel.nodes import Call, Ident, Node, Select
from apimachinery.cel.values import NONE, Optional, find, type_name

Variables = Mapping[str, Any]
Program = Callable[[Variables], Any]
Scope = frozenset[str]


class Compiler(Protocol):
    """What a macro needs of the program builder."""

    def build(self, node: Node, scope: Scope) -> Program: ...

    def fail(self, node: Node, message: str) -> None: ...


Macro = Callable[[Compiler, Call, Scope], Program | None]


def _outcome(program: Program, env: Variables) -> bool | EvaluationError:
    try:
        value = program(env)
    except EvaluationError as error:
        return error
    return value if isinstance(value, bool) else EvaluationError(NO_SUCH_OVERLOAD)


def _decide(outcomes: Iterator[bool | EvaluationError], deciding: bool) -> bool:
    """`deciding` if any outcome is that, whatever else failed; else the first error, else the opposite."""
    failure: EvaluationError | None = None
    for outcome in outcomes:
        if outcome is deciding:
            return deciding
        if isinstance(outcome, EvaluationError) and failure is None:
            failure = outcome
    if failure is not None:
        raise failure
    return not deciding


def _logic(deciding: bool) -> Macro:
    def macro(compiler: Compiler, node: Call, scope: Scope) -> Program:
        operands = [compiler.build(argument, scope) for argument in node.arguments]
        return lambda env: _decide((_outcome(operand, env) for operand in operands), deciding)

    return macro


def _conditional(compiler: Compiler, node: Call, scope: Scope) -> Program:
    test, then, otherwise = (compiler.build(argument, scope) for argument in node.arguments)

    def conditional(env: Variables) -> Any:
        value = test(env)
        if not isinstance(value, bool):
            raise EvaluationError(NO_SUCH_OVERLOAD)
        return then(env) if value else otherwise(env)

    return conditional


def _has(compiler: Compiler, node: Call, scope: Scope) -> Program:
    (argument,) = node.arguments
    if not isinstance(argument, Select):
        compiler.fail(argument, "invalid argument to has() macro")
        return lambda _: False
    operand, field = compiler.build(argument.operand, scope), argument.field
    return lambda env: find(operand(env), field).present


Pairs = Iterator[tuple[Any, Any]]


def _not_iterable(value: Any) -> EvaluationError:
    name = type_name(value)
    kind = f"types.{name.capitalize()}" if name.isalpha() else name.replace("kubernetes", "cel")
    return EvaluationError(f"got '{kind}', expected iterable type")


def _pairs(container: Any) -> Pairs:
    if isinstance(container, Mapping):
        return iter(container.items())
    if isinstance(container, list | tuple):
        return iter(enumerate(container))
    raise _not_iterable(container)


def _elements(container: Any) -> Iterator[Any]:
    if isinstance(container, Mapping | list | tuple):
        return iter(container)
    raise _not_iterable(container)


Rounds = Iterator[tuple[Any, Variables]]


def _comprehension(reduce: Callable[[Rounds, list[Program]], Any], variables: int) -> Macro:
    """A macro `target.name(x, body…)` or `target.name(k, v, body…)`."""

    def macro(compiler: Compiler, node: Call, scope: Scope) -> Program | None:
        names, bodies = node.arguments[:variables], node.arguments[variables:]
        if node.target is None or not all(isinstance(name, Ident) for name in names):
            return None
        texts = [name.name for name in names if isinstance(name, Ident)]
        target = compiler.build(node.target, scope)
        inner = scope | set(texts)
        programs = [compiler.build(body, inner) for body in bodies]
        if variables == 1:
            (single,) = texts
            return lambda env: reduce(
                ((item, {**env, single: item}) for item in _elements(target(env))), programs
            )
        first, second = texts
        return lambda env: reduce(
            ((key, {**env, first: key, second: value}) for key, value in _pairs(target(env))), programs
        )

    return macro


def _all(rounds: Rounds, bodies: list[Program]) -> bool:
    return _decide((_outcome(bodies[0], env) for _, env in rounds), False)


def _exists(rounds: Rounds, bodies: list[Program]) -> bool:
    return _decide((_outcome(bodies[0], env) for _, env in rounds), True)


def _truth(program: Program, env: Variables) -> bool:
    outcome = _outcome(program, env)
    if isinstance(outcome, EvaluationError):
        raise outcome
    return outcome


def _exists_one(rounds: Rounds, bodies: list[Program]) -> bool:
    return sum([_truth(bodies[0], env) for _, env in rounds]) == 1


def _filter(rounds: Rounds, bodies: list[Program]) -> list[Any]:
    return [item for item, env in rounds if _truth(bodies[0], env)]


def _map(rounds: Rounds, bodies: list[Program]) -> list[Any]:
    *condition, transform = bodies
    return [transform(env) for _, env in rounds if all(_truth(test, env) for test in condition)]


def _bind(compiler: Compiler, node: Call, scope: Scope) -> Program | None:
    name, value, body = node.arguments
    if not (isinstance(node.target, Ident) and node.target.name == "cel" and isinstance(name, Ident)):
        return None
    text = name.name
    bound = compiler.build(value, scope)
    inner = compiler.build(body, scope | {text})
    return lambda env: inner({**env, text: bound(env)})


def _optional_map(flat: bool) -> Macro:
    def macro(compiler: Compiler, node: Call, scope: Scope) -> Program | None:
        name, body = node.arguments
        if node.target is None or not isinstance(name, Ident):
            return None
        text = name.name
        target, inner = compiler.build(node.target, scope), compiler.build(body, scope | {text})

        def mapped(env: Variables) -> Any:
            optional = target(env)
            if not isinstance(optional, Optional):
                raise EvaluationError(NO_SUCH_OVERLOAD)
            if not optional.present:
                return NONE
            value = inner({**env, text: optional.value})
            return value if flat else Optional(value, True)

        return mapped

    return macro


# (name, is a method, number of arguments) → macro; a macro that returns None leaves an ordinary call.
MACROS: Mapping[tuple[str, bool, int], Macro] = {
    ("_&&_", False, 2): _logic(deciding=False),
    ("_||_", False, 2): _logic(deciding=True),
    ("_?_:_", False, 3): _conditional,
    ("has", False, 1): _has,
    ("all", True, 2): _comprehension(_all, 1),
    ("all", True, 3): _comprehension(_all, 2),
    ("exists", True, 2): _comprehension(_exists, 1),
    ("exists", True, 3): _comprehension(_exists, 2),
    ("exists_one", True, 2): _comprehension(_exists_one, 1),
    ("existsOne", True, 3): _comprehension(_exists_one, 2),
    ("exists_one", True, 3): _comprehension(_exists_one, 2),
    ("filter", True, 2): _comprehension(_filter, 1),
    ("map", True, 2): _comprehension(_map, 1),
    ("map", True, 3): _comprehension(_map, 1),
    ("bind", True, 3): _bind,
    ("optMap", True, 2): _optional_map(flat=False),
    ("optFlatMap", True, 2): _optional_map(flat=True),
}
