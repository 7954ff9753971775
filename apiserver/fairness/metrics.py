"""Metrics of API priority and fairness (pkg/util/flowcontrol/metrics/metrics.go, 1.36).

Upstream's figures of virtual time in its queues have no counterpart here.
"""

from collections.abc import Iterable, Mapping, Sequence

from kubeskew.apimachinery.metrics.series import Families, Gauges, HistogramSeries
from kubeskew.apiserver.fairness.levels import Occupancy, PriorityLevel, PriorityLevels, Usage
from kubeskew.apiserver.metrics import SeatWaits

_PREFIX = "apiserver_flowcontrol_"
_KINDS = ("readOnly", "mutating")
_NANOSECONDS = 1_000_000_000
NOTED_MAX = 4_096  # ends of requests
_Ratios = Iterable[tuple[float, float]]  # each with its seconds


class KindSeries:
    """Notes the moments at which requests that write, or that read, began and ended, until metrics are read.

    Noting a moment costs a request less than summing up.


    """

    __slots__ = ("begun", "ended", "occupancy")

    def __init__(self, now: float) -> None:
        self.begun: list[float] = []
        self.ended: list[float] = []
        self.occupancy = Occupancy(now)

    def settle(self) -> Occupancy:
        moments = [(now, 1) for now in self.begun] + [(now, -1) for now in self.ended]
        self.begun.clear()
        self.ended.clear()
        for now, change in sorted(moments, key=_moment):
            if change > 0:
                self.occupancy.begin(now)
            else:
                self.occupancy.end(now)
        return self.occupancy


def _moment(noted: tuple[float, int]) -> float:
    return noted[0]


class FlowSeries:
    """Counts the requests of one flow schema at one priority level that write, or that read."""

    __slots__ = ("dispatched", "kind", "seconds", "waiting", "waits")

    def __init__(self, kind: KindSeries, seconds: Sequence[float], waits: Sequence[float]) -> None:
        self.kind = kind  # of all requests that write, or read
        self.dispatched = 0  # that got their seats
        self.waiting = 0  # for a seat
        self.seconds = HistogramSeries(seconds)  # of those that have given it back
        self.waits = HistogramSeries(waits)  # of those that waited

    @property
    def executing(self) -> int:
        return self.dispatched - self.seconds.count


class _Timed:
    """Adds up the nanoseconds at each ratio: of periods that have ended, and of the one that has not."""

    def __init__(self, shown: HistogramSeries) -> None:
        self._shown = shown
        self._ended = HistogramSeries(shown.bounds)

    def end(self, ratios: _Ratios) -> None:
        for ratio, seconds in ratios:
            self._ended.observe_times(ratio, round(seconds * _NANOSECONDS))

    def show(self, ratios: _Ratios) -> None:
        self._shown.add_up([self._ended])
        for ratio, seconds in ratios:
            self._shown.observe_times(ratio, round(seconds * _NANOSECONDS))


