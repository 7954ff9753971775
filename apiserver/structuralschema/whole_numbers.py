"""Decides whether OpenAPI validation takes a float for an integer."""

import math

_LARGEST_EXACT = 2**53 - 1  # swag: the largest integer that JSON and float64 agree on
_EPSILON = 1e-9


def is_whole(value: float) -> bool:
    """Decides whether go-openapi takes a float64 for an integer (swag.IsFloat64AJSONInteger)."""
    if not math.isfinite(value) or abs(value) > _LARGEST_EXACT:
        return False
    nearest = float(int(value))
    difference = abs(value - nearest)
    if value == nearest or value == math.floor(value):
        return True
    if value == 0 or nearest == 0 or difference < 5e-324:
        return difference < _EPSILON * 5e-324
    return difference / (abs(value) + abs(nearest)) < _EPSILON
