"""The process that clusters know as the API server: it starts its workers and the writer of their log, starts
again what is killed of them, and gives the workers their connections.

It has one thread, no event loop and no database, so that it can fork at any time: a fork of a process with
threads has their locks without them. It holds the port, so that connections wait while a worker is started
again. The first worker has the duties of the server apart from answers; the others begin when it is ready.
While the server has faults, the first worker alone has connections: their counts are those of one process.
"""

import ctypes
import gc
import logging
import math
import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import NoReturn

from kubeskew.apimachinery.clock import Clock, stopwatch
from kubeskew.apimachinery.faults.injector import ProcessFaults
from kubeskew.apimachinery.process.runtime import allow_open_files
from kubeskew.apiserver.http.self_signed import serving_pair
from kubeskew.apiserver.options import ServerOptions, WorkerPlace
from kubeskew.apiserver.storage.forwarding.frames import Door
from kubeskew.apiserver.workers.seat import (
    ACCEPT,
    ALONE,
    ASIDE,
    CONNECTION,
    FINISHING,
    LISTENING,
    READY,
    REFUSE,
    STOOD_ASIDE,
    Loads,
    Seat,
)

WRITER = 0  # its place; workers have those from 1
PAUSE_SECONDS = 1.0  # before a process that ended soon after its start is started again
WRITER_SECONDS = 10.0  # for the writer to commit what is left
ASIDE_SECONDS = 1.0  # for workers to end their connections
ACCEPTED_AT_ONCE = 64
_BACKLOG = 1024
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)

RunWorker = Callable[[ServerOptions, Seat, Door], int]  # returns the exit status
RunWriter = Callable[[ServerOptions, Door], int]

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Child:
    """A process at its place, where another one takes its turn when it ends."""

    place: int
    pid: int = 0
    begun: float = 0.0
    again_at: float | None = None
    channel: socket.socket | None = None
    listening: bool = False
    ready: bool = False
    aside: bool = False
    passed: int = 0  # connections, to this process
    starts: int = 0

    @property
    def name(self) -> str:
        return f"worker {self.place}" if self.place else "the log's writer"


@dataclass(slots=True)
class Ports:
    """The sockets that clients connect to."""

    address: str
    port: int
    shared: int
    open: list[socket.socket] = field(default_factory=list)

    def listen(self, *, with_shared: bool) -> None:
        """Raises OSError."""
        self.close()
        self.open.append(_listener(self.address, self.port, shared=False))
        self.port = self.open[0].getsockname()[1]
        if with_shared:
            self.share()

    def share(self) -> None:
        """Raises OSError."""
        if self.shared:
            self.open.append(_listener(self.address, self.shared, shared=True))

    def close(self) -> None:
        while self.open:
            self.open.pop().close()


def _listener(address: str, port: int, *, shared: bool) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.create_server((address, port), family=family, backlog=_BACKLOG, reuse_port=shared)
    listener.setblocking(False)
    return listener


