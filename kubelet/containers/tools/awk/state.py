"""The state of one run of an awk program: variables, the record and its fields."""

import re
from collections.abc import Callable, Iterator
from typing import Any

from kubeskew.apimachinery.clock import repeatable
from kubeskew.kubelet.containers.tools.awk.reading import Program
from kubeskew.kubelet.containers.tools.awk.symbols import AwkError
from kubeskew.kubelet.containers.tools.awk.values import Input, Value, number_of, text_of
from kubeskew.kubelet.containers.tools.regexes import compiled

Variables = dict[str, Any]


class AwkState:
    """Variables, record and fields of one run.

    `write` is called with (how, name, text) of the output; `how` is empty for standard output.
    """

    def __init__(
        self,
        program: Program,
        write: Callable[[str, str, str], None],
        environment: dict[str, str],
        now: float,
    ) -> None:
        self._program = program
        self._write = write
        self._now = now
        self._random = repeatable(0)  # as awk's own numbers are the same in every run
        self._turns = 0
        self._ranges: set[int] = set()
        self._locals: list[Variables] = []
        self._records: Iterator[str] = iter(())
        self.code = 0
        self._fields: list[str] = []
        self._record = ""
        self.variables: Variables = {
            "FS": " ", "OFS": " ", "ORS": "\n", "RS": "\n", "SUBSEP": "\x1c", "NF": 0.0, "NR": 0.0,
            "FNR": 0.0,
            "CONVFMT": "%.6g", "OFMT": "%.6g", "RSTART": 0.0, "RLENGTH": -1.0, "FILENAME": "",
            "ENVIRON": {name: Input(value) for name, value in environment.items()},
        }  # fmt: skip

    def _split_records(self, text: str) -> list[str]:
        separator = text_of(self.variables["RS"])
        if separator == "":
            return [piece.strip("\n") for piece in re.split(r"\n\n+", text.strip("\n")) if piece.strip("\n")]
        if len(separator) == 1:
            pieces = text.split(separator)
        else:
            pieces = compiled(separator, extended=True).split(text)
        return pieces[:-1] if pieces and pieces[-1] in {"", "\n"} else pieces

    def _take(self, record: str) -> None:
        self.variables["NR"] = number_of(self.variables["NR"]) + 1
        self.variables["FNR"] = number_of(self.variables["FNR"]) + 1
        self._set_record(record)

    # -- records and fields

    def _set_record(self, record: str) -> None:
        self._record = record
        self._fields = self._split(record, text_of(self.variables["FS"]))
        self.variables["NF"] = float(len(self._fields))

    def _split(self, text: str, separator: str) -> list[str]:
        if separator == " ":
            return text.split()
        if not text:
            return []
        if text_of(self.variables["RS"]) == "" and separator != "\n":
            return [piece for line in text.split("\n") for piece in self._split_line(line, separator)]
        return self._split_line(text, separator)

    def _split_line(self, text: str, separator: str) -> list[str]:
        if separator == "":
            return [*text]
        if len(separator) == 1 and separator != " ":
            return text.split("\t" if separator == "\\t" else separator)
        return [piece or "" for piece in re.split(compiled(separator, extended=True).pattern, text)]

    def _field(self, number: int) -> Value:
        if number < 0:
            raise AwkError(f"attempt to access field {number}")
        if number == 0:
            return Input(self._record)
        return Input(self._fields[number - 1]) if number <= len(self._fields) else Input("")

    def _set_field(self, number: int, value: Value | None) -> None:
        if number == 0:
            self._set_record(text_of(value))
            return
        self._fields += [""] * (number - len(self._fields))
        self._fields[number - 1] = text_of(value, text_of(self.variables["CONVFMT"]))
        self.variables["NF"] = float(len(self._fields))
        self._record = text_of(self.variables["OFS"]).join(self._fields)
