"""Evaluates awk's expressions."""

import math
import re

from kubeskew.kubelet.containers.execution.waiting import MEMORY_SPENT, ExitError
from kubeskew.kubelet.containers.tools.awk.reading import Node
from kubeskew.kubelet.containers.tools.awk.state import AwkState, Variables
from kubeskew.kubelet.containers.tools.awk.symbols import AwkError
from kubeskew.kubelet.containers.tools.awk.values import Input, Value, compare, is_true, number_of, text_of
from kubeskew.kubelet.containers.tools.regexes import compiled


class AwkExpressions(AwkState):
    """Evaluates expressions; every kind of node has a method `_value_KIND`."""

    def _value(self, node: Node) -> Value | None:
        kind = {"||": "or", "&&": "and"}.get(node[0], node[0])
        value: Value | None = getattr(self, f"_value_{kind}")(*node[1:])
        return value

    def _value_number(self, value: float) -> Value:
        return value

    def _value_string(self, text: str) -> Value:
        return text

    def _value_pattern(self, text: str) -> Value:
        return float(compiled(text, extended=True).search(self._record) is not None)

    def _value_group(self, values: list[Node]) -> Value | None:
        value = self._value(values[0])
        for other in values[1:]:
            value = self._value(other)
        return value

    def _value_name(self, name: str) -> Value | None:
        value = self._scope(name).get(name)
        if isinstance(value, dict):
            raise AwkError(f"attempt to use array `{name}' in a scalar context")
        found: Value | None = value
        return found

    def _scope(self, name: str) -> Variables:
        return self._locals[-1] if self._locals and name in self._locals[-1] else self.variables

    def _array(self, name: str) -> dict[str, Value | None]:
        scope = self._scope(name)
        if scope.get(name) is None:
            scope[name] = {}
        array: dict[str, Value | None] = scope[name]
        if not isinstance(array, dict):
            raise AwkError(f"attempt to use scalar `{name}' as an array")
        return array

    def _key(self, keys: list[Node]) -> str:
        form = text_of(self.variables["CONVFMT"])
        return text_of(self.variables["SUBSEP"]).join(text_of(self._value(key), form) for key in keys)

    def _value_index(self, name: str, keys: list[Node]) -> Value | None:
        return self._array(name).setdefault(self._key(keys), None)

    def _value_field(self, number: Node) -> Value | None:
        return self._field(int(number_of(self._value(number))))

    def _value_in(self, keys: list[Node], name: str) -> Value:
        return float(self._key(keys) in self._array(name))

    def _value_or(self, left: Node, right: Node) -> Value:
        return float(is_true(self._value(left)) or is_true(self._value(right)))

    def _value_and(self, left: Node, right: Node) -> Value:
        return float(is_true(self._value(left)) and is_true(self._value(right)))

    def _value_cond(self, condition: Node, first: Node, second: Node) -> Value | None:
        return self._value(first if is_true(self._value(condition)) else second)

    def _value_match(self, operator: str, left: Node, right: Node) -> Value:
        found = self._pattern(right).search(text_of(self._value(left))) is not None
        return float(found == (operator == "~"))

    def _pattern(self, node: Node) -> re.Pattern[str]:
        return compiled(node[1] if node[0] == "pattern" else text_of(self._value(node)), extended=True)

    def _value_compare(self, operator: str, left: Node, right: Node) -> Value:
        order = compare(self._value(left), self._value(right))
        return float({
            "<": order < 0, "<=": order <= 0, "==": order == 0,
            "!=": order != 0, ">": order > 0, ">=": order >= 0,
        }[operator])  # fmt: skip

    def _value_concat(self, left: Node, right: Node) -> Value:
        form = text_of(self.variables["CONVFMT"])
        first = text_of(self._value(left), form)
        text = first + text_of(self._value(right), form)
        if len(text) > 1 << 24:
            raise ExitError(MEMORY_SPENT)
        return text

    def _value_binary(self, operator: str, left: Node, right: Node) -> Value:
        return self._calculated(operator, number_of(self._value(left)), number_of(self._value(right)))

    def _calculated(self, operator: str, left: float, right: float) -> float:
        if operator in {"/", "%"} and right == 0:
            raise AwkError("division by zero" + (" in %" if operator == "%" else ""))
        try:
            return {
                "+": lambda: left + right, "-": lambda: left - right, "*": lambda: left * right,
                "/": lambda: left / right, "%": lambda: math.fmod(left, right),
                "^": lambda: float(left**right),
            }[operator]()  # fmt: skip
        except OverflowError:
            return float("inf")

    def _value_unary(self, operator: str, node: Node) -> Value:
        value = self._value(node)
        if operator == "!":
            return float(not is_true(value))
        return -number_of(value) if operator == "-" else number_of(value)

    def _value_assign(self, operator: str, target: Node, node: Node) -> Value | None:
        value = self._value(node)
        if operator:
            value = self._calculated(operator, number_of(self._value(target)), number_of(value))
        self._set(target, value)
        return value

    def _value_before(self, operator: str, target: Node) -> Value:
        value = number_of(self._value(target)) + (1 if operator == "++" else -1)
        self._set(target, value)
        return value

    def _value_after(self, operator: str, target: Node) -> Value:
        value = number_of(self._value(target))
        self._set(target, value + (1 if operator == "++" else -1))
        return value

    def _set(self, target: Node, value: Value | None) -> None:
        if target[0] == "name":
            self._set_name(target[1], value)
        elif target[0] == "index":
            self._array(target[1])[self._key(target[2])] = value
        elif target[0] == "field":
            self._set_field(int(number_of(self._value(target[1]))), value)
        else:
            raise AwkError("syntax error at '='")

    def _set_name(self, name: str, value: Value | None) -> None:
        self._scope(name)[name] = value
        if name == "NF":
            count = int(number_of(value))
            self._fields = (self._fields + [""] * count)[:count]
            self._record = text_of(self.variables["OFS"]).join(self._fields)

    def _value_getline(self, _command: Node, _target: Node | None) -> Value:
        return -1.0  # the output of a command is not read here

    def _value_getline_file(self, source: Node | None, target: Node | None) -> Value:
        if source is not None:
            return -1.0
        record = next(self._records, None)
        if record is None:
            return 0.0
        if target is None:
            self._take(record)
        else:
            self.variables["NR"] = number_of(self.variables["NR"]) + 1
            self._set(target, Input(record))
        return 1.0

    def _value_call(self, name: str, arguments: list[Node]) -> Value | None:
        raise NotImplementedError
