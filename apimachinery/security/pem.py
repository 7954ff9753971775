"""Finds PEM blocks as Go's encoding/pem (1.25) does: text outside of blocks is skipped."""

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass

_BEGIN = re.compile(r"^-----BEGIN ([^\n]*?)-----[ \t\r]*\n", re.MULTILINE)
_END = re.compile(r"^-----END ([^\n]*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """One block; `headers` says that it has lines like `Proc-Type: 4,ENCRYPTED`."""

    kind: str
    headers: bool
    content: bytes


def blocks(text: str) -> Iterator[Block]:
    """Yields the blocks of a text in their order, in time linear in its length."""
    end = _END.search(text)
    passed = 0
    for begin in _BEGIN.finditer(text):
        while end is not None and end.start() < begin.end():
            end = _END.search(text, end.end())
        if end is None:
            return
        if begin.start() < passed or end[1].rstrip(" \t\r") != f"{begin[1]}-----":
            continue
        lines = text[begin.end() : end.start()].split("\n")
        body = [line for line in lines if ":" not in line]
        try:
            content = base64.b64decode("".join("".join(body).split()), validate=True)
        except ValueError:  # also where it is not ASCII
            continue
        passed = end.end()
        yield Block(begin[1], len(body) < len(lines), content)
