"""Logs at upstream's levels of verbosity, in klog's structured form: `"message" key="value"`.

Level 4 is Python's DEBUG, and the others lie around it; errors are logged at any level.
"""

import json
import logging
import sys
import time
from collections.abc import Sequence

Value = str | Sequence[str]

_MOST = 10


def level_of(verbosity: int) -> int:
    """Returns the level of logging that a verbosity comes to: 0 is INFO, 4 is DEBUG."""
    return max(1, logging.INFO - 5 * verbosity // 2)


def name_levels() -> None:
    """Has what is logged at any verbosity show as information."""
    for verbosity in range(1, _MOST + 1):
        if level_of(verbosity) != logging.DEBUG:
            logging.addLevelName(level_of(verbosity), "INFO")


def set_up_logging(verbosity: int) -> None:
    """Logs to standard error, one line per record."""
    name_levels()
    logging.basicConfig(
        stream=sys.stderr,
        level=level_of(verbosity),
        format="%(asctime)s.%(msecs)03dZ %(levelname).1s %(name)s: %(message)s",
        datefmt="%Y-%m-%dT%H:%M:%S",
    )
    logging.Formatter.converter = staticmethod(time.gmtime)
    logging.getLogger("asyncio").setLevel(logging.WARNING)


def tell(log: logging.Logger, verbosity: int, message: str, **values: Value) -> None:
    """Logs a message with its values, if the log is that verbose."""
    if log.isEnabledFor(level_of(verbosity)):
        log.log(level_of(verbosity), "%s", structured(message, **values))


def structured(message: str, **values: Value) -> str:
    """Returns a message with its values as klog writes them: texts quoted, lists of names by KObjSlice."""
    return " ".join([json.dumps(message), *(f"{key}={_written(value)}" for key, value in values.items())])


def _written(value: Value) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return f"[{','.join(json.dumps(each, ensure_ascii=False) for each in value)}]"
