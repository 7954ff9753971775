"""Blocks of PEM as Go's encoding/pem (1.25) finds them: what is no block is passed over."""

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass

_BEGIN = re.compile(r"^-----BEGIN ([^\n]*?)-----[ \t\r]*\n", re.MULTILINE)
_END = re.compile(r"^-----END ([^\n]*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """One block; `headers`: it has lines like `Proc-Type: 4,ENCRYPTED`."""

    kind: str
    headers: bool
    content: bytes


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a text in their order. Takes time in proportion to it, whatever it holds."""
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
        except ValueError:  # of what is not ASCII, too
            continue
        passed = end.end()
        yield Block(begin[1], len(body) < len(lines), content)
