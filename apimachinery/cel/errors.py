"""What can go wrong with an expression."""


class CELError(Exception):
    """Any failure of an expression; the message is cel-go's."""


class CompileError(CELError):
    """The expression is not valid in its environment."""


class EvaluationError(CELError):
    """The expression failed on this input."""


NO_SUCH_OVERLOAD = "no such overload"


def located(source: str, offset: int, message: str) -> str:
    """`message` with the place in `source`, as cel-go shows it (columns count from 1)."""
    line_start = source.rfind("\n", 0, offset) + 1
    line_number = source.count("\n", 0, offset) + 1
    column = offset - line_start
    line = source[line_start:].split("\n", 1)[0]
    return f"ERROR: <input>:{line_number}:{column + 1}: {message}\n | {line}\n | {'.' * column}^"
