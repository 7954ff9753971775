"""The file layer of the very SQLite that Python's sqlite3 uses, with an ear on it.

A VFS of SQLite is a table of functions, and each open file has another. Ours are copies of those of the
machine, with some functions of our own that call the machine's and report: nothing else is changed, and no
line of the product. As the process's default it serves every connection that is opened meanwhile.

Directories are synced by SQLite itself, within a sync of a new journal or write-ahead log; this is seen by
the system call that opens the directory for it.
"""

import ctypes
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from disk_recorder import Recorder
from recorded_disk import Sync, Truncate, Unlink, Write

OK, FULL, READ, SHORT_READ, WRITE, FSYNC, TRUNCATE = 0, 13, 266, 522, 778, 1034, 1546
P, INT, LONG = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
_NAME = b"recording"


class Methods(ctypes.Structure):
    """sqlite3_io_methods, version 3."""

    _fields_ = [
        ("version", INT),
        ("close", P),
        ("read", P),
        ("write", P),
        ("truncate", P),
        ("sync", P),
        *((f"other{number}", P) for number in range(13)),
    ]


class VFS(ctypes.Structure):
    """sqlite3_vfs, version 3."""

    _fields_ = [
        ("version", INT),
        ("file_size", INT),
        ("path_max", INT),
        ("next", P),
        ("name", ctypes.c_char_p),
        ("data", P),
        ("open", P),
        ("delete", P),
        *((f"other{number}", P) for number in range(11)),
        ("set_call", P),
        ("get_call", P),
        ("next_call", P),
    ]


_OPEN = ctypes.CFUNCTYPE(INT, P, P, P, INT, P)
_DELETE = ctypes.CFUNCTYPE(INT, P, P, INT)
_CLOSE = ctypes.CFUNCTYPE(INT, P)
_TRANSFER = ctypes.CFUNCTYPE(INT, P, P, INT, LONG)
_TRUNCATE = ctypes.CFUNCTYPE(INT, P, LONG)
_SYNC = ctypes.CFUNCTYPE(INT, P, INT)
_SET_CALL = ctypes.CFUNCTYPE(INT, P, ctypes.c_char_p, P)
_GET_CALL = ctypes.CFUNCTYPE(P, P, ctypes.c_char_p)
_OPEN_DIRECTORY = ctypes.CFUNCTYPE(INT, ctypes.c_char_p, ctypes.POINTER(INT))


class UnavailableError(Exception):
    """SQLite is not a shared library of this process."""


class Ear(Protocol):
    """Hears of calls before they are made, and may answer them in the machine's place with a code."""

    def before(self, call: str, path: str, offset: int, size: int) -> int: ...


def library() -> ctypes.CDLL:
    """The library that Python's sqlite3 has loaded. Raises UnavailableError."""
    sqlite3.connect(":memory:").close()
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.split(maxsplit=5)[-1]
        if "sqlite3" in Path(path).name and path.startswith("/"):
            found = ctypes.CDLL(path)
            if hasattr(found, "sqlite3_vfs_find"):
                return found
    raise UnavailableError("SQLite is not a shared library of this process")


