"""Translates POSIX regular expressions, basic and extended, to Python's."""

import functools
import re

_CLASSES = {
    "alpha": "a-zA-Z", "digit": "0-9", "alnum": "a-zA-Z0-9", "upper": "A-Z", "lower": "a-z", "space": r"\s",
    "blank": " \t", "punct": r"!-/:-@\[-`{-~", "xdigit": "0-9A-Fa-f", "cntrl": r"\x00-\x1f\x7f",
    "print": " -~", "graph": "!-~",
}  # fmt: skip
_ESCAPES = {"n": "\\n", "t": "\\t", "w": "\\w", "W": "\\W", "s": "\\s", "S": "\\S", "b": "\\b", "B": "\\B",
            "<": r"\b(?=\w)", ">": r"\b(?<=\w)", "`": r"\A", "'": r"\Z", "r": "\\r", "f": "\\f", "v": "\\v",
            "a": "\\x07"}  # fmt: skip


@functools.lru_cache(maxsize=512)
def compiled(pattern: str, *, extended: bool, ignores_case: bool = False) -> re.Pattern[str]:
    """Returns the compiled expression. Raises ValueError for an invalid one."""
    flags = re.IGNORECASE if ignores_case else 0
    try:
        return re.compile(translated(pattern, extended=extended), flags)
    except re.error as error:
        raise ValueError(str(error)) from None


def translated(pattern: str, *, extended: bool) -> str:
    """Returns the expression in Python's syntax."""
    out: list[str] = []
    at, starts = 0, True  # whether a star is an ordinary character here
    while at < len(pattern):
        char = pattern[at]
        if char == "[":
            text, at = bracket(pattern, at)
            out.append(text)
            starts = False
            continue
        special, width = char, 1
        if char == "\\":
            if at + 1 == len(pattern):
                raise ValueError("Trailing backslash")
            special, width = "\\" + pattern[at + 1], 2
        piece, starts = _piece(special, pattern, at, extended=extended, starts=starts)
        out.append(piece)
        at += width
    return "".join(out)


def _piece(special: str, pattern: str, at: int, *, extended: bool, starts: bool) -> tuple[str, bool]:
    """Returns (one character or escape in Python's syntax, whether an expression begins after it)."""
    plain = special[-1]
    is_operator = plain in "(){}|+?" and (len(special) == 1) == extended
    if is_operator:
        if plain in "+?{" and starts:
            return re.escape(plain), False
        return plain, plain in "(|"
    if special == "*":
        return ("\\*", False) if starts else ("*", False)
    if special == "^":
        anchors = extended or starts
        return ("^", True) if anchors else ("\\^", False)
    if special == "$":
        ends = extended or at + 1 == len(pattern) or pattern.startswith(("\\)", "\\|"), at + 1)
        return (r"(?=\n?\Z)" if False else "$", False) if ends else ("\\$", False)
    if special == ".":
        return "(?s:.)", False
    if len(special) == 1:
        return re.escape(special), False
    if plain.isdigit() and plain != "0":
        return f"(?:\\{plain})", False
    return _ESCAPES.get(plain, re.escape(plain)), False


def bracket(pattern: str, at: int) -> tuple[str, int]:
    """Returns (a bracket expression in Python's syntax, where it ends)."""
    start = at + 1
    negated = pattern.startswith("^", start)
    start += negated
    out, now = "", start
    while now < len(pattern) and (pattern[now] != "]" or now == start):
        if pattern.startswith("[:", now) and (end := pattern.find(":]", now)) > 0:
            name = pattern[now + 2 : end]
            if name not in _CLASSES:
                raise ValueError("Invalid character class name")
            out += _CLASSES[name]
            now = end + 2
            continue
        if (
            pattern[now] == "\\"
            and pattern[now + 1 : now + 2] in ("n", "t", "\\", "]", "/")
            and now + 1 < len(pattern)
        ):
            if pattern[now + 1] == "]":
                out += "\\\\"
                now += 1
                continue
            out += {"n": "\\n", "t": "\\t", "\\": "\\\\", "/": "/"}[pattern[now + 1]]
            now += 2
            continue
        out += "\\" + pattern[now] if pattern[now] in "\\[]^&~|" else pattern[now]
        now += 1
    if now >= len(pattern):
        raise ValueError("Unmatched [, [^, [:, [., or [=")
    return f"[{'^' if negated else ''}{out}]", now + 1
