"""A terminal between a person and a program: echo, line editing, Ctrl-C and Ctrl-D."""

INTERRUPT, END = 0x03, 0x04
_ERASE = frozenset({0x08, 0x7F})


class Interrupted(Exception):  # noqa: N818 - not an error: somebody pressed Ctrl-C
    """Ctrl-C was typed."""


class Terminal:
    """A terminal; `type` takes typed bytes, and returns what the program may read by now."""

    def __init__(self) -> None:
        self._line = bytearray()
        self.echo = bytearray()  # output to show; the caller takes it
        self.ended = False

    def type(self, data: bytes) -> bytes:
        """Takes typed bytes; returns what the program may read. Raises Interrupted."""
        whole = bytearray()
        for byte in data:
            if byte in {0x0D, 0x0A}:
                whole += self._line + b"\n"
                self._line.clear()
                self.echo += b"\r\n"
            elif byte in _ERASE:
                if self._line:
                    self._line.pop()
                    self.echo += b"\b \b"
            elif byte == INTERRUPT:
                self._line.clear()
                self.echo += b"^C\r\n"
                raise Interrupted
            elif byte == END:
                if not self._line:
                    self.ended = True
                whole += self._line
                self._line.clear()
            else:
                self._line.append(byte)
                self.echo.append(byte)
        return bytes(whole)

    def shown(self) -> bytes:
        """Returns the output to show since the last call."""
        taken = bytes(self.echo)
        self.echo.clear()
        return taken
