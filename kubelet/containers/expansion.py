"""`$(NAME)` in commands and environment values (third_party/forked/golang/expansion, 1.36)."""

import re
from collections.abc import Mapping

_REFERENCE = re.compile(r"\$\$|\$\(([^()]*)\)")


def expanded(text: str, env: Mapping[str, str]) -> str:
    """Returns the text with references to known variables replaced; `$$` stands for a dollar."""
    return _REFERENCE.sub(lambda found: "$" if found[0] == "$$" else env.get(found[1], found[0]), text)
