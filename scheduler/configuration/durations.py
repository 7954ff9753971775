"""Durations in configurations and flags, as Go writes them."""

from kubeskew.apimachinery import go_durations


class ConfigurationError(ValueError):
    """The file cannot be used; the text says why."""


def parse_duration(text: str) -> float:
    """Seconds of a duration as Go writes it (`1m30s`); raises ConfigurationError."""
    try:
        return go_durations.parse_duration(text)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
