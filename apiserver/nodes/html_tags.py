"""Finds the start tags of a page in time that grows with its length alone, and writes them anew.

Source: golang.org/x/net/html (token.go, escape.go) as vendored by Kubernetes 1.36. A browser and Python's
parser disagree with it in odd pages; what a client gets is what upstream's proxy makes of them.
"""

import re
from collections.abc import Callable
from html.entities import html5

Changed = Callable[[str, str, str], str]  # of an element, an attribute and its value

# Nothing here can fail after it has taken much, so nothing is tried twice.
_NAME = re.compile(rb"[^ \n\r\t\f/>]*+")
_SPACE = re.compile(rb"[ \n\r\t\f]*+")
_KEY = re.compile(rb"=?[^= \n\r\t\f/>]*+")
_BARE_VALUE = re.compile(rb"[^ \n\r\t\f>]*+")
_EMPTY_COMMENT = re.compile(rb"-*+>")
_COMMENT_END = re.compile(rb"--!?>")
_LETTER = re.compile(rb"[A-Za-z]")
_RAW_END = {
    name: re.compile(rb"(?i:</%b)(?=[ \n\r\t\f/>])" % name)
    for name in (
        b"iframe", b"noembed", b"noframes", b"noscript", b"script", b"style", b"textarea", b"title", b"xmp",
    )
}  # fmt: skip
# The states of a script's text: where it changes from one to another.
_SCRIPT = re.compile(rb"<!--|(?i:</script)(?=[ \n\r\t\f/>])")
_ESCAPED = re.compile(rb"-->|(?i:</script)(?=[ \n\r\t\f/>])|(?i:<script)[ \n\r\t\f/>]|<(?![/A-Za-z])")
_TWICE_ESCAPED = re.compile(rb"-->|(?i:</script)[ \n\r\t\f/>]")
_REFERENCE = re.compile("&(?:#(?:[xX]([0-9a-fA-F]+)|([0-9]+));?|([A-Za-z0-9]+;?))")
_MOST_DIGITS = 8
_LAST_CHARACTER = 0x10FFFF
_ESCAPES = str.maketrans(
    {"&": "&amp;", "'": "&#39;", "<": "&lt;", ">": "&gt;", '"': "&#34;", "\r": "&#13;"}
)  # as Go escapes them


def rewrite_tags(page: bytes, changed: Changed) -> bytes:
    """Returns the page with all start tags written anew; a tag that the page ends in is left out."""
    return _Page(page, changed).rewritten()


