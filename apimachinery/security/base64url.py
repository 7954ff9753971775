"""Base64 for URLs without padding (RFC 4648, 5), as strict as Go's encoding/base64.RawURLEncoding."""

import base64
import re

_OTHER = re.compile(r"[^A-Za-z0-9_-]")


def encode(data: bytes) -> str:
    """Returns the text of `data`."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode(text: str) -> bytes:
    """Returns the bytes of a text; line breaks in it do not count. Raises ValueError with Go's words."""
    clean = text.translate({10: None, 13: None})
    bad = _OTHER.search(clean)
    if bad is not None or len(clean) % 4 == 1:
        raise ValueError(f"illegal base64 data at input byte {bad.start() if bad else len(clean) - 1}")
    return base64.urlsafe_b64decode(clean + "=" * (-len(clean) % 4))
