"""Plugin of mypy that reports where the order of a set comes to matter (error code `set-order`).

Sets are ordered by the hashes of what they hold, which are other ones in each process. A loop, a
comprehension, a star or a call that keeps the order is an error; membership, set algebra and what gives the
same for any order (`sorted`, `any`, `set`, …) are not. Not seen are a set that is given as
an Iterable, and the names that a starred assignment takes.
"""

import ast
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from mypy.errorcodes import ErrorCode
from mypy.nodes import ARG_STAR
from mypy.options import Options
from mypy.plugin import FunctionContext, MethodContext, Plugin
from mypy.plugins.default import DefaultPlugin
from mypy.types import Instance, Type, UnionType, get_proper_type

SET_ORDER = ErrorCode("set-order", "Something depends on the order of a set", "General")
_Call = TypeVar("_Call", FunctionContext, MethodContext)
_SETS = frozenset({"builtins.set", "builtins.frozenset", "typing.AbstractSet", "typing.MutableSet"})
# Functions and methods that keep the order of what they are given.
_ORDERED = frozenset(
    {
        "builtins.list", "builtins.tuple", "builtins.enumerate", "builtins.iter", "builtins.zip",
        "builtins.map", "builtins.filter", "builtins.str.join", "builtins.bytes.join", "builtins.list.extend",
        "builtins.dict.fromkeys", "collections.deque", "collections.deque.extend", "collections.Counter",
        "itertools.chain", "itertools.product", "itertools.islice", "itertools.groupby",
        "itertools.combinations", "itertools.permutations", "random.choice",
    }
)  # fmt: skip
# Functions and methods whose result is the same for any order; with a `key` some of them distinguish equals.
_UNORDERED = frozenset({"sorted", "set", "frozenset", "any", "all", "sum", "min", "max", "len"})
_UNORDERED_METHODS = frozenset(
    {
        "union", "intersection", "difference", "symmetric_difference", "issubset", "issuperset", "isdisjoint",
        "update", "difference_update", "intersection_update",
    }
)  # fmt: skip
_KEYED = frozenset({"builtins.sorted", "builtins.min", "builtins.max"})


class OrderedIteration(Plugin):
    """The hooks: what is iterated over, and what is called with a set. mypy's own hooks are asked as well."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._usual = DefaultPlugin(options)

    def get_method_hook(self, fullname: str) -> Callable[[MethodContext], Type] | None:
        owner, _, method = fullname.rpartition(".")
        usual = self._usual.get_method_hook(fullname)
        if owner in _SETS and method in {"__iter__", "pop"}:
            return _checked(lambda _: True, usual)
        return _checked(_given if fullname in _ORDERED else _spread, usual)

    def get_function_hook(self, fullname: str) -> Callable[[FunctionContext], Type] | None:
        if fullname == "<set>":  # a display, such as {*names}
            return None
        usual = self._usual.get_function_hook(fullname)
        if fullname in _KEYED:
            return _checked(_chosen, usual)
        return _checked(_given if fullname in _ORDERED else _spread, usual)


def _checked(
    depends: Callable[[_Call], bool], usual: Callable[[_Call], Type] | None
) -> Callable[[_Call], Type]:
    """Hooks report what `depends` on an order, and return the usual hook's result."""

    def hook(ctx: _Call) -> Type:
        if depends(ctx) and (ctx.context.line, ctx.context.column) not in _harmless(ctx.api.path):
            message = "The order of a set comes to matter: sort it, or keep a dict"
            ctx.api.fail(message, ctx.context, code=SET_ORDER)
        return usual(ctx) if usual is not None else ctx.default_return_type

    return hook


def _given(ctx: FunctionContext | MethodContext) -> bool:
    return any(_is_set(argument) for arguments in ctx.arg_types for argument in arguments)


def _spread(ctx: FunctionContext | MethodContext) -> bool:
    """The members of a set with a star are the arguments, in its order."""
    return any(
        kind is ARG_STAR and _is_set(argument)
        for arguments, kinds in zip(ctx.arg_types, ctx.arg_kinds, strict=True)
        for argument, kind in zip(arguments, kinds, strict=True)
    )


def _chosen(ctx: FunctionContext | MethodContext) -> bool:
    """A key may find equals, of which the first in the set counts."""
    named = dict(zip(ctx.callee_arg_names, ctx.arg_types, strict=True))
    return _given(ctx) if named.get("key") else _spread(ctx)


def _is_set(given: Type) -> bool:
    proper = get_proper_type(given)
    if isinstance(proper, UnionType):
        return any(_is_set(item) for item in proper.items)
    return isinstance(proper, Instance) and proper.type.fullname in _SETS


@lru_cache(maxsize=64)
def _harmless(path: str) -> frozenset[tuple[int, int]]:
    """Line and column of every expression of a file that is consumed in any order."""
    tree = ast.parse(Path(path).read_text())
    return frozenset((node.lineno, node.col_offset) for node in _consumed(tree))


def _consumed(tree: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.SetComp):
            yield from (part.iter for part in node.generators)
        elif isinstance(node, ast.Call) and _is_unordered(node):
            for argument in node.args:
                yield from _inner(argument)


def _is_unordered(call: ast.Call) -> bool:
    match call.func:
        case ast.Name(id=name):
            return name in _UNORDERED and not _has_key(call)
        case ast.Attribute(attr=name):
            return name in _UNORDERED_METHODS and not any(_makes_pairs(argument) for argument in call.args)
    return False


def _has_key(call: ast.Call) -> bool:
    return any(keyword.arg == "key" for keyword in call.keywords)


def _makes_pairs(argument: ast.expr) -> bool:
    """The argument may be for a dict, whose `update` keeps the order."""
    return isinstance(argument, ast.GeneratorExp | ast.ListComp) and isinstance(argument.elt, ast.Tuple)


def _inner(argument: ast.expr) -> Iterator[ast.expr]:
    """Iterables inside an argument."""
    if isinstance(argument, ast.GeneratorExp | ast.ListComp):
        yield from (part.iter for part in argument.generators)
    elif isinstance(argument, ast.Call):
        yield argument
        for deeper in argument.args:
            yield from _inner(deeper)
    elif isinstance(argument, ast.List | ast.Tuple):
        yield argument
    elif isinstance(argument, ast.Starred):
        yield from _inner(argument.value)


def plugin(_version: str) -> type[Plugin]:
    return OrderedIteration
