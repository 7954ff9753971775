"""Shows texts of a patch in errors as the client wrote them.

Upstream applies JSON and merge patches to raw messages: what a patch puts into an object keeps the escapes it
was sent with (`\\u00fc`), and an error that shows the object shows them.

Source: gopkg.in/evanphx/json-patch.v4 (lazyNode), 1.36.
"""

import re
from collections.abc import Callable
from itertools import count
from typing import Any

import orjson

from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.go_formats import quoted
from kubeskew.apiserver.decoding.go_json import escaped
from kubeskew.apiserver.storage.encoding import dumps

_TEXT = re.compile(rb'("(?:[^"\\]|\\.)*")(\s*:)?', re.DOTALL)  # the second group follows a key
_MARK = re.compile("\ue000([0-9]+)(?=\ue001)")


def with_sent_texts(
    error: StatusError, body: bytes, value: Any, patch: Callable[[bytes], Any]
) -> StatusError:
    """Returns the error about `value` with the texts of the patch in `body`. `patch` applies another."""
    if b"\\" not in body:
        return error
    texts: list[str] = []
    before = escaped(dumps(value).decode())
    # Marks begin with a text that neither the patch nor the object has.
    taken = set(_MARK.findall(body.decode(errors="replace") + before))
    begin = f"\ue000{next(number for number in count() if str(number) not in taken)}\ue001"

    def marked(match: re.Match[bytes]) -> bytes:
        try:
            if match[2] or b"\\" not in match[0] or orjson.dumps(orjson.loads(match[1])) == match[1]:
                return match[0]
        except orjson.JSONDecodeError:
            return match[0]
        texts.append(match[0][1:-1].decode())
        return f'"{begin}{len(texts) - 1}\ue001"'.encode()

    other = _TEXT.sub(marked, body)
    if not texts:
        return error
    try:
        shown = escaped(dumps(patch(other)).decode())
    except StatusError:  # an operation tests one of the texts
        return error
    sent = re.sub(f"{begin}([0-9]+)\ue001", lambda match: texts[int(match[1])], shown)
    before, after = (quoted(text)[1:-1] for text in (before, sent))
    error.message = error.message.replace(before, after)
    for cause in (error.details or {}).get("causes", ()):
        cause["message"] = cause["message"].replace(before, after)
    return error
