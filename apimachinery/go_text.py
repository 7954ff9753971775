"""Texts as Go writes them in messages."""

_SHORT = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
    '"': '\\"', "\\": "\\\\",
}  # fmt: skip


def quoted(text: str) -> str:
    """Returns the text quoted as `strconv.Quote` (%q) does: what cannot be printed is escaped."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(char: str) -> str:
    if char in _SHORT:
        return _SHORT[char]
    if char.isprintable():
        return char
    number = ord(char)
    if number < 0x80:
        return f"\\x{number:02x}"
    if 0xD800 <= number < 0xE000:  # a surrogate
        return "\\ufffd"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
