"""awk's own functions."""

import math
import re

from kubeskew.kubelet.containers.tools.awk.expressions import AwkExpressions
from kubeskew.kubelet.containers.tools.awk.reading import Node
from kubeskew.kubelet.containers.tools.awk.values import Input, Value, formatted, number_of, text_of
from kubeskew.kubelet.containers.tools.regexes import compiled


class AwkFunctions(AwkExpressions):
    """awk's own functions; each has a method `_call_NAME`."""

    def _text(self, arguments: list[Node], number: int, default: str = "") -> str:
        return text_of(self._value(arguments[number])) if number < len(arguments) else default

    def _number(self, arguments: list[Node], number: int = 0) -> float:
        return number_of(self._value(arguments[number])) if number < len(arguments) else 0.0

    def _call_length(self, arguments: list[Node]) -> Value:
        if arguments and arguments[0][0] == "name":
            value = self._scope(arguments[0][1]).get(arguments[0][1])
            if isinstance(value, dict):
                return float(len(value))
        return float(len(self._text(arguments, 0, self._record) if arguments else self._record))

    def _call_substr(self, arguments: list[Node]) -> Value:
        text, start = self._text(arguments, 0), max(1, round(self._number(arguments, 1)))
        end = start + round(self._number(arguments, 2)) if len(arguments) > 2 else len(text) + 1
        return text[max(0, start - 1) : max(0, end - 1)]

    def _call_index(self, arguments: list[Node]) -> Value:
        return float(self._text(arguments, 0).find(self._text(arguments, 1)) + 1)

    def _call_split(self, arguments: list[Node]) -> Value:
        text = self._text(arguments, 0)
        if len(arguments) > 2 and arguments[2][0] == "pattern":
            pieces = compiled(arguments[2][1], extended=True).split(text) if text else []
        else:
            pieces = self._split(text, self._text(arguments, 2, text_of(self.variables["FS"])))
        array = self._array(arguments[1][1])
        array.clear()
        array.update({str(number): Input(piece) for number, piece in enumerate(pieces, 1)})
        return float(len(pieces))

    def _call_sub(self, arguments: list[Node], count: int = 1) -> Value:
        target: Node = arguments[2] if len(arguments) > 2 else ("field", ("number", 0.0))
        template = self._text(arguments, 1)

        def filled(match: re.Match[str]) -> str:
            return re.sub(r"\\(.)|&", lambda found: found[1] or match[0], template)

        text, made = self._pattern(arguments[0]).subn(filled, text_of(self._value(target)), count=count)
        if made:
            self._set(target, text)
        return float(made)

    def _call_gsub(self, arguments: list[Node]) -> Value:
        return self._call_sub(arguments, 0)

    def _call_match(self, arguments: list[Node]) -> Value:
        found = self._pattern(arguments[1]).search(self._text(arguments, 0))
        start, length = (found.start() + 1, found.end() - found.start()) if found is not None else (0, -1)
        self.variables["RSTART"], self.variables["RLENGTH"] = float(start), float(length)
        return float(start)

    def _call_sprintf(self, arguments: list[Node]) -> Value:
        return formatted(self._text(arguments, 0), [self._value(argument) for argument in arguments[1:]])

    def _call_toupper(self, arguments: list[Node]) -> Value:
        return self._text(arguments, 0).upper()

    def _call_tolower(self, arguments: list[Node]) -> Value:
        return self._text(arguments, 0).lower()

    def _call_int(self, arguments: list[Node]) -> Value:
        return float(int(self._number(arguments)))

    def _call_sqrt(self, arguments: list[Node]) -> Value:
        value = self._number(arguments)
        return math.sqrt(value) if value >= 0 else float("nan")

    def _call_exp(self, arguments: list[Node]) -> Value:
        return math.exp(min(self._number(arguments), 709.0))

    def _call_log(self, arguments: list[Node]) -> Value:
        value = self._number(arguments)
        return math.log(value) if value > 0 else float("-inf") if value == 0 else float("nan")

    def _call_sin(self, arguments: list[Node]) -> Value:
        return math.sin(self._number(arguments))

    def _call_cos(self, arguments: list[Node]) -> Value:
        return math.cos(self._number(arguments))

    def _call_atan2(self, arguments: list[Node]) -> Value:
        return math.atan2(self._number(arguments), self._number(arguments, 1))

    def _call_rand(self, _arguments: list[Node]) -> Value:
        return self._random.random()

    def _call_srand(self, arguments: list[Node]) -> Value:
        self._random.seed(self._number(arguments) if arguments else self._now)
        return 0.0

    def _call_systime(self, _arguments: list[Node]) -> Value:
        return float(int(self._now))

    def _call_close(self, _arguments: list[Node]) -> Value:
        return 0.0

    def _call_fflush(self, _arguments: list[Node]) -> Value:
        return 0.0

    def _call_system(self, arguments: list[Node]) -> Value:
        self._write("system", self._text(arguments, 0), "")
        return 0.0
