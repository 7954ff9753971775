"""The requests of a program's informers: whether they have settled, as far as one can see from outside."""

from collections.abc import Callable

from kubeskew.apimachinery.faults.fault import Call

QUIET_SECONDS = 0.1  # without a list
_INITIAL_EVENTS = "sendInitialEvents=true"
_ONE_OBJECT = "metadata.name"  # in a field selector


class Traffic:
    """Counts lists and watches until they have settled; then nothing is counted any more.

    A watch that begins with the objects there are takes the place of a list. Watches of single objects do not
    count: kube-controller-manager watches some before it leads, and begins with its informers a second later.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._lists = 0  # under way
        self._watches = 0  # open
        self._last = 0.0  # the last time at which a list began or ended
        self.settled = False

    def counts(self, call: Call | None, target: str) -> bool:
        return not self.settled and call is not None and _ONE_OBJECT not in target

    def begun(self, call: Call, target: str) -> None:
        if call.verb == "watch":
            self._watches += 1
        elif call.verb == "list":
            self._lists += 1
        if call.verb == "list" or _INITIAL_EVENTS in target:
            self._last = self._now()

    def ended(self, call: Call) -> None:
        if call.verb == "watch":
            self._watches -= 1
        elif call.verb == "list":
            self._lists -= 1
            self._last = self._now()

    def settle(self) -> bool:
        """Looks whether it has settled by now; once it has, it stays so."""
        quiet = self._now() - self._last >= QUIET_SECONDS
        self.settled = self.settled or bool(self._watches and not self._lists and quiet)
        return self.settled
