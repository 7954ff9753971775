"""Remembers results of functions of short texts.

A cache that only limits its entries would keep all that clients send: a thousand labels of megabytes each.
"""

from collections.abc import Callable
from functools import lru_cache, update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

_P = ParamSpec("_P")
_T = TypeVar("_T")
_LONGEST = 1024  # characters


def remembered(
    size: int, longest: int = _LONGEST
) -> Callable[[Callable[Concatenate[str, _P], _T]], Callable[Concatenate[str, _P], _T]]:
    """Keeps up to `size` results of a function of a text; results for longer texts are not kept."""

    def decorate(make: Callable[Concatenate[str, _P], _T]) -> Callable[Concatenate[str, _P], _T]:
        kept: Callable[Concatenate[str, _P], _T] = cast("Any", lru_cache(maxsize=size)(make))

        def remember(text: str, /, *others: _P.args, **named: _P.kwargs) -> _T:
            return (kept if len(text) <= longest else make)(text, *others, **named)

        update_wrapper(remember, make)
        return remember

    return decorate
