"""Struct types as a Go program carries them for its own reflection: package, name, fields with their tags.

Works on 64-bit little-endian ELF files, stripped or not, position-independent or not. The layout is that of
`internal/abi` (Type, StructType, UncommonType, Name), the same from Go 1.15 to 1.26.
"""

import struct
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

_STRUCT = 25  # reflect.Struct
_KIND_MASK = 31
_UNCOMMON, _EXTRA_STAR, _NAMED = 1, 2, 4  # abi.TFlag
_EMBEDDED, _TAGGED = 8, 2  # flags of abi.Name
_SHT_RELA, _PT_LOAD, _RELATIVE = 4, 1, 8
_MAX_FIELDS, _MAX_TEXT = 200, 2000


class GoField(NamedTuple):
    """A field as declared. `type` is the full name of its type, empty where that has no name."""

    name: str
    tag: str
    embedded: bool
    type: str


class _Struct(NamedTuple):
    at: int  # file offset
    fields: list[tuple[int, str, str, int]]  # name's flags, name, tag, address of the type


class Binary:
    """One executable, relocated as if loaded at address 0."""

    def __init__(self, path: Path) -> None:
        self._data = bytearray(path.read_bytes())
        header = struct.unpack_from("<QQ", self._data, 0x20)
        programs, sections = struct.unpack_from("<HHH", self._data, 0x36)[1:], header[1]
        count = struct.unpack_from("<H", self._data, 0x3C)[0]
        self._loads: list[tuple[int, int, int]] = [
            (address, offset, size)
            for kind, _, offset, address, _, size in (
                struct.unpack_from("<IIQQQQ", self._data, header[0] + 56 * i) for i in range(programs[0])
            )
            if kind == _PT_LOAD
        ]
        self._sections = [
            struct.unpack_from("<IIQQQQ", self._data, sections + 64 * i)[1:] for i in range(count)
        ]
        self._relocate()

    def _relocate(self) -> None:
        for kind, _, _, start, size in self._sections:
            for at in range(start, start + size, 24) if kind == _SHT_RELA else ():
                address, info, addend = struct.unpack_from("<QQq", self._data, at)
                if info & 0xFFFFFFFF == _RELATIVE:
                    struct.pack_into("<q", self._data, self._offset(address), addend)

    def _offset(self, address: int) -> int:
        for start, offset, size in self._loads:
            if start <= address < start + size:
                return address - start + offset
        raise ValueError("address outside of the file")

    def _address(self, offset: int) -> int:
        return next(s + offset - o for s, o, size in self._loads if o <= offset < o + size)

    def _text(self, at: int) -> tuple[str, int]:
        length = shift = 0
        while True:
            byte = self._data[at]
            at += 1
            length |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        if length > _MAX_TEXT:
            raise ValueError("no name")
        return self._data[at : at + length].decode(), at + length

    def _name(self, address: int) -> tuple[int, str, str]:
        at = self._offset(address)
        flags = self._data[at]
        name, at = self._text(at + 1)
        return flags, name, self._text(at)[0] if flags & _TAGGED else ""

    def _struct(self, at: int) -> _Struct | None:
        """The struct type whose descriptor is at a file offset; None if there is none."""
        start, count, capacity = struct.unpack_from("<QQQ", self._data, at + 56)
        if count != capacity or not 0 < count < _MAX_FIELDS:
            return None
        try:
            rows = [struct.unpack_from("<QQ", self._data, self._offset(start) + 24 * i) for i in range(count)]
            return _Struct(at, [(*self._name(name), type_) for name, type_ in rows])
        except (ValueError, struct.error, IndexError):
            return None

    @cached_property
    def _structs(self) -> list[_Struct]:
        """Named struct types of which a field has a protobuf tag, found by their shape."""
        found = []
        for kind, flags, _, start, size in self._sections:
            if kind != 1 or not flags & 2 or flags & 4:  # program data that is no code
                continue
            for at in range(-(-start // 8) * 8, start + size - 80, 8):
                if self._data[at + 23] & _KIND_MASK == _STRUCT and self._data[at + 20] & _NAMED:
                    one = self._struct(at)
                    if one is not None and any("protobuf:" in tag for _, _, tag, _ in one.fields):
                        found.append(one)
        return found

    @cached_property
    def _base(self) -> int:
        """The address that name offsets count from: where most structs' own names are found from it."""
        votes: Counter[int] = Counter()
        for one in self._structs[:400]:
            if any(name == "TypeMeta" for _, name, _, _ in one.fields):
                offset = struct.unpack_from("<i", self._data, one.at + 40)[0]
                votes.update(place - offset for place in self._places(b"*v1."))
        return votes.most_common(1)[0][0]

    def _places(self, text: bytes) -> Iterator[int]:
        """Addresses of names that start with a text."""
        at = self._data.find(text)
        while at >= 0:
            if self._data[at - 2] in (0, 1):
                yield self._address(at - 2)
            at = self._data.find(text, at + 1)

    def _type_name(self, at: int) -> str:
        """`package path.Name` of the type with this descriptor; empty if it has none."""
        flags = self._data[at + 20]
        if not flags & _UNCOMMON or not flags & _NAMED:
            return ""
        text = self._name(self._base + struct.unpack_from("<i", self._data, at + 40)[0])[1]
        size = 80 if self._data[at + 23] & _KIND_MASK == _STRUCT else 48
        package = self._name(self._base + struct.unpack_from("<i", self._data, at + size)[0])[1]
        return f"{package}.{text.rpartition('.')[2]}"

    def structs(self) -> Iterator[tuple[str, list[GoField]]]:
        """Every named struct with a protobuf tag: `k8s.io/api/core/v1.Pod` and its fields."""
        for one in self._structs:
            yield (
                self._type_name(one.at),
                [
                    GoField(name, tag, bool(flags & _EMBEDDED), self._embedded_type(flags, type_))
                    for flags, name, tag, type_ in one.fields
                ],
            )

    def _embedded_type(self, flags: int, address: int) -> str:
        return self._type_name(self._offset(address)) if flags & _EMBEDDED else ""