class Supervisor:
    """Runs until a signal ends it, or a first start fails."""

    def __init__(
        self, options: ServerOptions, clock: Clock, count: int, run_worker: RunWorker, run_writer: RunWriter
    ) -> None:
        self._options = options
        self._clock = clock
        self._seconds = stopwatch()
        self._run_worker = run_worker
        self._run_writer = run_writer
        self._children = [Child(place) for place in range(count + 1)]
        self._loads = Loads(count + 1)
        self._door = Door()
        self._ports = Ports(options.bind_address, options.secure_port, options.shared_port)
        self._ready = False  # the first worker was, once
        self._stopping = False
        self._faults: ProcessFaults | None = None
        if options.faults_dir:
            self._faults = ProcessFaults(Path(options.faults_dir), clock)
        self._end_signal = 0  # for the first worker, when it is ready
        self._writer_end: float | None = None  # when the writer has to have ended
        self._end_status = 0  # of the first worker
        self._told = False  # the first worker, that it is the last one
        self._status: int | None = None
        self._signals: list[int] = []
        self._wake_in, self._wake_out = socket.socketpair()

    @property
    def _workers(self) -> list[Child]:
        return self._children[1:]

    def run(self) -> int:
        """Returns the exit status. Raises OSError if the port cannot be had."""
        allow_open_files()
        self._ports.listen(with_shared=False)
        self._options = replace(self._options, secure_port=self._ports.port)
        with self._handled_signals():
            gc.freeze()  # else a child's collector would write to all of it, and so copy it
            self._start(self._children[WRITER])
            self._start(self._children[1])
            if self._is_faulty():
                self._set_aside()
            while self._status is None:
                self._turn()
        self._ports.close()
        return self._status

    @contextmanager
    def _handled_signals(self) -> Iterator[None]:
        for end in (self._wake_in, self._wake_out):
            end.setblocking(False)
        signal.set_wakeup_fd(self._wake_in.fileno(), warn_on_full_buffer=False)
        before = {number: signal.signal(number, self._noted) for number in _SIGNALS}
        try:
            yield
        finally:
            signal.set_wakeup_fd(-1)
            for number, handler in before.items():
                signal.signal(number, handler)

    def _noted(self, number: int, _frame: FrameType | None) -> None:
        self._signals.append(number)

    # One turn

    def _turn(self) -> None:
        sources = self._sources()
        poll = select.poll()
        for descriptor in sources:
            poll.register(descriptor, select.POLLIN)
        for descriptor, _ in poll.poll(self._milliseconds()):
            sources[descriptor]()
        self._reap()
        while self._signals:
            self._signalled(self._signals.pop(0))
        now = self._seconds()
        for child in self._children:
            if child.again_at is not None and child.again_at <= now:
                self._start(child)
        self._end_in_order()

    def _sources(self) -> dict[int, Callable[[], None]]:
        """The descriptors to read from, and how. Connections wait without a worker that could take them."""
        found: dict[int, Callable[[], None]] = {self._wake_out.fileno(): self._awake}
        for child in self._workers:
            if child.channel is not None:
                found[child.channel.fileno()] = partial(self._hear, child)
        if any(child.listening and not child.aside for child in self._workers):
            for listener in self._ports.open:
                found[listener.fileno()] = partial(self._accept, listener)
        return found

    def _milliseconds(self) -> float | None:
        times = [child.again_at for child in self._children if child.again_at is not None]
        if self._writer_end is not None and self._writer_end < math.inf:
            times.append(self._writer_end)
        return max(0.0, min(times) - self._seconds()) * 1000 if times else None

    def _awake(self) -> None:
        with suppress(BlockingIOError):
            self._wake_out.recv(4096)

    def _signalled(self, number: int) -> None:
        if number == signal.SIGHUP:
            self._faults_changed()
        elif number in (signal.SIGTERM, signal.SIGINT):
            impatient, self._stopping = self._stopping, True
            for child in self._workers:
                if self._records_the_end(child) and not impatient:
                    self._end_signal = number  # once it is ready
                    continue
                child.again_at = None
                if child.pid:
                    os.kill(child.pid, number)

    def _records_the_end(self, child: Child) -> bool:
        """The first worker records the end of the server, which it cannot while it is started again."""
        return child.place == 1 and self._ready and not child.ready

    # Connections

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                connection, _address = listener.accept()
            except OSError:  # there is none, or its client has gone, or there are too many open files
                return
            with connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._pass(connection)

    def _pass(self, connection: socket.socket) -> None:
        """The worker with the fewest connections gets it; if none can take it, the client has to come
        again.
        """
        able = [child for child in self._workers if child.listening and not child.aside]
        for child in sorted(able, key=self._load):
            if child.channel is None:
                continue
            try:
                socket.send_fds(child.channel, [CONNECTION], [connection.fileno()])
            except OSError:
                continue
            child.passed += 1
            return

    def _load(self, child: Child) -> int:
        taken, open_now = self._loads.read(child.place)
        return open_now + child.passed - taken

    # Children

    def _start(self, child: Child) -> None:
        child.again_at, child.begun = None, self._seconds()
        child.starts += 1
        child.listening, child.ready, child.passed = False, False, 0
        self._loads.write(child.place, 0, 0)
        ours, theirs = socket.socketpair()
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # until the child has its own handlers
        child.pid = os.fork()
        if child.pid == 0:
            ours.close()
            self._become(child, theirs)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        theirs.close()
        ours.setblocking(False)
        child.channel = ours

    def _become(self, child: Child, channel: socket.socket) -> NoReturn:
        """The child's part of a fork. It ends with the supervisor, whatever ends that."""
        status = 1
        try:
            if sys.platform == "linux":
                ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            os.setpgid(0, 0)  # signals of a terminal reach the supervisor alone, which ends all in order
            signal.set_wakeup_fd(-1)
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_IGN if number == signal.SIGHUP else signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            for other in self._children:
                if other.channel is not None:
                    other.channel.close()
            self._ports.close()
            self._wake_in.close()
            self._wake_out.close()
            if child.place == WRITER:
                status = self._run_writer(self._options, self._door)
            else:
                options = self._options_of(child)
                status = self._run_worker(options, Seat(channel, self._loads, child.place), self._door)
        except Exception:
            log.exception("%s has failed", child.name)
        finally:
            logging.shutdown()
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError):
                    stream.flush()
            os._exit(status)

    def _options_of(self, child: Child) -> ServerOptions:
        """Limits are those of the whole server, which its workers share."""
        options = self._options
        place = WorkerPlace(child.place, len(self._workers), again=child.starts > 1)
        return replace(
            options,
            worker=place,
            max_requests_inflight=place.share(options.max_requests_inflight),
            max_mutating_requests_inflight=place.share(options.max_mutating_requests_inflight),
        )

    def _hear(self, child: Child) -> None:
        if child.channel is None:
            return
        try:
            messages = child.channel.recv(64)
        except BlockingIOError:
            return
        except OSError:
            messages = b""
        if not messages:
            child.channel.close()
            child.channel, child.listening = None, False
        for position in range(len(messages)):
            self._heard(child, messages[position : position + 1])

    def _heard(self, child: Child, message: bytes) -> None:
        if message == LISTENING:
            child.listening = True
        elif message == READY:
            child.ready = True
            if child.place == 1 and not self._ready:
                self._begin_others()
            elif child.place == 1 and self._end_signal and child.pid:
                os.kill(child.pid, self._end_signal)
        elif message == FINISHING:
            child.listening = False
            if self._stopping:
                self._ports.close()
        elif message == REFUSE:
            self._ports.close()
        elif message == ACCEPT and not self._stopping:
            try:
                self._ports.listen(with_shared=self._ready)
            except OSError as error:
                self._fail(f"cannot listen: {error}")

    def _begin_others(self) -> None:
        self._ready = True
        try:
            self._ports.share()
        except OSError as error:
            self._fail(f"cannot listen: {error}")
            return
        for child in self._workers[1:]:
            self._start(child)

    def _fail(self, why: str) -> None:
        log.error("%s", why)
        self._stop_all(1)

    def _stop_all(self, status: int) -> None:
        self._stopping = True
        self._status = status
        for child in self._children:
            if child.pid:
                os.kill(child.pid, signal.SIGKILL)
                os.waitpid(child.pid, 0)
                child.pid = 0

    def _reap(self) -> None:
        for child in self._children:
            if not child.pid:
                continue
            pid, status = os.waitpid(child.pid, os.WNOHANG)
            if pid:
                child.pid = 0
                if child.channel is not None:
                    self._hear(child)  # its last words
                if child.channel is not None:
                    child.channel.close()
                child.channel, child.listening = None, False
                self._ended(child, os.waitstatus_to_exitcode(status))

    def _ended(self, child: Child, code: int) -> None:
        if self._stopping:
            if child.place == 1 and child.again_at is None:
                self._end_status = max(code, 0)
            elif (
                child.place == WRITER and self._writer_end is None and any(each.pid for each in self._workers)
            ):
                child.again_at = self._seconds()  # the workers' last writes need one
            return
        if code > 0 and not self._ready and child.place in (WRITER, 1):
            self._stop_all(code)  # it has said why
            return
        how = signal.Signals(-code).name if code < 0 else f"status {code}"
        log.warning("%s has ended (%s), and is started again", child.name, how)
        now = self._seconds()
        soon = now - child.begun < PAUSE_SECONDS
        child.again_at = now + (PAUSE_SECONDS if soon else 0.0)

    # Faults

    def _is_faulty(self) -> bool:
        return self._faults is not None and bool(self._faults.planned(self._options.name))

    def _faults_changed(self) -> None:
        """The first worker reads the plan once it is alone, or before the others join it again."""
        faulty, first = self._is_faulty(), self._workers[0]
        if faulty:
            self._set_aside()
        if first.pid:
            os.kill(first.pid, signal.SIGHUP)
        if not faulty:
            for child in self._workers[1:]:
                child.aside = False

    def _set_aside(self) -> None:
        """Has the other workers end their connections, and waits for that."""
        end = self._seconds() + ASIDE_SECONDS
        waiting = [child for child in self._workers[1:] if not child.aside]
        for child in self._workers[1:]:
            child.aside = True
        for child in waiting:
            if child.channel is None or not child.listening:
                continue
            child.channel.setblocking(True)
            child.channel.settimeout(max(0.01, end - self._seconds()))
            with suppress(OSError):
                child.channel.send(ASIDE)
                while (message := child.channel.recv(1)) not in (STOOD_ASIDE, b""):
                    self._heard(child, message)
            child.channel.setblocking(False)

    # The end

    def _end_in_order(self) -> None:
        """The first worker ends after the others, the writer after all."""
        if not self._stopping or self._status is not None:
            return
        first, writer = self._workers[0], self._children[WRITER]
        if any(child.pid for child in self._workers[1:]):
            return
        if first.again_at is not None:
            return
        if first.pid:
            if first.channel is not None and not self._told:
                self._told = True
                with suppress(OSError):
                    first.channel.send(ALONE)
            return
        if not writer.pid:
            self._status = self._end_status
        elif self._writer_end is None:
            os.kill(writer.pid, signal.SIGTERM)
            self._writer_end = self._seconds() + WRITER_SECONDS
        elif self._writer_end <= self._seconds():
            os.kill(writer.pid, signal.SIGKILL)
            self._writer_end = math.inf


@contextmanager
def common_files(options: ServerOptions, clock: Clock) -> Iterator[ServerOptions]:
    """Adds files with what each process would make for itself, but all must have alike: the certificate, and
    the key of tokens. Raises CertificateFilesError, OSError.
    """
    from kubeskew.apimachinery.security.web_tokens import new_key

    with ExitStack() as stack:
        if not options.service_account_signing_key_file:
            key = Path(stack.enter_context(TemporaryDirectory()), "sa.key")
            key.touch(mode=0o600)
            key.write_bytes(new_key())
            options = replace(options, service_account_signing_key_file=str(key))
        yield stack.enter_context(serving_pair(options, clock.now()))
