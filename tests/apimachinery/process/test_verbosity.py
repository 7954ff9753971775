"""Logs at upstream's verbosities."""

import logging

import pytest

from kubeskew.apimachinery.process.runtime import level_of, log_values, structured


def test_verbosities_are_levels_of_logging():
    """Every verbosity has a level of its own, below the one before; 4 is DEBUG."""
    levels = [level_of(verbosity) for verbosity in range(9)]
    assert levels == sorted(set(levels), reverse=True)
    assert (levels[0], levels[4]) == (logging.INFO, logging.DEBUG)


@pytest.mark.parametrize(("verbosity", "logged"), [(4, False), (5, True), (6, True)])
def test_what_is_more_verbose_than_the_log_is_not_reported(verbosity, logged, caplog):
    """A message of level 5 is logged from level 5 on, with its values."""
    log = logging.getLogger("test_verbosity")
    with caplog.at_level(level_of(verbosity), logger="test_verbosity"):
        log_values(log, 5, "pod unschedulable", pod="ns/a", reason='no "gpu"')
    assert caplog.messages == ([r'"pod unschedulable" pod="ns/a" reason="no \"gpu\""'] if logged else [])


def test_a_message_may_have_no_values():
    """Without values it is only quoted."""
    assert structured("waiting") == '"waiting"'


def test_lists_of_names_are_quoted_with_commas_between():
    """Names in a list are written as klog's KObjSlice does."""
    assert structured("m", claims=["ns/a", "ns/b"], none=[]) == '"m" claims=["ns/a","ns/b"] none=[]'
