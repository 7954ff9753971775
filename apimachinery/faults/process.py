"""Keeps the faults of the components of one process: reads the plan's file at the start and when told to."""

import logging
from pathlib import Path

from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.faults.injecting import Crash, Injector, Record
from kubeskew.apimachinery.faults.journal import FileJournal, load_plan
from kubeskew.apimachinery.faults.plan import FaultPlan

log = logging.getLogger(__name__)


class ProcessFaults:
    """The injectors of a process, by component, with the plan and journals in a directory."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        self._injectors: dict[str, tuple[Injector, FileJournal]] = {}
        self._plan = self._read(FaultPlan())

    def injector(self, component: str, crash: Crash, record: Record) -> Injector:
        """Returns the injector of a component, with the faults that the plan has for it."""
        journal = FileJournal(self._directory, component)
        injector = Injector(component, self._clock, journal, crash, record)
        self._injectors[component] = injector, journal
        self._apply(injector, journal)
        return injector

    def forget(self, component: str) -> None:
        """Do without a component that has left the process."""
        known = self._injectors.pop(component, None)
        if known is not None:
            known[1].close()

    def reload(self) -> None:
        """Read the plan again, and say in the journals that it is in effect."""
        self._plan = self._read(self._plan)
        for injector, journal in [*self._injectors.values()]:
            self._apply(injector, journal)

    def _read(self, former: FaultPlan) -> FaultPlan:
        try:
            return load_plan(self._directory)
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.error("faults stay as they are: cannot use %s: %s", self._directory, error)
            return former

    def _apply(self, injector: Injector, journal: FileJournal) -> None:
        entries = self._plan.of(injector.component)
        try:
            injector.apply(journal.take_up(entries, journal.account()))
            journal.applied(self._plan.revision, injector.seen)
        except OSError as error:
            log.error("no faults: cannot use the journal of %s: %s", injector.component, error)
