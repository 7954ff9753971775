"""Writes docs/time.md from the table of periods: `python hack/documents/time_page.py`."""

import math
from pathlib import Path

from kubeskew.apimachinery.periods import Period, rows

PAGE = Path(__file__).parents[2] / "docs" / "time.md"
_HEAD = """\
# How long components wait

<!-- Written by hack/documents/time_page.py from apimachinery/periods.py. -->

Most of what a cluster does follows from an event, and happens at once. Some of it happens after a while: what
failed is tried again, what nobody reports is looked for, who is silent counts as gone. These are upstream's
seconds. In a few places clusters here wait for less, so that nobody has to watch an idle cluster:

```console
$ kubeskew up --time real
```

or `time: real` in the [cluster file](cluster-file.md) has all of them as they are; so has `--time real` of a
component in the foreground. Simulations take the cluster file's, and lose nothing by waiting.

Times that users set (`--node-monitor-grace-period`, grace periods of pods, probes, `podMaxBackoffSeconds`, …)
and those of [drivers](devices.md) are not in the table. Where releases differ, it says so.
"""


def page() -> str:
    lines = [_HEAD, "| who | what | `real` | `quick` | upstream's file |", "| --- | --- | --- | --- | --- |"]
    lines += [_row(row) for _, row in rows()]
    return "\n".join(lines) + "\n"


def _row(row: Period) -> str:
    real = _seconds(row.real)
    if row.before is not None:
        real += f"; up to 1.{row.before[0] - 1}: {row.before[1]:g}"
    quick = f"**{row.quick:g}**" if row.quick != row.real else real
    return f"| {row.component} | {row.what} | {real} | {quick} | {row.source} |"


def _seconds(value: float) -> str:
    return "no limit" if math.isinf(value) else f"{value:g}"


if __name__ == "__main__":
    PAGE.write_text(page())
