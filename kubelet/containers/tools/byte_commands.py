"""Commands on bytes: digests, encodings, compression, dumps, copies."""

import base64
import gzip
import hashlib
import re
import zlib
from collections.abc import Awaitable, Callable

from kubeskew.kubelet.containers.execution.files import FileError
from kubeskew.kubelet.containers.execution.process import Process
from kubeskew.kubelet.containers.execution.waiting import sleep
from kubeskew.kubelet.containers.tools.inputs import inputs
from kubeskew.kubelet.containers.tools.options import options_of

Command = Callable[[Process, list[str]], Awaitable[int]]
_BLOCK = re.compile(r"(\d+)(c|w|b|[kKMG]B?|)")
_BLOCKS = {"": 1, "c": 1, "w": 2, "b": 512, "k": 1024, "K": 1024, "kB": 1000, "KB": 1000, "M": 1 << 20,
           "MB": 10**6, "G": 1 << 30, "GB": 10**9}  # fmt: skip
_MOST_COPIED = 64 << 20
_DEVICES = {"/dev/zero": b"\0", "/dev/urandom": b"\x5a\xc3\x17\x9e", "/dev/random": b"\x5a\xc3\x17\x9e"}


async def _base64(process: Process, argv: list[str]) -> int:
    options, paths = options_of(argv, "w")
    found, code = await inputs(process, "base64", paths)
    width = int(options.get("w") or 76) if options.get("w") != "0" else 0
    for _, data in found:
        if "d" in options or "D" in options:
            process.stdout(base64.b64decode(data))
            continue
        text = base64.b64encode(data).decode()
        pieces = [text[at : at + width] for at in range(0, len(text), width)] if width else [text]
        process.out("\n".join(pieces) + ("\n" if width and text else ""))
    return code


async def _digest(process: Process, argv: list[str]) -> int:
    options, paths = options_of(argv)
    found, code = await inputs(process, argv[0], paths)
    name = argv[0].removesuffix("sum").removeprefix("sha")
    algorithm = f"sha{name}" if name.isdigit() else "md5"
    for path, data in found:
        if "c" not in options:
            process.out(f"{hashlib.new(algorithm, data).hexdigest()}  {path}\n")
            continue
        for line in data.decode("utf-8", "replace").splitlines():
            digest, _, name = line.partition("  ")
            try:
                content = process.machine.files.read(process.path(name))
                good = hashlib.new(algorithm, content).hexdigest() == digest
            except FileError:
                good = False
            code = code if good else 1
            process.out(f"{name}: {'OK' if good else 'FAILED'}\n")
    return code


async def _gzip(process: Process, argv: list[str]) -> int:
    """`gzip [-cdfk] [FILE …]`, `gunzip` and `zcat`."""
    options, paths = options_of(argv, "")
    unpacks = argv[0] != "gzip" or "d" in options
    to_stdout = argv[0] == "zcat" or "c" in options or not paths
    files = process.machine.files
    found, code = await inputs(process, argv[0], paths)
    for path, data in found:
        try:
            made = gzip.decompress(data) if unpacks else gzip.compress(data, mtime=0)
        except (OSError, EOFError, zlib.error):
            code = process.complain(f"{argv[0]}: {'invalid magic' if data else 'short read'}")
            continue
        if to_stdout:
            process.stdout(made)
            continue
        if unpacks and not path.endswith((".gz", ".tgz")):
            code = process.complain(f"{argv[0]}: {path}: unknown suffix - ignored")
            continue
        target = path.removesuffix(".gz").removesuffix(".tgz") if unpacks else f"{path}.gz"
        files.write(process.path(target), made, process.timestamp())
        if "k" not in options:
            files.remove(process.path(path))
    return code


def _block(text: str) -> int:
    found = _BLOCK.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return int(found[1]) * _BLOCKS[found[2]]


