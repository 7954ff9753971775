"""Runs awk programs."""

from kubeskew.kubelet.containers.execution.waiting import MEMORY_SPENT, ExitError
from kubeskew.kubelet.containers.tools.awk.functions import AwkFunctions
from kubeskew.kubelet.containers.tools.awk.reading import Node
from kubeskew.kubelet.containers.tools.awk.state import Variables
from kubeskew.kubelet.containers.tools.awk.symbols import AwkError
from kubeskew.kubelet.containers.tools.awk.values import (
    Input,
    Value,
    formatted,
    is_true,
    number_of,
    text_of,
)

_MOST_TURNS = 5_000_000


class NextError(Exception):
    """Ends the present record (`next`)."""


class AwkExitError(Exception):
    """Ends the program (`exit`)."""


class LoopError(Exception):
    def __init__(self, *, again: bool) -> None:
        super().__init__()
        self.again = again


class AwkReturnError(Exception):
    def __init__(self, value: Value | None) -> None:
        super().__init__()
        self.value = value


class Awk(AwkFunctions):
    """One run of a program: its rules and statements."""

    # -- the program

    def begin(self) -> bool:
        """Runs the BEGIN rules; returns whether any input is read afterwards."""
        try:
            for block in self._program.begins:
                self._run(block)
        except AwkExitError:
            return False
        return bool(self._program.rules or self._program.ends)

    def read(self, path: str, text: str) -> bool:
        """Processes a file's records; returns False once the program has ended."""
        self.variables["FILENAME"] = path
        self.variables["FNR"] = 0.0
        self._records = iter(self._split_records(text))
        try:
            for record in self._records:
                self._take(record)
                try:
                    self._apply_rules()
                except NextError as error:
                    if error.args:
                        break
        except AwkExitError:
            return False
        return True

    def end(self) -> None:
        try:
            for block in self._program.ends:
                self._run(block)
        except AwkExitError:
            pass

    def _apply_rules(self) -> None:
        for number, (first, second, action) in enumerate(self._program.rules):
            if not self._selected(number, first, second):
                continue
            if action is None:
                self._write("", "", self._record + text_of(self.variables["ORS"]))
            else:
                self._run(action)

    def _selected(self, number: int, first: Node | None, second: Node | None) -> bool:
        if first is None:
            return True
        if second is None:
            return is_true(self._value(first))
        if number not in self._ranges:
            if not is_true(self._value(first)):
                return False
            self._ranges.add(number)
        if is_true(self._value(second)):
            self._ranges.discard(number)
        return True

    # -- statements

    def _run(self, node: Node) -> None:
        getattr(self, f"_run_{node[0]}")(*node[1:])

    def _turn(self) -> None:
        self._turns += 1
        if self._turns > _MOST_TURNS:
            raise ExitError(MEMORY_SPENT)

    def _run_block(self, statements: list[Node]) -> None:
        for statement in statements:
            self._run(statement)

    def _run_do_expression(self, node: Node) -> None:
        self._value(node)

    def _run_if(self, condition: Node, first: Node, second: Node | None) -> None:
        if is_true(self._value(condition)):
            self._run(first)
        elif second is not None:
            self._run(second)

    def _loop_body(self, body: Node) -> bool:
        """Runs a loop's body once; returns whether the loop goes on."""
        self._turn()
        try:
            self._run(body)
        except LoopError as error:
            return error.again
        return True

    def _run_while(self, condition: Node, body: Node) -> None:
        while is_true(self._value(condition)) and self._loop_body(body):
            pass

    def _run_do(self, body: Node, condition: Node) -> None:
        while self._loop_body(body) and is_true(self._value(condition)):
            pass

    def _run_for(self, first: Node | None, condition: Node | None, step: Node | None, body: Node) -> None:
        if first is not None:
            self._run(first)
        while (condition is None or is_true(self._value(condition))) and self._loop_body(body):
            if step is not None:
                self._run(step)

    def _run_forin(self, name: str, array: str, body: Node) -> None:
        for key in [*self._array(array)]:
            self._set_name(name, Input(key))
            if not self._loop_body(body):
                return

    def _run_next(self) -> None:
        raise NextError

    def _run_nextfile(self) -> None:
        raise NextError("file")

    def _run_break(self) -> None:
        raise LoopError(again=False)

    def _run_continue(self) -> None:
        raise LoopError(again=True)

    def _run_exit(self, value: Node | None) -> None:
        if value is not None:
            self.code = int(number_of(self._value(value))) % 256
        raise AwkExitError

    def _run_return(self, value: Node | None) -> None:
        raise AwkReturnError(None if value is None else self._value(value))

    def _run_delete(self, name: str, keys: list[Node] | None) -> None:
        if keys is None:
            self._array(name).clear()
        else:
            self._array(name).pop(self._key(keys), None)

    def _run_print(self, values: list[Node], target: Node | None) -> None:
        form = text_of(self.variables["OFMT"])
        shown = [text_of(self._value(value), form) for value in values] or [self._record]
        text = text_of(self.variables["OFS"]).join(shown) + text_of(self.variables["ORS"])
        self._put(text, target)

    def _run_printf(self, values: list[Node], target: Node | None) -> None:
        if not values:
            raise AwkError("printf: no format")
        self._put(
            formatted(text_of(self._value(values[0])), [self._value(value) for value in values[1:]]), target
        )

    def _put(self, text: str, target: Node | None) -> None:
        if target is None:
            self._write("", "", text)
        else:
            self._write(target[0], text_of(self._value(target[1])), text)

    # -- functions of the program

    def _value_call(self, name: str, arguments: list[Node]) -> Value | None:
        if name in self._program.functions:
            return self._call(name, arguments)
        known = getattr(self, f"_call_{name}", None)
        if known is None:
            raise AwkError(f"function `{name}' not defined")
        value: Value | None = known(arguments)
        return value

    def _call(self, name: str, arguments: list[Node]) -> Value | None:
        names, body = self._program.functions[name]
        given: Variables = dict.fromkeys(names)
        for parameter, node in zip(names, arguments, strict=False):
            if node[0] == "name" and not isinstance(self._scope(node[1]).get(node[1]), float | str):
                value = self._scope(node[1]).get(node[1])
                if value is None:
                    value = self._scope(node[1]).setdefault(node[1], None)
                given[parameter] = value
            else:
                given[parameter] = self._value(node)
        if len(self._locals) > 200:
            raise RecursionError
        self._locals.append(given)
        try:
            self._run(body)
        except AwkReturnError as done:
            return done.value
        finally:
            self._locals.pop()
        return None
