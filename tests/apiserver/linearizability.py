"""A checker of linearizability: is there an order of concurrent calls in which one server, doing one after
the other, had given all their answers?

The search is that of Wing and Gong (Testing and Verifying Concurrent Objects, 1993), with states that were
seen left out as by Lowe (Testing for linearizability, 2017). A call without an answer, as when the server was
killed, may have been done at any time after it was made, or never.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self


class State(Protocol):
    """The state of a model. Those of one digest answer all alike, now and of the past."""

    @property
    def digest(self) -> int: ...

    @property
    def revision(self) -> int: ...

    @property
    def items(self) -> Mapping[Any, Any]: ...

    def applied(self, request: Any) -> tuple[Self, Any]:
        """The state after the request, which is this one if it changes nothing, and the answer."""
        ...


@dataclass(slots=True)
class Operation:
    """A call. Times have no unit; `returned` is infinite if there was no answer. The answer may be an error's
    text."""

    client: int
    request: Any
    called: int
    returned: float = math.inf
    answer: Any = None

    @property
    def answered(self) -> bool:
        return self.returned < math.inf

    def __str__(self) -> str:
        times = f"{self.called} to {self.returned}"
        return f"client {self.client}, {times}: {_short(self.request)} → {_short(self.answer)}"


class NotLinearizableError(AssertionError):
    """No order explains the answers. The text has the end of the longest that explains some."""


def linearized(
    operations: Sequence[Operation], start: State, log: Mapping[int, Mapping[Any, Any]] | None = None
) -> Sequence[Operation]:
    """An order that explains all answers, without the calls that had no answer and no effect.

    `log` has the keys at each revision after that of `start`, as they are known to have been; then the order
    explains these as well. Raises NotLinearizableError.

    """
    search = _Search(operations, start, log)
    return search.run()


@dataclass(slots=True)
class _Node:
    """A state that some calls lead to, as bits of their numbers; of the answered, all before `first` did."""

    state: State
    done: int
    first: int
    candidates: Iterator[int]


class _Search:
    def __init__(
        self, operations: Sequence[Operation], start: State, log: Mapping[int, Mapping[Any, Any]] | None
    ) -> None:
        answered = [operation for operation in operations if operation.answered]
        others = [operation for operation in operations if not operation.answered]
        self._answered = len(answered)
        self._operations = [
            *sorted(answered, key=lambda one: one.called), *sorted(others, key=lambda one: one.called)
        ]  # fmt: skip
        self._start = start
        self._log = log
        self._newest = max(log, default=start.revision) if log is not None else None

    def run(self) -> Sequence[Operation]:
        node = self._node(self._start, 0, 0)
        if self._complete(node):
            return []
        stack, path = [node], list[Operation]()
        seen = {(0, self._start.digest)}
        longest, farthest = list[Operation](), node
        while stack:
            node = stack[-1]
            for number in node.candidates:
                after = self._after(node.state, self._operations[number])
                done = node.done | 1 << number
                if after is None or (done, after.digest) in seen:
                    continue
                seen.add((done, after.digest))
                if after is node.state:  # nothing is lost if a call that changes nothing comes at once
                    node.candidates = iter(())
                path.append(self._operations[number])
                stack.append(self._node(after, done, node.first))
                if self._complete(stack[-1]):
                    return path
                if len(path) > len(longest):
                    longest, farthest = list(path), stack[-1]
                break
            else:
                stack.pop()
                if stack:
                    path.pop()
        raise NotLinearizableError(self._report(longest, farthest))

    def _node(self, state: State, done: int, first: int) -> _Node:
        while first < self._answered and done >> first & 1:
            first += 1
        return _Node(state, done, first, self._candidates(done, first))

    def _candidates(self, done: int, first: int) -> Iterator[int]:
        """Calls that nothing else must come before: none was answered before they were made."""
        bound = math.inf
        open_calls: list[int] = []
        for number in range(first, self._answered):
            operation = self._operations[number]
            if operation.called > bound:
                break
            if not done >> number & 1:
                open_calls.append(number)
                bound = min(bound, operation.returned)
        yield from sorted(open_calls, key=lambda number: self._operations[number].returned)
        for number in range(self._answered, len(self._operations)):
            if self._operations[number].called < bound and not done >> number & 1:
                yield number

    def _after(self, state: State, operation: Operation) -> State | None:
        """The state after the call; None if it cannot be the next, or need not be."""
        after, answer = state.applied(operation.request)
        if operation.answered:
            if answer != operation.answer:
                return None
        elif after is state:
            return None
        if after is not state and self._log is not None and self._log.get(after.revision) != after.items:
            return None
        return after

    def _complete(self, node: _Node) -> bool:
        return node.first == self._answered and self._newest in (None, node.state.revision)

    def _report(self, longest: Sequence[Operation], node: _Node) -> str:
        lines = [f"{len(longest)} of {len(self._operations)} calls can be put in order, to revision"]
        lines[0] += f" {node.state.revision}; the last of these:"
        lines += [f"  {operation}" for operation in longest[-8:]]
        lines.append("but then none of these can come next:")
        for number in self._candidates(node.done, node.first):
            operation = self._operations[number]
            after, answer = node.state.applied(operation.request)
            lines.append(f"  {operation}")
            if operation.answered and answer != operation.answer:
                lines.append(f"    expected {_short(answer)}")
            elif self._log is not None and self._log.get(after.revision) != after.items:
                lines.append(f"    the log at {after.revision}: {self._log.get(after.revision)}")
        return "\n".join(lines)


def _short(message: Any) -> str:
    return " ".join(f"{type(message).__name__} {message}".split())
