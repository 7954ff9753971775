"""Faults as data: on which calls, at which of them, and what then goes wrong."""

from dataclasses import dataclass, field
from enum import StrEnum

from kubeskew.apimachinery.faults.calls import COMMITS, PLUGIN_CALLS, WRITES, Call

ANY = "*"
# Written periodically, whatever happens: only a selector that names them, or `*`, selects them.
PERIODIC = ("leases", "events")


class Kind(StrEnum):
    """Names what goes wrong."""

    ANSWER = "answer"  # the call is answered with an error, and not made
    DROP = "drop"  # the request, its answer or the connection of a watch is lost
    DELAY = "delay"  # the call is made later, an event of a watch arrives later
    STALE = "stale"  # events of a watch are held back
    CRASH = "crash"  # the component dies, as by SIGKILL
    OUTAGE = "outage"  # the API server does not answer, or this component does not reach it


@dataclass(frozen=True, slots=True)
class Selector:
    """Says which calls a fault is about. What is empty is not looked at.

    As in RBAC, a resource without `subresource` is the object itself. Without a resource all are meant but
    leases and events.
    """

    verbs: tuple[str, ...] = ()
    resource: str = ""  # plural or *
    group: str | None = None
    subresource: str = ""  # or *
    namespace: str = ""
    name: str = ""
    user: str = ""
    event: str = ""  # the type of an event, or *; without, requests are meant
    commit: bool = False  # of an API server: its writes to the store

    def selects(self, call: Call) -> bool:
        """Checks whether the call is meant."""
        if (bool(self.event), self.commit) != (bool(call.event), call.commit):
            return False
        if self.verbs and call.verb not in self.verbs:
            return False
        if call.verb in PLUGIN_CALLS and not self.verbs:
            return False  # only who names them means them
        if self.event not in ("", ANY, call.event):
            return False
        return self._selects_resource(call) and self._selects_object(call)

    def _selects_resource(self, call: Call) -> bool:
        if not self.resource:
            return call.resource not in PERIODIC and self.subresource in ("", ANY, call.subresource)
        if self.resource not in (ANY, call.resource) or self.group not in (None, call.group):
            return False
        if self.resource == ANY and not self.subresource:
            return True
        return self.subresource in (ANY, call.subresource)

    def _selects_object(self, call: Call) -> bool:
        wanted = (self.namespace, call.namespace), (self.name, call.name), (self.user, call.user)
        return all(not want or want == have for want, have in wanted)

    def __str__(self) -> str:
        verbs = "any write" if self.verbs in (WRITES, COMMITS) else "/".join(self.verbs) or "any verb"
        resource = self.resource if self.resource not in ("", ANY) else "any resource"
        text = f"{verbs} {resource}{f'/{self.subresource}' if self.subresource else ''}"
        if self.event:
            kind = "any event" if self.event == ANY else f"{self.event} event"
            text = f"{kind} of {resource}"
        place = "/".join(part for part in (self.namespace, self.name) if part)
        return f"{text}{f' {place}' if place else ''}{f' by {self.user}' if self.user else ''}"


@dataclass(frozen=True, slots=True)
class Timing:
    """Says at which of the selected calls a fault fires.

    From the `nth` on, each `every`-th, each with `probability`; at most `times`, and only for `seconds` after
    it fired first. `seed` belongs to the fault alone: taking another away changes nothing here.
    """

    nth: int = 1
    every: int = 1
    probability: float = 1.0
    times: int | None = None
    seconds: float | None = None
    seed: int = 0

    @property
    def counts(self) -> bool:
        """Decides whether the number of a call matters."""
        return (self.nth, self.every, self.probability, self.times) != (1, 1, 1.0, None)


@dataclass(frozen=True, slots=True)
class Effect:
    """Says what goes wrong.

    `place` is of a drop request, answer or connection, of a crash before or after, of an outage refuse or
    hang. `delay` is a range in seconds.
    """

    kind: Kind
    place: str = ""
    code: int = 0
    message: str = ""
    retry_after: int | None = None
    delay: tuple[float, float] = (0.0, 0.0)

    def __str__(self) -> str:
        match self.kind:
            case Kind.ANSWER:
                return f"answered {self.code}"
            case Kind.DROP:
                return f"{self.place} lost"
            case Kind.DELAY:
                low, high = self.delay
                return f"delayed {low:g} s" if low == high else f"delayed {low:g} to {high:g} s"
            case Kind.STALE:
                return "held back"
            case Kind.CRASH:
                return f"crash {self.place}"
            case _:
                return "API server unreachable" if self.place == "refuse" else "API server silent"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of one component. `optional`: nobody minds if it never fires."""

    id: str
    component: str
    effect: Effect
    where: Selector = field(default_factory=Selector)
    when: Timing = field(default_factory=Timing)
    at_once: bool = False  # it fires when it is set, whatever is called
    optional: bool = False

    def __str__(self) -> str:
        if self.at_once:
            return f"{self.component}: {self.effect}"
        return f"{self.component}: {self.where}, {_ordinal(self.when)}{self.effect}"


def _ordinal(when: Timing) -> str:
    parts = []
    if when.nth != 1 or when.times == 1:
        parts.append(f"call {when.nth}")
    if when.every != 1:
        parts.append(f"each {when.every}th")
    if when.probability != 1.0:
        parts.append(f"with probability {when.probability:g}")
    return f"{', '.join(parts)}: " if parts else "each: "
