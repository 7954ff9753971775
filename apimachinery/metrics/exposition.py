"""Writes metrics as the text that Go's client library writes, with the names and marks of a release.

Families come by name and series by their labels; numbers are Go's. A family without series is not there, and
neither is one that the release does not have. Source: prometheus/common/expfmt/text_create.go,
k8s.io/component-base/metrics/opts.go (the marks of stability), 1.36.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from kubeskew.apimachinery.go_formats import float_text
from kubeskew.apimachinery.metrics.series import Family, families, known_names
from kubeskew.apimachinery.versions import Version, entry

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_PLAIN = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPING = {0: "", 31: "; escaping=values", 33: "; escaping=underscores"}  # of names
_UNMARKED = "timingratiohistogram"  # is registered past component-base, which writes the marks


def content_type(version: Version) -> str:
    """Returns the media type of the text at a version."""
    return _PLAIN + entry(_ESCAPING, version.base.minor)


def exposition(collected: "Iterable[Metric]", version: Version, *, checked: bool = True) -> bytes:
    """Writes all families that have series, in the order of their names.

    Without `checked` the component's own features limit the families, and those without series are shown,
    too: scenarios ask whether a component knows a metric.
    """
    known, ever, found = families(version.base.minor), known_names(), {}
    for metric in collected:
        name = _family_name(metric, known)
        if not checked or name in known or name not in ever:
            found[name] = metric
    lines: list[str] = []
    for name in sorted(found):
        lines += _lines(name, found[name], known.get(name), empty=not checked)
    return "".join(f"{line}\n" for line in lines).encode()


def _family_name(metric: "Metric", known: dict[str, Family]) -> str:
    """Adds `_total` to a counter, unless upstream's name lacks it."""
    if metric.type != "counter" or metric.name in known:
        return metric.name
    return f"{metric.name}_total"


def _lines(name: str, metric: "Metric", family: Family | None, *, empty: bool) -> Iterator[str]:
    samples = sorted(_samples(name, metric), key=lambda sample: sample[0])
    if not samples and not empty:
        return
    mark = f"{family.mark} " if family is not None and family.type != _UNMARKED else ""
    text = metric.documentation.replace("\\", r"\\").replace("\n", r"\n")
    yield f"# HELP {name} {mark}{text}"
    yield f"# TYPE {name} {'untyped' if metric.type == 'unknown' else metric.type}"
    for _, line in samples:
        yield line


def _samples(name: str, metric: "Metric") -> Iterator[tuple[tuple[Any, ...], str]]:
    """Yields lines with their sort key: the series' labels, then bounds, sum and count."""
    for sample in metric.samples:
        ending = sample.name.removeprefix(metric.name) if metric.type in {"histogram", "summary"} else ""
        if ending in {"_created", "_gsum", "_gcount"} or sample.name.endswith("_created"):
            continue
        labels = dict(sorted(sample.labels.items()))
        bound = {key: labels.pop(key) for key in ("le", "quantile") if key in labels}
        rank = ("_bucket", "", "_sum", "_count").index(ending)
        place = (tuple(labels.values()), rank, *(float(value) for value in bound.values()))
        if bound:
            labels.update({key: float_text(float(value)) for key, value in bound.items()})
        shown = ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items())
        braces = f"{{{shown}}}" if shown else ""
        yield place, f"{name}{ending}{braces} {float_text(float(sample.value))}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
