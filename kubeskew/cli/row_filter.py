"""Chooses rows of the log by an expression in CEL.

celpy evaluates it: the CEL of the components has the limits and texts of their releases, which are of no use
here. It is imported at the first expression.
"""

from collections.abc import Mapping
from typing import Any

from kubeskew.cluster.failures import UserError

FIELDS = ("revision", "time", "verb", "object", "by", "user", "server", "request")


class RowFilter:
    """Decides which rows an expression over their fields takes."""

    def __init__(self, expression: str) -> None:
        """Compiles the expression. Raises UserError if it does not parse."""
        from celpy import Environment
        from celpy.celparser import CELParseError

        environment = Environment()
        try:
            self._program = environment.program(environment.compile(expression))
        except CELParseError as error:
            why = f"does not parse at column {error.column}"
            raise UserError(f"--where: {why}, where CEL is expected: {expression}") from error

    def takes(self, row: Mapping[str, Any]) -> bool:
        """Decides whether the expression is true of a row. Raises UserError if it is neither true nor not."""
        from celpy import celtypes
        from celpy.evaluation import CELEvalError

        texts = {name: celtypes.StringType(row[name]) for name in FIELDS if name != "revision"}
        try:
            value = self._program.evaluate({"revision": celtypes.IntType(row["revision"]), **texts})
        except CELEvalError as error:
            why = str(error.args[0]).partition(" (in activation")[0]
            fields = ", ".join(FIELDS)
            raise UserError(f"--where: {why}, at revision {row['revision']}; rows have {fields}") from error
        if not isinstance(value, celtypes.BoolType):
            found = f"{str(value)!r} at revision {row['revision']}"
            raise UserError(f"--where: expected an expression that is true or false, found {found}")
        return bool(value)
