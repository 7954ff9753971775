"""Blocks of PEM: what is found, what is passed over, and how long that takes."""

import pytest

from kubeskew.apimachinery.security.tls import Block, blocks

BEGIN, END = "-----BEGIN A-----\n", "-----END A-----\n"
FOUND = Block("A", False, b"\0\0\0")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"{BEGIN}AAAA\n{END}", [FOUND]),
        (f"{BEGIN}Proc-Type: 4,ENCRYPTED\n\nAAAA\n{END}", [Block("A", True, b"\0\0\0")]),
        (f"{BEGIN}\ufffdAAA\n{END}{BEGIN}AAAA\n{END}", [FOUND]),
        (f"{BEGIN}AAAA\n-----END B-----\n{BEGIN}AAAA\n{END}", [FOUND]),
        (f"{BEGIN}{BEGIN}AAAA\n{END}", [FOUND]),
        (f"{BEGIN}AAAA\n-----END A-----x\n", []),
        (BEGIN, []),
    ],
)
def test_blocks(text: str, found: list[Block]) -> None:
    """Blocks whose content is not base64, or whose end does not match, are passed over."""
    assert list(blocks(text)) == found


def test_many_begins() -> None:
    """A megabyte of blocks that do not end is read once: it would take minutes otherwise."""
    assert not list(blocks(BEGIN * 60_000 + "-----END B-----\n"))
