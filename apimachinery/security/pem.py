"""Certificates in PEM, as Go's encoding/pem reads and writes them."""

import base64
import re

_LINE = 64
_BLOCK = re.compile(r"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)


def certificate_blocks(text: str) -> list[str]:
    """The certificates of a bundle, each with its head and end, without what stands between them."""
    return [found.group() for found in _BLOCK.finditer(text)]


def certificates(text: str) -> list[bytes]:
    """The certificates of a bundle as DER. Raises ValueError."""
    return [base64.b64decode("".join(content.split())) for content in _BLOCK.findall(text)]


def certificate_pem(der: bytes) -> bytes:
    text = base64.b64encode(der)
    lines = [text[at : at + _LINE] for at in range(0, len(text), _LINE)]
    return b"\n".join([b"-----BEGIN CERTIFICATE-----", *lines, b"-----END CERTIFICATE-----", b""])
