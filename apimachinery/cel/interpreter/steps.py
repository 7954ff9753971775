"""The steps (closures) that an expression becomes, and the frame that they share while it is evaluated."""

from collections.abc import Callable, Mapping
from typing import Any

from kubeskew.apimachinery.cel.costs.actual_costs import CallCost
from kubeskew.apimachinery.cel.errors import (
    COST_EXCEEDED,
    NO_SUCH_OVERLOAD,
    CostExceededError,
    EvaluationError,
)
from kubeskew.apimachinery.cel.values import NONE, Lazy, Optional, equal, find, lookup


class Frame:
    """One evaluation: bindings, values of local variables, and the cost spent so far."""

    __slots__ = ("bindings", "cost", "limit", "places")

    def __init__(self, bindings: Mapping[str, Any], places: int, limit: int) -> None:
        self.bindings = bindings
        self.places: list[Any] = [None] * places
        self.cost = 0
        self.limit = limit

    def spend(self, cost: int) -> None:
        self.cost += cost
        if self.cost > self.limit:
            raise CostExceededError(COST_EXCEEDED)

    def spend_ones(self, count: int) -> None:
        """Spends 1 `count` times, and stops at the first that exceeds the limit, as upstream's counter
        does."""
        self.cost += count
        if self.cost > self.limit:
            self.cost = self.limit + 1
            raise CostExceededError(COST_EXCEEDED)


Step = Callable[[Frame], Any]


def variable(name: str) -> Step:
    """Returns the step that reads a binding."""

    def read(frame: Frame) -> Any:
        try:
            value = frame.bindings[name]
        except KeyError:
            raise EvaluationError(f"no such attribute(s): {name}") from None
        return value.get(frame.spend) if value.__class__ is Lazy else value

    return read


def attribute(resolve: Step) -> Step:
    """Returns the step that reads a variable or a chain of selections, which costs 1 besides its
    selections."""

    def read(frame: Frame) -> Any:
        try:
            value = resolve(frame)
        except EvaluationError:
            frame.spend(1)
            raise
        frame.cost += 1
        if frame.cost > frame.limit:
            raise CostExceededError(COST_EXCEEDED)
        return value

    return read


def conditional(test: Step, then: Step, otherwise: Step) -> Step:
    def choose(frame: Frame) -> Any:
        value = test(frame)
        if value is True:
            return then(frame)
        if value is False:
            return otherwise(frame)
        raise EvaluationError(NO_SUCH_OVERLOAD)

    return choose


def local_variable(place: int) -> Step:
    def local(frame: Frame) -> Any:
        value = frame.places[place]
        if value.__class__ is EvaluationError:
            raise value
        return value

    return local


def selection(operand: Step, key: Any) -> Step:
    def selected(frame: Frame) -> Any:
        container = operand(frame)
        if container.__class__ is Optional:
            return _continued(frame, container, key)
        frame.cost += 1
        if frame.cost > frame.limit:
            raise CostExceededError(COST_EXCEEDED)
        value = container[key] if container.__class__ is dict and key in container else lookup(container, key)
        return value.get(frame.spend) if value.__class__ is Lazy else value

    return selected


def _continued(frame: Frame, container: Optional, key: Any) -> Optional:
    """Selects further in an optional chain: a missing field or key makes it `none`, at no cost."""
    if not container.present:
        return NONE
    found = find(container.value, key)
    if found.present:
        frame.spend(1)
        if found.value.__class__ is Lazy:
            return Optional(found.value.get(frame.spend), True)
    return found


def optional_selection(operand: Step, key: Any) -> Step:
    def optionally_selected(frame: Frame) -> Any:
        container = operand(frame)
        if container.__class__ is not Optional:
            container = Optional(container, True)
        return _continued(frame, container, key)

    return optionally_selected


def indexing(operand: Step, key: Step) -> Step:
    def indexed(frame: Frame) -> Any:
        container = operand(frame)
        if container.__class__ is Optional:
            return _continued(frame, container, key(frame)) if container.present else NONE
        try:
            found = key(frame)
        finally:
            frame.cost += 1
        frame.spend(0)
        value = lookup(container, found)
        return value.get(frame.spend) if value.__class__ is Lazy else value

    return indexed


