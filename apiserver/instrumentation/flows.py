"""Counts what API priority and fairness lets in (pkg/util/flowcontrol/metrics/metrics.go, 1.36).

Upstream's figures of demand, the limits that follow from it, and those of virtual time in its queues, have
no counterpart here.
"""

from collections.abc import Iterable
from typing import NamedTuple

from kubeskew.apimachinery.metrics.series import Families, Gauges, HistogramSeries, NumberSeries

_PREFIX = "apiserver_flowcontrol_"


class Seats(NamedTuple):
    """Holds the seats that a priority level has by its shares, keeps for itself, and has at most."""

    name: str
    nominal: int
    lower: int
    upper: int


class FlowSeries:
    """Counts the requests of one flow schema at one priority level."""

    __slots__ = ("dispatched", "executing", "queued", "seats", "seconds", "waited", "waits", "weight")

    def __init__(
        self,
        dispatched: NumberSeries,
        executing: tuple[NumberSeries, NumberSeries],
        seconds: HistogramSeries,
        waited: HistogramSeries,
        weight: HistogramSeries,
        queued: tuple[NumberSeries, NumberSeries],
    ) -> None:
        self.dispatched, self.seconds, self.waited, self.weight = dispatched, seconds, waited, weight
        self.executing, self.seats = executing
        self.queued = queued
        self.waits = HistogramSeries(waited.bounds)  # of those that waited

    def waiting(self, change: int) -> None:
        """Counts a request that comes to wait for its seat, or leaves."""
        for series in self.queued:
            series.value += change

    def begun(self) -> None:
        """Counts a request that got its seat."""
        self.dispatched.value += 1
        self.executing.value += 1

    def ended(self, seconds: float) -> None:
        """Counts the end of one."""
        self.executing.value -= 1
        self.seconds.observe(seconds)

    def look(self) -> None:
        """Fills what follows from the rest: each request takes one seat, and most wait for none."""
        dispatched = int(self.dispatched.value)
        self.seats.value = self.executing.value
        self.weight.set_all(1, dispatched)
        self.waited.copy(self.waits)
        self.waited.counts[0] += dispatched - self.waits.count  # at most 0 seconds


class FlowMetrics:
    """Counts by flow schema and priority level."""

    def __init__(self, families: Families) -> None:
        self._dispatched = families.counters(
            f"{_PREFIX}dispatched_requests_total", "Requests that were let in."
        )
        self._rejected = families.counters(
            f"{_PREFIX}rejected_requests_total", "Requests that found no seat."
        )
        self._executing = families.gauges(
            f"{_PREFIX}current_executing_requests", "Requests that have a seat."
        )
        self._executing_seats = families.gauges(f"{_PREFIX}current_executing_seats", "Seats that are taken.")
        self._seconds = families.histograms(
            f"{_PREFIX}request_execution_seconds", "Seconds that requests had their seats."
        )
        self._waited = families.histograms(
            f"{_PREFIX}request_wait_duration_seconds", "Seconds that requests waited for seats."
        )
        self._weights = families.histograms(f"{_PREFIX}work_estimated_seats", "Seats that requests take.")
        self._queued = families.gauges(f"{_PREFIX}current_inqueue_requests", "Requests that wait.")
        self._queued_seats = families.gauges(f"{_PREFIX}current_inqueue_seats", "Seats that are waited for.")
        self._in_flight = families.gauges(
            "apiserver_current_inflight_requests", "Requests that are being answered."
        )
        self._waiting = families.gauges("apiserver_current_inqueue_requests", "Requests that wait.")
        for kind in ("mutating", "readOnly"):
            self._in_flight.at(request_kind=kind)
            self._waiting.at(request_kind=kind)
        self._limits: dict[str, Gauges] = {
            name: families.gauges(f"{_PREFIX}{name}_seats", text)
            for name, text in (
                ("nominal_limit", "Seats that a level has by its shares."),
                ("lower_limit", "Seats that a level never lends."),
                ("upper_limit", "Seats that a level has at most."),
            )
        }
        self._series: dict[tuple[str, str], FlowSeries] = {}

    def flow(self, level: str, schema: str) -> FlowSeries:
        """Returns what counts the requests of a flow schema."""
        found = self._series.get((level, schema))
        if found is None:
            labels = {"priority_level": level, "flow_schema": schema}
            found = self._series[level, schema] = FlowSeries(
                self._dispatched.at(**labels),
                (self._executing.at(**labels), self._executing_seats.at(**labels)),
                self._seconds.at(type="regular", **labels),
                self._waited.at(execute="true", **labels),
                self._weights.at(**labels),
                (self._queued.at(**labels), self._queued_seats.at(**labels)),
            )
        return found

    def rejected(self, level: str, schema: str, reason: str) -> None:
        """Counts a request that got no seat."""
        self._rejected.at(priority_level=level, flow_schema=schema, reason=reason).inc()

    def in_flight(self, *, mutating: bool) -> NumberSeries:
        """Returns the number of requests in work."""
        return self._in_flight.at(request_kind="mutating" if mutating else "readOnly")

    def look(self, levels: Iterable[Seats]) -> None:
        """Takes over what the levels hold now, before the families are read."""
        for flow in self._series.values():
            flow.look()
        for seats in levels:
            values = {
                "nominal_limit": seats.nominal,
                "lower_limit": seats.lower,
                "upper_limit": seats.upper,
            }
            for name, value in values.items():
                self._limits[name].at(priority_level=seats.name).value = value