async def _dd(process: Process, argv: list[str]) -> int:
    """`dd if=… of=… bs=… count=… skip=… seek=… conv=… status=…`."""
    given = dict(word.partition("=")[::2] for word in argv[1:])
    size = _block(given.get("bs") or given.get("ibs") or "512")
    source, count = given.get("if", ""), int(_block(given["count"])) if "count" in given else None
    skip = _block(given.get("skip", "0")) * size
    if size <= 0:
        return process.complain(f"dd: invalid number '{given.get('bs', '')}'")
    try:
        data = await _source(process, source, size, count, skip)
    except FileError as error:
        return process.complain(f"dd: can't open '{source}': {error.text}")
    data = data[skip:] if count is None else data[skip : skip + size * count]
    if "ucase" in given.get("conv", ""):
        data = data.upper()
    if "of" in given:
        path, before = process.path(given["of"]), b""
        seek = _block(given.get("seek", "0")) * size
        file = process.machine.files.look(path)
        if file is not None and file.data is not None:
            before = file.data
        head = before[:seek] + bytes(max(0, seek - len(before)))
        tail = before[seek + len(data) :] if "notrunc" in given.get("conv", "") else b""
        try:
            if path != "/dev/null":
                process.machine.files.write(path, head + data + tail, process.timestamp())
        except FileError as error:
            return process.complain(f"dd: can't open '{given['of']}': {error.text}")
    else:
        process.stdout(data)
    if given.get("status") != "none":
        _told(process, len(data), size, quiet=given.get("status") == "noxfer")
    return 0


