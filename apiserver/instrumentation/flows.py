"""Counts what API priority and fairness lets in (pkg/util/flowcontrol/metrics/metrics.go, 1.36).

Upstream's figures of demand, the limits that follow from it, and those of virtual time in its queues, have
no counterpart here.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kubeskew.apimachinery.metrics.facts import nearest
from kubeskew.apimachinery.metrics.series import Families, Gauges, HistogramSeries
from kubeskew.apimachinery.versions import NEWEST_MINOR

_PREFIX = "apiserver_flowcontrol_"
_FILTERS = "apiserver_request_filter_duration_seconds"


class Seats(NamedTuple):
    """Holds the seats that a priority level has by its shares, keeps for itself, and has at most."""

    name: str
    nominal: int
    lower: int
    upper: int
    exempt: bool = False  # all get a seat at once


class FlowSeries:
    """Counts the requests of one flow schema at one priority level that write, or that read."""

    __slots__ = ("dispatched", "seconds", "waiting", "waits")

    def __init__(self, seconds: Sequence[float], waits: Sequence[float]) -> None:
        self.dispatched = 0  # that got their seats
        self.waiting = 0  # for a seat
        self.seconds = HistogramSeries(seconds)  # of those that have given it back
        self.waits = HistogramSeries(waits)  # of those that waited

    @property
    def executing(self) -> int:
        """Returns how many have a seat; each takes one."""
        return self.dispatched - self.seconds.count


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
        self._series: dict[tuple[str, str], tuple[FlowSeries, FlowSeries]] = {}
        self.rejections = 0
        self.waits = HistogramSeries(nearest(_FILTERS, NEWEST_MINOR).buckets)  # of all that waited

    def flow(self, level: str, schema: str, *, mutating: bool) -> FlowSeries:
        """Returns what counts the requests of a flow schema that write, or that read."""
        found = self._series.get((level, schema))
        if found is None:
            seconds, waits = self._seconds.bounds, self._waited.bounds
            found = FlowSeries(seconds, waits), FlowSeries(seconds, waits)
            self._series[level, schema] = found
        return found[mutating]

    def rejected(self, level: str, schema: str, reason: str) -> None:
        """Counts a request that got no seat."""
        self.rejections += 1
        self._rejected.at(priority_level=level, flow_schema=schema, reason=reason).inc()

    def look(self, levels: Sequence[Seats]) -> None:
        """Takes over what the levels hold now, before the families are read."""
        exempt = {seats.name for seats in levels if seats.exempt}
        for (level, schema), kinds in self._series.items():
            if any(kind.dispatched or kind.waiting for kind in kinds):
                self._fill({"priority_level": level, "flow_schema": schema}, kinds, waits=level not in exempt)
        for mutating, kind in enumerate(("readOnly", "mutating")):
            flows = [kinds[mutating] for kinds in self._series.values()]
            self._in_flight.at(request_kind=kind).value = sum(flow.executing for flow in flows)
            self._waiting.at(request_kind=kind).value = sum(flow.waiting for flow in flows)
        for gauges in self._limits.values():
            gauges.clear()
        for seats in levels:
            values = {
                "nominal_limit": seats.nominal,
                "lower_limit": seats.lower,
                "upper_limit": seats.upper,
            }
            for name, value in values.items():
                self._limits[name].at(priority_level=seats.name).value = value

    def _fill(self, labels: dict[str, str], kinds: Sequence[FlowSeries], *, waits: bool) -> None:
        """Fills the series of a flow schema, of which requests may wait for seats or not; most do not."""
        dispatched = sum(kind.dispatched for kind in kinds)
        executing, waiting = sum(kind.executing for kind in kinds), sum(kind.waiting for kind in kinds)
        self._dispatched.at(**labels).value = dispatched
        self._executing.at(**labels).value = self._executing_seats.at(**labels).value = executing
        self._weights.at(**labels).set_all(1, dispatched)
        self._seconds.at(type="regular", **labels).add_up([kind.seconds for kind in kinds])
        if not waits:
            return
        self._queued.at(**labels).value = self._queued_seats.at(**labels).value = waiting
        waited = self._waited.at(execute="true", **labels)
        waited.add_up([kind.waits for kind in kinds])
        waited.counts[0] += dispatched - waited.count  # at most 0 seconds
