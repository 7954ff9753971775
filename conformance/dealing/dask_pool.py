"""Gives jobs to the workers of a Dask cluster, one for each of their threads.

Dask carries jobs and answers, and lists the workers. This module decides which worker does a job, so that the
jobs of a worker that went away are known: they are given to others.
"""

import asyncio
import logging
import pickle
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from distributed import CancelledError, Client, Future, Security, wait

from kubeskew.apimachinery.clock import deadline
from kubeskew.cluster.failures import EndedEarlyError, UserError
from kubeskew.conformance.dealing import dask_worker
from kubeskew.conformance.dealing.dask_jobs import Order, report_line
from kubeskew.conformance.dealing.workers import LostError, OnCellMoment, Terms, Work

J = TypeVar("J")
R = TypeVar("R")

CONNECT_SECONDS = 5.0
PATIENCE_SECONDS = 15.0  # for a worker, where there is none: one that is replaced takes a few
_PAUSE_SECONDS = 0.2
_FETCH_SECONDS = 30.0  # for an answer, whose worker may have gone
_RUNNING = "running"
_TRIALS = 3  # of a job, each by a worker that went away


@dataclass(frozen=True, slots=True)
class _Audience:
    """Callbacks for moments of cells and for what happens to workers; `label` names a job to people."""

    on_moment: OnCellMoment
    say: Callable[[str], None]
    label: Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class _Preparing:
    """The order and the files that each worker gets before its first job."""

    order: bytes
    files: Mapping[str, str]


@dataclass(slots=True)
class _DaskWorker:
    """A worker at the time when it was met: at the same address there may be another later."""

    address: str
    threads: int
    takes: bool  # jobs, at present: not if its memory is short
    jobs: list[int] = field(default_factory=list)  # its jobs, by number

    @property
    def load(self) -> float:
        return len(self.jobs) / self.threads


@dataclass(slots=True)
class _Given(Generic[J]):
    """A job that has not ended; without a future no worker has it."""

    job: J
    content: bytes
    trials: int = 0
    future: Future[Any] | None = None


class DaskPool:
    """A connection to a Dask scheduler, as a context. `files` are those that work reads, with digests.

    `tls` are arguments of Dask's Security, for what Dask is not configured to use.
    """

    def __init__(self, address: str, files: Mapping[str, str], tls: Mapping[str, str] | None = None) -> None:
        self.address = address
        self._files = files
        self._tls = tls or {}
        self._client: Client | None = None
        self._runs = 0

    def __enter__(self) -> Self:
        """Connects. Raises UserError if there is no scheduler, or if TLS with it cannot be."""
        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # errors are reported in one line
        remedy = "start one with `dask scheduler`, or name its address as `tcp://HOST:8786`"
        if self._tls or self.address.startswith("tls:"):
            remedy = (
                "certificates are those of --dask-tls-ca-file, --dask-tls-cert and --dask-tls-key, "
                "or of Dask's configuration, and addresses are `tls://HOST:8786`"
            )
        security = Security(**self._tls) if self._tls else None  # without one Dask takes what is configured
        try:
            if security is not None:
                security.get_connection_args("client")  # reads the files
            self._client = Client(
                self.address, timeout=CONNECT_SECONDS, set_as_default=False, security=security
            )
        except ssl.SSLError as error:
            raise UserError(f"--dask {self.address}: TLS cannot be set up ({error}): {remedy}") from error
        except (OSError, ValueError, ImportError, TypeError, RuntimeError) as error:
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise UserError(f"--dask {self.address}: no scheduler answers there ({why}): {remedy}") from error
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _where: TracebackType | None
    ) -> None:
        if self._client is not None:
            self._client.close(timeout=CONNECT_SECONDS)

    def workers(
        self, work: Work[J, R], terms: Terms, on_moment: OnCellMoment, say: Callable[[str], None]
    ) -> "DaskWorkers[J, R]":
        if self._client is None:
            raise AssertionError("a pool is a context")
        self._runs += 1
        name = f"kubeskew-{self._client.id}-{self._runs}"
        order = pickle.dumps(Order(work, terms.patience, terms.jobs))
        audience = _Audience(on_moment, say, terms.label)
        return DaskWorkers(self._client, name, self.address, _Preparing(order, self._files), audience)


