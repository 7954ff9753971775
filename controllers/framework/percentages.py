"""Amounts that may be given as a percentage: pure arithmetic."""


def scaled(value: int | str | None, of: int, *, round_up: bool) -> int:
    """Returns an int-or-percent of `of`; 0 if there is none."""
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    share = int(value.removesuffix("%")) * of
    return -(-share // 100) if round_up else share // 100
