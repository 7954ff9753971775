"""`$(NAME)` in commands and environment values (third_party/forked/golang/expansion, 1.36)."""

import re
from collections.abc import Mapping

_REFERENCE = re.compile(r"\$\$|\$\(([^()]*)\)|\$([^\x00-\x7f])")


def expanded(text: str, env: Mapping[str, str], *, cuts: bool = False) -> str:
    """Returns the text with references to known variables replaced; `$$` stands for a dollar.

    `cuts`: the first byte of a character of several, behind a `$` that begins nothing, counts as a character
    of its own. The bytes that are left then are no UTF-8; they are surrogates (`surrogateescape`).
    """

    def replaced(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        if found[2] is None:
            return env.get(found[1], found[0])
        if not cuts:
            return found[0]
        first, *rest = found[2].encode()
        return f"${chr(first)}{bytes(rest).decode(errors='surrogateescape')}"

    return _REFERENCE.sub(replaced, text)
