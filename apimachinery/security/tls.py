"""PEM blocks, and the TLS context of a server.

PEM blocks are found as Go's encoding/pem (1.25) does: text outside of blocks is skipped.
"""

import base64
import re
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

_BEGIN = re.compile(r"^-----BEGIN ([^\n]*?)-----[ \t\r]*\n", re.MULTILINE)
_END = re.compile(r"^-----END ([^\n]*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """One block; `headers` is true if it has lines like `Proc-Type: 4,ENCRYPTED`."""

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


def serving_context(certificate: str, key: str, *client_authorities: str) -> ssl.SSLContext:
    """Client certificates are verified against the authorities, if there are any.

    All arguments are files; empty names of authorities are left out. Servers of one process that have the
    same files share the context, which takes a millisecond to make. Raises OSError, ssl.SSLError.
    """
    files = (certificate, key, *filter(None, client_authorities))
    return _context(files, tuple(Path(file).read_bytes() for file in files))


@lru_cache(maxsize=8)
def _context(files: tuple[str, ...], _contents: tuple[bytes, ...]) -> ssl.SSLContext:
    certificate, key, *authorities = files
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["http/1.1"])
    context.num_tickets = 1  # one session to resume is enough; a ticket costs 0.3 ms
    for file in authorities:
        context.load_verify_locations(file)
        context.verify_mode = ssl.CERT_OPTIONAL
    return context