class DaskWorkers(Generic[J, R]):
    """The workers of a Dask cluster, as a context: those that are there, and those that come later.

    Entering raises UserError if there are none, or if one has another kubeskew. Later `ended` raises
    EndedEarlyError if none is left.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        address: str,
        preparing: _Preparing,
        audience: _Audience,
    ) -> None:
        self._client, self._name, self._address = client, name, address
        self._preparing, self._audience = preparing, audience
        self._say = audience.say
        self._build = dask_worker.build()
        self._dask_workers: dict[str, _DaskWorker] = {}  # by the ids of workers
        self._left_out: dict[str, str] = {}  # workers that are left out, and why
        self._given: dict[int, _Given[J]] = {}
        self._number = 0
        self._alone: Callable[[], bool] | None = None  # since nobody was there

    def __enter__(self) -> Self:
        self._client.subscribe_topic(self._name, self._report)
        over = deadline(PATIENCE_SECONDS)
        while not self._dask_workers and not over():
            self._look()
            for address, why in self._left_out.items():
                raise UserError(f"--dask {self._address}: the worker {address} cannot run cells: {why}")
            if not self._dask_workers:
                self._pause()
        if not self._dask_workers:
            raise UserError(
                f"--dask {self._address}: no worker is there: start one with `dask worker {self._address}`"
            )
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _where: TracebackType | None
    ) -> None:
        for given in self._given.values():
            if given.future is not None:
                given.future.cancel()
        if self._client.status == "running":
            self._client.unsubscribe_topic(self._name)
            addresses = [worker.address for worker in self._dask_workers.values()]
            self._client.run(dask_worker.end, self._name, workers=addresses, on_error="ignore")

    @property
    def count(self) -> int:
        return sum(worker.threads for worker in self._dask_workers.values())

    @property
    def free(self) -> bool:
        return len(self._given) < self.count

    @property
    def busy(self) -> bool:
        return bool(self._given)

    def give(self, job: J) -> None:
        self._number += 1
        self._given[self._number] = _Given(job, pickle.dumps(job))
        self._place()

    def ended(self, seconds: float) -> Iterator[tuple[J, R | LostError]]:
        """Waits at most `seconds` for the first job that has ended; each comes with its result.

        Raises EndedEarlyError if no worker is left that could do the others.
        """
        futures = [given.future for given in self._given.values() if given.future is not None]
        if futures:
            with suppress(TimeoutError, CancelledError), self._client.as_current():
                wait(futures, timeout=seconds, return_when="FIRST_COMPLETED")
        else:
            self._pause()
        for number in [*self._given]:
            if (answer := self._answer(self._given[number])) is not None:
                yield self._take(number), answer
        self._look()
        for number in [number for number, given in self._given.items() if given.trials >= _TRIALS]:
            if self._given[number].future is None:
                yield self._take(number), LostError(f"{_TRIALS} workers went away while they ran it")
        self._place()
        self._check_left()

    def _take(self, number: int) -> J:
        for worker in self._dask_workers.values():
            if number in worker.jobs:
                worker.jobs.remove(number)
        given = self._given.pop(number)
        if given.future is not None:
            given.future.release()
        return given.job

    def _answer(self, given: _Given[J]) -> R | LostError | None:
        """None as long as there is no result, or if there never will be one of this trial."""
        if given.future is None or given.future.status not in ("finished", "error"):
            return None
        try:
            answer: R | LostError = given.future.result(timeout=_FETCH_SECONDS)
        except (TimeoutError, CancelledError):  # its worker has gone with the answer
            return None
        except Exception as error:
            return LostError(f"its worker failed: {error!r}")
        return answer

    def _place(self) -> None:
        """Gives jobs that no worker has to workers that have fewer jobs than threads."""
        for number, given in self._given.items():
            if given.future is not None:
                continue
            free = [s for s in self._dask_workers.values() if s.takes and len(s.jobs) < s.threads]
            if not free:
                return
            worker = min(free, key=lambda worker: worker.load)
            worker.jobs.append(number)
            given.trials += 1
            perform: Callable[..., Any] = dask_worker.perform
            given.future = self._client.submit(
                *(perform, self._name, number, given.content),
                key=f"{self._name}-{number}-{given.trials}",
                workers=[worker.address],
                allow_other_workers=False,
                pure=False,
            )

    # -- workers that come and go

    def _look(self) -> None:
        """Adds new workers, and takes back the jobs of those that have gone."""
        self._check_scheduler()
        found = self._workers()
        for name in [name for name in self._dask_workers if name not in found]:
            self._part_with(self._dask_workers.pop(name))
        for name, worker in self._dask_workers.items():
            worker.takes = found[name][1]["status"] == _RUNNING
        new = {
            worker["id"]: _DaskWorker(address, worker["nthreads"], worker["status"] == _RUNNING)
            for address, worker in found.values()
            if worker["id"] not in self._dask_workers and address not in self._left_out
        }
        if not new:
            return
        answers = self._client.run(
            *(dask_worker.begin, self._name, self._build, self._preparing.files, self._preparing.order),
            workers=[worker.address for worker in new.values()],
            on_error="return",
        )
        for name, worker in new.items():
            answer = answers.get(worker.address, OSError("it went away"))
            if answer == "":
                self._dask_workers[name] = worker
                if self._alone is not None or self._number:
                    self._say(f"the worker {worker.address} has come")
            elif not isinstance(answer, OSError):
                reason = answer if isinstance(answer, str) else f"{answer!r}: install kubeskew there, too"
                self._left_out[worker.address] = reason
                if self._number:
                    self._say(f"the worker {worker.address} is left out: {reason}")

    def _workers(self) -> dict[str, tuple[str, Mapping[str, Any]]]:
        """Address and description of each worker by its id.

        The scheduler is asked itself: the client's copy is now and then without workers. Raises
        EndedEarlyError if it does not answer.
        """
        scheduler: Any = self._client.scheduler
        try:
            identity = self._client.sync(scheduler.identity, n_workers=-1)
        except OSError as error:
            raise EndedEarlyError(f"the scheduler at {self._address} does not answer any more") from error
        workers = identity["workers"]
        return {worker["id"]: (address, worker) for address, worker in workers.items()}

    def _part_with(self, worker: _DaskWorker) -> None:
        for number in worker.jobs:
            given = self._given[number]
            if given.future is not None:
                given.future.cancel()
                given.future = None
        again = ", ".join(self._audience.label(self._given[number].job) for number in worker.jobs)
        self._say(f"the worker {worker.address} has gone" + (f"; to be run again: {again}" if again else ""))

    def _check_scheduler(self) -> None:
        if self._client.status != "running":
            raise EndedEarlyError(f"the scheduler at {self._address} does not answer any more")

    def _check_left(self) -> None:
        """Raises EndedEarlyError if there has been no worker for 15 s."""
        if self._dask_workers:
            self._alone = None
            return
        if self._alone is None:
            self._say(f"no worker is left: waiting {PATIENCE_SECONDS:g} s for another")
            self._alone = deadline(PATIENCE_SECONDS)
        elif self._alone():
            raise EndedEarlyError(f"no worker is left at {self._address}")

    def _pause(self) -> None:
        self._client.sync(asyncio.sleep, _PAUSE_SECONDS)

    def _report(self, event: tuple[float, str]) -> None:
        report_line(event[1].encode(), self._audience.on_moment)
