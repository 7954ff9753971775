"""Logs at upstream's levels of verbosity, in klog's structured form: `"message" key="value"`.

Level 4 is Python's DEBUG, and the others lie around it; errors are logged at any level.
"""

import json
import logging

_MOST = 10


def level_of(verbosity: int) -> int:
    """Returns the level of logging that a verbosity comes to: 0 is INFO, 4 is DEBUG."""
    return max(1, logging.INFO - 5 * verbosity // 2)


def name_levels() -> None:
    """Has what is logged at any verbosity show as information."""
    for verbosity in range(1, _MOST + 1):
        if level_of(verbosity) != logging.DEBUG:
            logging.addLevelName(level_of(verbosity), "INFO")


def tell(log: logging.Logger, verbosity: int, message: str, **values: str) -> None:
    """Logs a message with its values, if the log is that verbose."""
    if log.isEnabledFor(level_of(verbosity)):
        log.log(level_of(verbosity), "%s", structured(message, **values))


def structured(message: str, **values: str) -> str:
    """Returns a message with its values as klog writes them."""
    told = [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in values.items()]
    return " ".join([json.dumps(message), *told])