class FlowMetrics:
    """Counts by flow schema and priority level; `now` is a monotonic clock's, in seconds."""

    def __init__(self, families: Families, now: float) -> None:
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
        for kind in _KINDS:
            self._in_flight.at(request_kind=kind)
            self._waiting.at(request_kind=kind)
        self._by_level: dict[str, Gauges] = {
            name: families.gauges(f"{_PREFIX}{name}", text)
            for name, text in (
                ("nominal_limit_seats", "Seats that a level has by its shares."),
                ("lower_limit_seats", "Seats that a level never lends."),
                ("upper_limit_seats", "Seats that a level has at most."),
                ("current_limit_seats", "Seats that a level has now."),
                ("target_seats", "Seats that a level should have by its demand."),
                ("demand_seats_average", "Seats that a level could use in the last period, on average."),
                ("demand_seats_stdev", "Their standard deviation."),
                ("demand_seats_high_watermark", "Seats that a level could use at most in the last period."),
                ("demand_seats_smoothed", "Seats that a level could use in the long run."),
            )
        }
        self._fair = families.gauges(f"{_PREFIX}seat_fair_frac", "What levels get of their targets.").at()
        self._demand = families.histograms(
            f"{_PREFIX}demand_seats", "Nanoseconds by the seats that a level could use, of those it has."
        )
        self._requests = families.histograms(
            f"{_PREFIX}priority_level_request_utilization",
            "Nanoseconds by the requests of a level that run and wait, of as many as may.",
        )
        self._seats = families.histograms(
            f"{_PREFIX}priority_level_seat_utilization", "Nanoseconds by the seats of a level that are taken."
        )
        self._reads_and_writes = families.histograms(
            f"{_PREFIX}read_vs_write_current_requests",
            "Nanoseconds by the requests that run and wait, of as many as may.",
        )
        self._timed: dict[str, tuple[_Timed, ...]] = {}  # of levels
        self._kinds = KindSeries(now), KindSeries(now)
        self._series: dict[tuple[str, str], tuple[FlowSeries, FlowSeries]] = {}
        self.waits = SeatWaits()

    def flow(self, level: str, schema: str, *, mutating: bool) -> FlowSeries:
        found = self._series.get((level, schema))
        if found is None:
            seconds, waits = self._seconds.bounds, self._waited.bounds
            reads, writes = self._kinds
            found = FlowSeries(reads, seconds, waits), FlowSeries(writes, seconds, waits)
            self._series[level, schema] = found
        return found[mutating]

    def rejected(self, level: str, schema: str, reason: str) -> None:
        self.waits.rejections += 1
        self._rejected.at(priority_level=level, flow_schema=schema, reason=reason).inc()

    def ended(self, level: PriorityLevel, usage: Mapping[Usage, float]) -> None:
        """A level has the same seats throughout a period."""
        for timed, ratios in zip(self._timed_of(level.name), _ratios(level, usage), strict=True):
            timed.end(ratios)

    def look(self, levels: PriorityLevels, now: float) -> None:
        found = levels.look()
        for (of_level, schema), kinds in self._series.items():
            if any(kind.dispatched or kind.waiting for kind in kinds):
                limited = of_level not in found or not found[of_level].bounds.exempt
                self._fill({"priority_level": of_level, "flow_schema": schema}, kinds, waits=limited)
        for name, kind in zip(_KINDS, self._kinds, strict=True):
            self._fill_kind(name, kind.settle(), levels, now)
        for gauges in self._by_level.values():
            gauges.clear()
        for name, level in found.items():
            self._fill_level(level, levels.allotment.targets.get(name, 0.0))
            usage = level.occupancy.until(now)
            for timed, ratios in zip(self._timed_of(name), _ratios(level, usage), strict=True):
                timed.show(ratios)
        self._fair.value = levels.allotment.fair_share

    def _timed_of(self, level: str) -> tuple[_Timed, ...]:
        found = self._timed.get(level)
        if found is None:
            found = self._timed[level] = (
                _Timed(self._demand.at(priority_level=level)),
                _Timed(self._requests.at(priority_level=level, phase="executing")),
                _Timed(self._seats.at(priority_level=level, phase="executing")),
                _Timed(self._requests.at(priority_level=level, phase="waiting")),
            )
        return found

    def _fill_level(self, level: PriorityLevel, target: float) -> None:
        bounds, demand = level.bounds, level.demand
        values = {
            "nominal_limit_seats": bounds.nominal,
            "lower_limit_seats": bounds.lower,
            "upper_limit_seats": bounds.upper,
            "current_limit_seats": level.limit,
            "target_seats": target,
            "demand_seats_average": demand.average,
            "demand_seats_stdev": demand.deviation,
            "demand_seats_high_watermark": demand.most,
            "demand_seats_smoothed": demand.smoothed,
        }
        for name, value in values.items():
            self._by_level[name].at(priority_level=level.name).value = value

    def _fill_kind(self, name: str, kind: Occupancy, levels: PriorityLevels, now: float) -> None:
        self._in_flight.at(request_kind=name).value = kind.running
        self._waiting.at(request_kind=name).value = kind.waiting
        seconds = kind.until(now)
        for phase, most in enumerate((levels.running_most, levels.waiting_most)):
            series = self._reads_and_writes.at(request_kind=name, phase="waiting" if phase else "executing")
            series.set_all(0, 0)
            for usage, lasted in seconds.items():
                series.observe_times(usage[phase] / (most or 1), round(lasted * _NANOSECONDS))

    def _fill(self, labels: dict[str, str], kinds: Sequence[FlowSeries], *, waits: bool) -> None:
        """`waits` is False for an exempt level, whose requests have no wait metrics."""
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


def _ratios(level: PriorityLevel, usage: Mapping[Usage, float]) -> tuple[_Ratios, ...]:
    """Ratios are those of demand, requests, seats and queues."""
    executing = [(running / level.denominator, seconds) for (running, _), seconds in usage.items()]
    return (
        [(sum(one) / level.denominator, seconds) for one, seconds in usage.items()],
        executing,
        executing,
        [(waiting / level.room, seconds) for (_, waiting), seconds in usage.items()],
    )
