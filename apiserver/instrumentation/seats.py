"""Counts the waits of requests for seats, whatever their priority level."""

from kubeskew.apimachinery.metrics.facts import nearest
from kubeskew.apimachinery.metrics.series import HistogramSeries
from kubeskew.apimachinery.versions import NEWEST_MINOR

_FILTERS = "apiserver_request_filter_duration_seconds"


class SeatWaits:
    """Holds how many requests got no seat, and how long those waited that had to and got one."""

    __slots__ = ("rejections", "seconds")

    def __init__(self) -> None:
        self.rejections = 0
        self.seconds = HistogramSeries(nearest(_FILTERS, NEWEST_MINOR).buckets)