def optional_indexing(operand: Step, key: Step) -> Step:
    def optionally_indexed(frame: Frame) -> Any:
        container = operand(frame)
        if container.__class__ is not Optional:
            container = Optional(container, True)
        return _continued(frame, container, key(frame)) if container.present else NONE

    return optionally_indexed


def presence(operand: Step, field: str) -> Step:
    def tested(frame: Frame) -> bool:
        container = operand(frame)
        frame.spend(1)
        if container.__class__ is Optional:
            return container.present and find(container.value, field).present
        return find(container, field).present

    return tested


def _outcome(step: Step, frame: Frame) -> Any:
    try:
        value = step(frame)
    except EvaluationError as error:
        return error
    return value if value is True or value is False else EvaluationError(NO_SUCH_OVERLOAD)


def logic(left: Step, right: Step, deciding: bool) -> Step:
    """Returns the step of `||` (deciding is True) or `&&`: an operand that decides makes the other's
    failure irrelevant."""

    def decide(frame: Frame) -> bool:
        first = _outcome(left, frame)
        if first is deciding:
            return bool(deciding)
        second = _outcome(right, frame)
        if second is deciding:
            return bool(deciding)
        if first.__class__ is EvaluationError:
            raise first
        if second.__class__ is EvaluationError:
            raise second
        return not deciding

    return decide


def not_strictly_false(step: Step) -> Step:
    def judge(frame: Frame) -> bool:
        value = _outcome(step, frame)
        frame.spend(1)
        return value is not False

    return judge


def alternative(left: Step, right: Step, whole: bool) -> Step:
    """Returns the step of `optional.or(other)` (whole) or `optional.orValue(other)`; `other` is evaluated
    only if needed."""

    def choose(frame: Frame) -> Any:
        value = left(frame)
        if value.__class__ is not Optional:
            raise EvaluationError(NO_SUCH_OVERLOAD)
        if value.present:
            return value if whole else value.value
        return right(frame)

    return choose


def membership(step: Step, members: list[Any]) -> Step:
    known = {member for member in members if not isinstance(member, bool)}

    def member(frame: Frame) -> bool:
        value = step(frame)
        if isinstance(value, str | bytes) or value.__class__ is int:
            return value in known
        return any(equal(value, member) for member in members)

    return member


def application(function: Callable[..., Any], cost: CallCost | int, steps: list[Step]) -> Step:
    if len(steps) == 1:
        return _unary(function, cost, steps[0])
    if len(steps) == 2:
        return _binary(function, cost, *steps)
    return _many(function, cost, steps)


def _unary(function: Callable[..., Any], cost: CallCost | int, step: Step) -> Step:
    def unary(frame: Frame) -> Any:
        try:
            argument = step(frame)
        except EvaluationError as error:
            frame.spend(cost if isinstance(cost, int) else cost((error,), error))
            raise
        return _evaluated(frame, function, cost, (argument,))

    return unary


def _evaluated(
    frame: Frame, function: Callable[..., Any], cost: CallCost | int, arguments: tuple[Any, ...]
) -> Any:
    try:
        value = function(*arguments)
    except EvaluationError as error:
        frame.spend(cost if isinstance(cost, int) else cost(arguments, error))
        raise
    frame.cost += cost if isinstance(cost, int) else cost(arguments, value)
    if frame.cost > frame.limit:
        raise CostExceededError(COST_EXCEEDED)
    return value


def _binary(function: Callable[..., Any], cost: CallCost | int, left: Step, right: Step) -> Step:
    def binary(frame: Frame) -> Any:
        try:
            first = left(frame)
        except EvaluationError as error:
            _failed(frame, cost, error, right)
            raise
        try:
            second = right(frame)
        except EvaluationError as error:
            frame.spend(cost if isinstance(cost, int) else cost((first, error), error))
            raise
        return _evaluated(frame, function, cost, (first, second))

    return binary


def _failed(frame: Frame, cost: CallCost | int, error: EvaluationError, right: Step) -> None:
    """Evaluates the right operand and counts the call, although the left one failed."""
    try:
        second = right(frame)
    except EvaluationError as other:
        second = other
    frame.spend(cost if isinstance(cost, int) else cost((error, second), error))


def _many(function: Callable[..., Any], cost: CallCost | int, steps: list[Step]) -> Step:
    def many(frame: Frame) -> Any:
        return _evaluated(frame, function, cost, tuple([step(frame) for step in steps]))

    return many
