"""Property names as CEL identifiers.

Source: k8s.io/apiserver/pkg/cel/escaping.go, 1.36.
"""

import re

from kubeskew.apimachinery.memoizing import remembered

_RESERVED = frozenset(
    [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)
_NAME = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*")
_ESCAPED = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_PART = re.compile(r"__|[.\-/]")
_BACK = {escaped: plain for plain, escaped in _ESCAPED.items()}
_SEQUENCE = re.compile(r"__[^_]+__")


@remembered(8192)
def escape(name: str) -> str | None:
    """Returns the identifier of a property; None if it has none, so that expressions cannot name it."""
    if not _NAME.fullmatch(name):
        return None
    if name in _RESERVED:
        return f"__{name}__"
    return _PART.sub(lambda found: _ESCAPED[found.group()], name)


@remembered(8192)
def unescape(identifier: str) -> str | None:
    """Returns the property of an identifier; None if it contains an unknown escape sequence.

    Underscores outside of sequences stand for themselves, so the identifier need not come from `escape`.
    """
    sequences = _SEQUENCE.findall(identifier)
    if sequences == [identifier] and identifier[2:-2] in _RESERVED:
        return identifier[2:-2]
    if not _BACK.keys() >= set(sequences):
        return None
    return _SEQUENCE.sub(lambda found: _BACK[found.group()], identifier)


def keyword_field(name: str) -> str:
    """Returns the identifier of a property that is selected by a reserved word; any other name stays."""
    return f"__{name}__" if name in _RESERVED else name