class Layer:
    """Our VFS. There is one of a process, because what is registered once is never forgotten by SQLite's
    open files.
    """

    def __init__(self) -> None:
        self._library = library()
        self._library.sqlite3_vfs_find.restype = ctypes.POINTER(VFS)
        self._library.sqlite3_vfs_find.argtypes = [ctypes.c_char_p]
        self._library.sqlite3_vfs_register.argtypes = [P, INT]
        self._library.sqlite3_vfs_unregister.argtypes = [P]
        original = self._library.sqlite3_vfs_find(None)
        self._original = original.contents
        self._vfs = VFS()
        ctypes.memmove(ctypes.byref(self._vfs), original, ctypes.sizeof(VFS))
        self._vfs.name = _NAME
        self._vfs.next = None
        self._open = _OPEN(self._original.open)
        self._delete = _DELETE(self._original.delete)
        self._kept: list[Any] = [_OPEN(self._opening), _DELETE(self._deleting)]
        self._vfs.open = ctypes.cast(self._kept[0], P)
        self._vfs.delete = ctypes.cast(self._kept[1], P)
        self._tables: dict[int, Methods] = {}  # ours by those of the machine
        self._files: dict[int, tuple[str, int | None]] = {}  # path and number by SQLite's handle
        self._synced = threading.local()
        self._failure: BaseException | None = None
        self.recorder: Recorder | None = None
        self.ear: Ear | None = None
        get = _GET_CALL(self._original.get_call)
        self._directory = _OPEN_DIRECTORY(get(ctypes.addressof(self._original), b"openDirectory"))
        self._kept.append(_OPEN_DIRECTORY(self._opening_directory))

    @contextmanager
    def serving(self, recorder: Recorder | None = None, ear: Ear | None = None) -> Iterator[None]:
        """Every connection that is opened meanwhile goes through it."""
        self.recorder, self.ear, self._failure = recorder, ear, None
        set_call = _SET_CALL(self._original.set_call)
        place = ctypes.addressof(self._original)
        set_call(place, b"openDirectory", ctypes.cast(self._kept[2], P))
        self._library.sqlite3_vfs_register(ctypes.addressof(self._vfs), 1)
        try:
            yield
        finally:
            self._library.sqlite3_vfs_unregister(ctypes.addressof(self._vfs))
            self._library.sqlite3_vfs_register(place, 1)
            set_call(place, b"openDirectory", None)
            self.recorder = self.ear = None
        if self._failure is not None:
            raise self._failure

    def _asked(self, call: str, path: str, offset: int, size: int) -> int:
        return OK if self.ear is None else self.ear.before(call, path, offset, size)

    def _failed(self, error: BaseException) -> int:
        """An exception cannot pass through SQLite: it is raised at the end."""
        self._failure = self._failure or error
        return READ

    # --

    def _opening(self, vfs: int, name: int, file: int, flags: int, found: int) -> int:
        try:
            path = ctypes.string_at(name).decode() if name else ""
            code = self._asked("open", path, 0, 0)
            code = code or self._open(vfs, name, file, flags, found)
            if code == OK:
                table = ctypes.cast(file, ctypes.POINTER(P))
                number = self.recorder.opened(path) if self.recorder and path else None
                self._files[file] = path, number
                table[0] = ctypes.addressof(self._table(table[0]))
        except BaseException as error:
            return self._failed(error)
        return int(code)

    def _table(self, address: int) -> Methods:
        """The machine's functions of a kind of file, with ours in their places."""
        known = self._tables.get(address)
        if known is None:
            machine = Methods.from_address(address)
            known = Methods()
            ctypes.memmove(ctypes.byref(known), address, ctypes.sizeof(Methods))
            for name, prototype, make in (
                ("close", _CLOSE, self._closing),
                ("read", _TRANSFER, self._reading),
                ("write", _TRANSFER, self._writing),
                ("truncate", _TRUNCATE, self._truncating),
                ("sync", _SYNC, self._syncing),
            ):
                if name == "read" and self.ear is None:
                    continue
                callback = prototype(make(prototype(getattr(machine, name))))
                self._kept.append(callback)
                setattr(known, name, ctypes.cast(callback, P))
            if self.ear is None:
                self._tables[address] = known
            else:
                self._kept.append(known)
        return known

    def _closing(self, real: Callable[..., int]) -> Callable[..., int]:
        def close(file: int) -> int:
            self._files.pop(file, None)
            return real(file)

        return close

    def _reading(self, real: Callable[..., int]) -> Callable[..., int]:
        def read(file: int, buffer: int, size: int, offset: int) -> int:
            try:
                code = self._asked("read", self._files[file][0], offset, size)
            except BaseException as error:
                return self._failed(error)
            if code == SHORT_READ:
                ctypes.memset(buffer, 0, size)
            return code or real(file, buffer, size, offset)

        return read

    def _writing(self, real: Callable[..., int]) -> Callable[..., int]:
        def write(file: int, buffer: int, size: int, offset: int) -> int:
            try:
                path, number = self._files[file]
                code = self._asked("write", path, offset, size)
                code = code or real(file, buffer, size, offset)
                if code == OK and number is not None and self.recorder:
                    self.recorder.history.add(Write(number, offset, ctypes.string_at(buffer, size)))
            except BaseException as error:
                return self._failed(error)
            return code

        return write

    def _truncating(self, real: Callable[..., int]) -> Callable[..., int]:
        def truncate(file: int, size: int) -> int:
            try:
                path, number = self._files[file]
                code = self._asked("truncate", path, size, 0)
                code = code or real(file, size)
                if code == OK and number is not None and self.recorder:
                    self.recorder.history.add(Truncate(number, size))
            except BaseException as error:
                return self._failed(error)
            return code

        return truncate

    def _syncing(self, real: Callable[..., int]) -> Callable[..., int]:
        def sync(file: int, flags: int) -> int:
            try:
                path, number = self._files[file]
                code = self._asked("sync", path, 0, 0)
                recorder = self.recorder
                since = recorder.position if recorder else 0
                self._synced.directories = directories = []
                code = code or real(file, flags)
                if code == OK and number is not None and recorder and not recorder.ignores_syncs(path):
                    recorder.history.add(Sync(number, since))
                    for directory in directories:
                        recorder.history.add(Sync(directory, since))
            except BaseException as error:
                return self._failed(error)
            return code

        return sync

    def _opening_directory(self, path: bytes, found: Any) -> int:
        try:
            directory = str(Path(path.decode()).parent)
            number = self.recorder.find(directory) if self.recorder else None
            if number is not None:
                self._synced.directories.append(number)
        except BaseException as error:
            self._failed(error)
        return self._directory(path, found)

    def _deleting(self, vfs: int, name: int, sync: int) -> int:
        try:
            path = ctypes.string_at(name).decode()
            code = self._asked("delete", path, 0, 0)
            recorder = self.recorder
            self._synced.directories = []
            code = code or self._delete(vfs, name, sync)
            parts = recorder.parts(path) if recorder else None
            if code == OK and recorder and parts is not None:
                place = recorder.history.place(parts)
                if place is not None and place in recorder.history.names:
                    recorder.history.add(Unlink(place))
                for directory in self._synced.directories:
                    recorder.history.add(Sync(directory, recorder.position))
        except BaseException as error:
            return self._failed(error)
        return int(code)


_layers: list[Layer] = []


def layer() -> Layer:
    """The process's one. Raises UnavailableError."""
    if not _layers:
        _layers.append(Layer())
    return _layers[0]
