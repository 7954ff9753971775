"""Decides whether a type is assignable to another, and binds type parameters on the way.

Source: github.com/google/cel-go/checker/types.go.
"""

from kubeskew.apimachinery.cel.types import DYN, PRIMITIVES, UNKNOWN, Type, is_dyn, is_optional

Bindings = dict[Type, Type]

_NULLABLE = frozenset({"opaque", "struct", "null", "any", "duration", "timestamp"})


def assignable(bindings: Bindings, given: Type, wanted: Type) -> bool:
    """Returns whether `given` fits `wanted`; binds parameters of both, also when the answer is no."""
    if wanted.kind == "param":
        fits, bound = _substitutable(bindings, given, wanted)
        if fits or bound:
            return fits
    if given.kind == "param":
        return _substitutable(bindings, wanted, given)[0]
    if given.kind in UNKNOWN or wanted.kind in UNKNOWN:
        return True
    if given.kind == "null":
        return wanted.kind in _NULLABLE
    if given.kind in PRIMITIVES:
        return wanted.kind == given.kind
    if given.kind != wanted.kind:
        return False
    if given.kind == "type":
        return True
    if given.kind in ("opaque", "struct") and given.name != wanted.name:
        return False
    return all_assignable(bindings, given.parameters, wanted.parameters)


def all_assignable(bindings: Bindings, given: tuple[Type, ...], wanted: tuple[Type, ...]) -> bool:
    return len(given) == len(wanted) and all(
        assignable(bindings, have, other) for have, other in zip(given, wanted, strict=True)
    )


def _substitutable(bindings: Bindings, given: Type, parameter: Type) -> tuple[bool, bool]:
    """Returns whether `parameter` may be `given`, and whether it is bound already."""
    if given == parameter:
        return True, True
    bound = bindings.get(parameter)
    if bound is not None:
        if given == bound:
            return True, True
        if assignable(bindings, given, bound):
            general = most_general(given, bound)
            if _absent(bindings, parameter, general):
                bindings[parameter] = general
            return True, True
        return False, True
    if _absent(bindings, parameter, given):
        bindings[parameter] = given
        return True, False
    return False, False


def most_general(one: Type, other: Type) -> Type:
    return one if _less_specific(one, other) else other


def _less_specific(one: Type, other: Type) -> bool:
    if is_dyn(one) or one.kind == "param":
        return True
    if is_dyn(other) or other.kind == "param" or one.kind != other.kind:
        return False
    if one.kind in ("list", "map") or is_optional(one):
        return one.name == other.name and all(
            _less_specific(mine, theirs)
            for mine, theirs in zip(one.parameters, other.parameters, strict=True)
        )
    return one.kind == "type" or one == other


def _absent(bindings: Bindings, parameter: Type, within: Type) -> bool:
    if within == parameter:
        return False
    if within.kind == "param":
        bound = bindings.get(within)
        return bound is None or _absent(bindings, parameter, bound)
    return all(_absent(bindings, parameter, inner) for inner in within.parameters)


def substitute(bindings: Bindings, kind: Type, *, free: Type | None = None) -> Type:
    """`kind` with bound parameters replaced, and unbound ones by `free` if given."""
    bound = bindings.get(kind) if kind.kind == "param" else None
    if bound is not None:
        return substitute(bindings, bound, free=free)
    if kind.kind == "param":
        return kind if free is None else free
    if not kind.parameters:
        return kind
    inner = tuple(substitute(bindings, parameter, free=free) for parameter in kind.parameters)
    return kind if inner == kind.parameters else Type(kind.kind, kind.name, inner)


def settled(bindings: Bindings, kind: Type) -> Type:
    """Returns `kind` without type parameters; one that was never bound becomes `dyn`."""
    return substitute(bindings, kind, free=DYN)
