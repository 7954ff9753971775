"""Words the errors of Go's JSON scanner about a body that is not JSON.

Only run on bodies that the fast parser has refused. Texts: encoding/json/scanner.go (Go 1.2x), which
sigs.k8s.io/json keeps.
"""

import re

_SPACE = b" \t\r\n"
_LITERALS = {ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}
_HEX = re.compile(rb"[0-9A-Fa-f]")
_DIGITS = re.compile(rb"[0-9]*")
_PLAIN = re.compile(rb'[^"\\\x00-\x1f]*')
_DIGIT_BYTES = b"0123456789"


class JSONSyntaxError(ValueError):
    """The body is not JSON; the text is Go's."""


class _EndError(Exception):
    """The body ends too early."""


_DEPTH = 10_000  # Go's maxNestingDepth


def check(data: bytes, depth: int = _DEPTH) -> None:
    """Raises JSONSyntaxError with Go's text if `data` is not one JSON value, or nests deeper than `depth`."""
    scanner = _Scanner(data, depth)
    try:
        scanner.value()
    except _EndError:
        raise JSONSyntaxError("unexpected end of JSON input") from None
    scanner.space()
    if scanner.at < len(data):
        scanner.fail("after top-level value")


class _Scanner:
    def __init__(self, data: bytes, depth: int) -> None:
        self.data = data
        self.depth = depth
        self.at = 0

    def fail(self, where: str) -> None:
        raise JSONSyntaxError(f"invalid character {_quoted(self.peek())} {where}")

    def peek(self) -> int:
        if self.at >= len(self.data):
            raise _EndError
        return self.data[self.at]

    def space(self) -> None:
        while self.at < len(self.data) and self.data[self.at] in _SPACE:
            self.at += 1

    def value(self) -> None:
        """Reads one value without recursion: `open_` holds the open brackets."""
        open_: list[int] = []
        while True:
            self.space()
            if self._opens(open_):
                continue
            while open_ and self._closes(open_):
                open_.pop()
            if not open_:
                return

    def _opens(self, open_: list[int]) -> bool:
        """True if a bracket was opened that is not empty, so that a value comes next."""
        first = self.peek()
        if first in b"{[" and len(open_) >= self.depth:
            self.fail("exceeded max depth")
        if first == ord("{"):
            self.at += 1
            self.space()
            open_.append(first)
            if self.peek() == ord("}"):
                return False
            self._key("looking for beginning of object key string")
            return True
        if first == ord("["):
            self.at += 1
            self.space()
            open_.append(first)
            return self.peek() != ord("]")
        self._scalar(first)
        return False

    def _closes(self, open_: list[int]) -> bool:
        """Reads on behind a value: True if the innermost bracket closes, False if another value follows."""
        self.space()
        byte = self.peek()
        if open_[-1] == ord("{"):
            if byte == ord("}"):
                self.at += 1
                return True
            if byte != ord(","):
                self.fail("after object key:value pair")
            self.at += 1
            self.space()
            self._key("looking for beginning of object key string")
            return False
        if byte == ord("]"):
            self.at += 1
            return True
        if byte != ord(","):
            self.fail("after array element")
        self.at += 1
        return False

    def _key(self, where: str) -> None:
        if self.peek() != ord('"'):
            self.fail(where)
        self._string()
        self.space()
        if self.peek() != ord(":"):
            self.fail("after object key")
        self.at += 1

    def _scalar(self, first: int) -> None:
        if first == ord('"'):
            self._string()
        elif first in _LITERALS:
            self._literal(_LITERALS[first])
        elif first == ord("-") or first in _DIGIT_BYTES:
            self._number()
        else:
            self.fail("looking for beginning of value")

    def _literal(self, word: bytes) -> None:
        for expected in word:
            if self.peek() != expected:
                self.fail(f"in literal {word.decode()} (expecting {_quoted(expected)})")
            self.at += 1

    def _string(self) -> None:
        self.at += 1
        while True:
            found = _PLAIN.match(self.data, self.at)
            self.at = found.end() if found else self.at
            byte = self.peek()
            if byte == ord('"'):
                self.at += 1
                return
            if byte != ord("\\"):
                self.fail("in string literal")
            self.at += 1
            self._escape()

    def _escape(self) -> None:
        byte = self.peek()
        if byte == ord("u"):
            for _ in range(4):
                self.at += 1
                if not _HEX.match(bytes([self.peek()])):
                    self.fail("in \\u hexadecimal character escape")
        elif byte not in b'bfnrt\\/"':
            self.fail("in string escape code")
        self.at += 1

    def _number(self) -> None:
        if self.peek() == ord("-"):
            self.at += 1
        if self.peek() == ord("0"):
            self.at += 1
        else:
            self._digits("in numeric literal")
        if self.data[self.at : self.at + 1] == b".":
            self.at += 1
            self._digits("after decimal point in numeric literal")
        if self.data[self.at : self.at + 1] in {b"e", b"E"}:
            self.at += 1
            if self.data[self.at : self.at + 1] in {b"+", b"-"}:
                self.at += 1
            self._digits("in exponent of numeric literal")

    def _digits(self, where: str) -> None:
        if self.peek() not in _DIGIT_BYTES:
            self.fail(where)
        found = _DIGITS.match(self.data, self.at)
        self.at = found.end() if found else self.at


_SPECIAL = {
    **{ord(letter): rf"'\{name}'" for letter, name in zip("\a\b\f\n\r\t\v\\'", "abfnrtv\\'", strict=True)},
    ord('"'): "'\"'",
}


def _quoted(byte: int) -> str:
    """Go takes the byte for the character of that number, and quotes this one."""
    if byte in _SPECIAL:
        return _SPECIAL[byte]
    if byte < 0x20 or byte == 0x7F:
        return f"'\\x{byte:02x}'"
    return f"'{chr(byte)}'" if chr(byte).isprintable() else f"'\\u{byte:04x}'"
