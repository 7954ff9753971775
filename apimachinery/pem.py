"""Blocks of PEM as Go's encoding/pem (1.25) finds them: what is no block is passed over."""

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass

_BLOCK = re.compile(
    r"^-----BEGIN ([^\n]*?)-----[ \t\r]*\n(.*?)^-----END \1-----[ \t\r]*$", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Block:
    """One block; `headers`: it has lines like `Proc-Type: 4,ENCRYPTED`."""

    kind: str
    headers: bool
    content: bytes


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a text in their order."""
    for found in _BLOCK.finditer(text):
        lines = found[2].split("\n")
        body = [line for line in lines if ":" not in line]
        try:
            content = base64.b64decode("".join("".join(body).split()), validate=True)
        except binascii.Error:
            continue
        yield Block(found[1], len(body) < len(lines), content)