class _Page:
    def __init__(self, page: bytes, changed: Changed) -> None:
        self._page, self._changed = page, changed
        self._made = bytearray()
        self._end = len(page)

    def rewritten(self) -> bytes:
        page, copied, place = self._page, 0, 0
        while (start := page.find(b"<", place)) >= 0:
            kind = page[start + 1 : start + 2]
            if _LETTER.match(kind):
                self._made += page[copied:start]
                copied = place = self._start_tag(start)
            elif kind == b"/" and _LETTER.match(page, start + 2):
                place = self._past_tag(start + 2, None)
                if place > self._end:  # an end tag that the page ends in
                    self._made += page[copied:start]
                    return bytes(self._made)
            elif kind == b"!" and page.startswith(b"--", start + 2):
                place = self._past_comment(start + 4)
            elif kind in {b"/", b"!", b"?"}:
                place = self._past(page.find(b">", start + 2), 1)
            else:
                place = start + 1
        self._made += page[copied:]
        return bytes(self._made)

    def _past(self, found: int, length: int) -> int:
        return found + length if found >= 0 else self._end

    def _past_comment(self, place: int) -> int:
        found = _EMPTY_COMMENT.match(self._page, place) or _COMMENT_END.search(self._page, place)
        return found.end() if found else self._end

    def _start_tag(self, start: int) -> int:
        """Writes the tag, unless the page ends in it; returns where to go on: after it, and after the text of
        an element whose text has no tags.
        """
        found = _NAME.match(self._page, start + 1)
        raw_name = found[0].lower() if found else b""
        name = _replaced(raw_name)
        values: dict[bytes, tuple[int, int]] = {}
        place = self._past_tag(start + 1, values)
        if place > self._end:
            return self._end
        closed = self._page[place - 2 : place - 1] == b"/" and (
            not values or next(reversed(values.values()))[1] != place - 1
        )
        self._made += b"<" + name.encode(errors="surrogateescape")
        for key, (begins, ends) in values.items():
            self._made += self._attribute(name, _replaced(key), self._page[begins:ends])
        self._made += b"/>" if closed else b">"
        text_end = self._past_raw_text(raw_name, place)
        self._made += self._page[place:text_end]
        return text_end

    def _attribute(self, name: str, key: str, raw: bytes) -> bytes:
        value = _replaced(raw).replace("\r\n", "\n").replace("\r", "\n")
        value = self._changed(name, key, _unescaped(value) if "&" in value else value)
        return f' {key}="{value.translate(_ESCAPES)}"'.encode(errors="surrogateescape")

    def _past_tag(self, place: int, values: dict[bytes, tuple[int, int]] | None) -> int:
        """Reads a tag from its name on; the first value of each attribute is put into `values`.

        A tag that the page ends in ends past the page's end.
        """
        page, end = self._page, self._end
        place = _after(_SPACE, page, _after(_NAME, page, place))
        while place < end and page[place] != _GREATER:
            key_ends = _after(_KEY, page, place)
            key = page[place:key_ends]
            begins = ends = key_ends
            place = _after(_SPACE, page, key_ends)
            if page.startswith(b"/", place):
                place += 1
            elif page.startswith(b"=", place):
                begins = place = _after(_SPACE, page, place + 1)
                quote = page[begins : begins + 1]
                if quote in {b'"', b"'"}:
                    begins += 1
                    ends = page.find(quote, begins)
                    if ends < 0:
                        return end + 1
                    place = ends + 1
                else:
                    place = ends = _after(_BARE_VALUE, page, begins)
            if values is not None and key:
                values.setdefault(key.lower(), (begins, ends))
            place = _after(_SPACE, page, place)
        return place + 1

    def _past_raw_text(self, name: bytes, place: int) -> int:
        if name == b"plaintext":
            return self._end
        if name == b"script":
            return self._past_script(place)
        if name not in _RAW_END:
            return place
        found = _RAW_END[name].search(self._page, place)
        return found.start() if found else self._end

    def _past_script(self, place: int) -> int:
        state = _SCRIPT
        while found := state.search(self._page, place):
            place, word = found.end(), found[0].lower()
            if word == b"<!--":
                place -= 2  # its dashes may be those of "-->"
                state = _ESCAPED
            elif word in {b"-->", b"<"}:
                state = _SCRIPT
            elif word.startswith(b"<s"):
                state = _TWICE_ESCAPED
            elif state is _TWICE_ESCAPED:
                state = _ESCAPED
            else:
                return found.start()
        return self._end


_GREATER = ord(">")


def _after(pattern: re.Pattern[bytes], page: bytes, place: int) -> int:
    found = pattern.match(page, place)
    return found.end() if found else place


def _replaced(text: bytes) -> str:
    return text.decode(errors="surrogateescape").replace("\0", "\ufffd")


def _unescaped(value: str) -> str:
    """Replaces the character references of an attribute's value."""

    def character(found: re.Match[str]) -> str:
        sixteen, ten, name = found.groups()
        if name is not None:
            if not name.endswith(";") and value.startswith("=", found.end()):
                return found[0]
            return html5.get(name, found[0])
        digits = (sixteen or ten).lstrip("0") or "0"
        code = int(digits, 16 if sixteen else 10) if len(digits) <= _MOST_DIGITS else _LAST_CHARACTER + 1
        if code == 0 or 0xD800 <= code <= 0xDFFF or code > _LAST_CHARACTER:
            return "\ufffd"
        if 0x80 <= code <= 0x9F:
            return bytes([code]).decode("cp1252", "ignore") or chr(code)
        return chr(code)

    return _REFERENCE.sub(character, value)