async def _source(process: Process, path: str, size: int, count: int | None, skip: int) -> bytes:
    full = process.path(path) if path else ""
    if full in _DEVICES:
        wanted = _MOST_COPIED if count is None else min(size * count, _MOST_COPIED)
        pattern = _DEVICES[full]
        await sleep(0)
        return (pattern * (wanted // len(pattern) + 1))[:wanted]
    if path:
        return process.machine.files.read(full)
    collected = bytearray()
    wanted = _MOST_COPIED if count is None else size * count + skip
    while len(collected) < wanted and (data := await process.stdin.read()):
        collected += data
    return bytes(collected)


def _told(process: Process, length: int, size: int, *, quiet: bool) -> None:
    whole, part = divmod(length, size)
    process.complain(f"{whole}+{int(part > 0)} records in\n{whole}+{int(part > 0)} records out")
    if not quiet:
        process.complain(
            f"{length} bytes ({_human(length)}) copied, 0.000010 seconds, {_human(length * 100_000)}/s"
        )


def _human(count: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1024:
            return f"{count:.1f}{unit}"
        count /= 1024
    return f"{count:.1f}TB"


async def _od(process: Process, argv: list[str]) -> int:
    """`od [-A RADIX] [-t TYPE] [-N COUNT] [-j SKIP] [-bcdoxv] [FILE …]`."""
    options, paths = options_of(argv, "AtNjw")
    found, code = await inputs(process, "od", paths)
    data = b"".join(content for _, content in found)[int(options.get("j") or 0) :]
    data = data[: int(options["N"])] if options.get("N") else data
    kind = options.get("t") or next((_OD_SHORT[letter] for letter in options if letter in _OD_SHORT), "o2")
    radix = options.get("A", "o")[:1]
    last = b""
    starred = False
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        if row == last and "v" not in options and at + 16 < len(data):
            if not starred:
                process.out("*\n")
            starred = True
            continue
        last, starred = row, False
        process.out(_address(at, radix) + _od_row(row, kind) + "\n")
    process.out(_address(len(data), radix).rstrip() + ("\n" if radix != "n" else ""))
    return code


_OD_SHORT = {"b": "o1", "c": "c", "x": "x2", "d": "u2", "o": "o2", "a": "a", "h": "x2", "i": "d4", "s": "d2"}


def _address(at: int, radix: str) -> str:
    return {"o": f"{at:07o}", "d": f"{at:07d}", "x": f"{at:06x}"}.get(radix, "")


_CHARACTERS = {0: "\\0", 7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r"}


def _od_row(row: bytes, kind: str) -> str:
    if kind[0] in "ca":
        shown = (_CHARACTERS.get(byte) or (chr(byte) if 32 <= byte < 127 else f"{byte:03o}") for byte in row)
        return "".join(f" {text:>3}" for text in shown)
    size = {"C": 1, "S": 2, "I": 4, "L": 8}.get(kind[1:2], int(kind[1:2] or 4))
    numbers = [
        int.from_bytes(row[n : n + size].ljust(size, b"\0"), "little") for n in range(0, len(row), size)
    ]
    if kind[0] == "d":
        half = 1 << (8 * size - 1)
        numbers = [number - 2 * half if number >= half else number for number in numbers]
    widths = {("x", 1): 2, ("x", 2): 4, ("x", 4): 8, ("x", 8): 16, ("o", 1): 3, ("o", 2): 6, ("o", 4): 11,
              ("u", 1): 3, ("u", 2): 5, ("u", 4): 10, ("d", 1): 4, ("d", 2): 6, ("d", 4): 11}  # fmt: skip
    width = widths.get((kind[0], size), 20)
    letter = {"x": f"0{width}x", "o": f"0{width}o"}.get(kind[0], f"{width}d")
    return "".join(f" {number:{letter}}" for number in numbers)


async def _hexdump(process: Process, argv: list[str]) -> int:
    options, paths = options_of(argv, "ns")
    found, code = await inputs(process, argv[0], paths)
    data = b"".join(content for _, content in found)
    data = data[: int(options["n"])] if options.get("n") else data
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        if "C" in options:
            halves = [" ".join(f"{byte:02x}" for byte in half) for half in (row[:8], row[8:])]
            text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
            process.out(f"{at:08x}  {halves[0]:<23}  {halves[1]:<23}  |{text}|\n")
        else:
            words = (row[n : n + 2].ljust(2, b"\0") for n in range(0, len(row), 2))
            process.out(
                f"{at:07x} " + " ".join(f"{int.from_bytes(word, 'little'):04x}" for word in words) + "\n"
            )
    if data:
        process.out(f"{len(data):08x}\n" if "C" in options else f"{len(data):07x}\n")
    return code


async def _xxd(process: Process, argv: list[str]) -> int:
    options, paths = options_of(argv, "lcsg")
    found, code = await inputs(process, "xxd", paths)
    data = b"".join(content for _, content in found)
    if "r" in options:
        process.stdout(bytes.fromhex(re.sub(rb"\s", b"", data).decode()))
        return code
    data = data[: int(options["l"])] if options.get("l") else data
    if "p" in options:
        text = data.hex()
        process.out("".join(f"{text[at : at + 60]}\n" for at in range(0, len(text), 60)))
        return code
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        pairs = " ".join(row[n : n + 2].hex() for n in range(0, len(row), 2))
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        process.out(f"{at:08x}: {pairs:<39}  {text}\n")
    return code


async def _cmp(process: Process, argv: list[str]) -> int:
    options, paths = options_of(argv, "n")
    found, code = await inputs(process, "cmp", paths[:2])
    if code or len(found) < 2:
        return 2
    (first, left), (second, right) = found
    if left == right:
        return 0
    if "s" not in options:
        at = next((n for n, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), None)
        if at is None:
            process.complain(f"cmp: EOF on {first if len(left) < len(right) else second}")
        else:
            line = left[:at].count(b"\n") + 1
            process.out(f"{first} {second} differ: char {at + 1}, line {line}\n")
    return 1


BYTE_COMMANDS: dict[str, Command] = {
    "base64": _base64, "md5sum": _digest, "sha1sum": _digest, "sha256sum": _digest, "sha512sum": _digest,
    "gzip": _gzip, "gunzip": _gzip, "zcat": _gzip, "dd": _dd, "od": _od, "hexdump": _hexdump, "hd": _hexdump,
    "xxd": _xxd, "cmp": _cmp,
}  # fmt: skip
