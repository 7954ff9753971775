"""Paths as kubectl writes them, `{.status.phase}`: those of names and places, which `wait` looks at."""

import re

_PART = re.compile(r"\.(?P<name>[A-Za-z_][\w-]*)|\[(?P<place>\d+)\]|\['(?P<quoted>[^']+)'\]")


def json_path(text: str) -> str | None:
    """Returns the JMESPath of a path; None for one that has more than names and places, such as filters."""
    path = text.removeprefix("{").removesuffix("}").removeprefix("$")
    path = path if path.startswith((".", "[")) else f".{path}"
    parts = list(_PART.finditer(path))
    if not parts or "".join(part[0] for part in parts) != path:
        return None
    return ".".join(
        f'"{part["name"] or part["quoted"]}"' if part["place"] is None else f"[{part['place']}]"
        for part in parts
    ).replace(".[", "[")
