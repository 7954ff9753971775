"""Reads which part of the cells is meant: `--shard I/N`."""

import re
from typing import Any

import click


class ShardType(click.ParamType[tuple[int, int]]):
    """Reads `I/N`: the I-th of N parts."""

    name = "I/N"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        found = re.fullmatch(r"(\d+)/(\d+)", str(value))
        number, count = (int(found[1]), int(found[2])) if found else (0, 0)
        if not 1 <= number <= count:
            self.fail(f"{value!r} is no part such as 1/4", param, ctx)
        return number, count
