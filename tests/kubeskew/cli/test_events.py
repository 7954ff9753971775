"""Tests which rows of the log an expression takes."""

import pytest

from kubeskew.cli.events import FIELDS, RowFilter
from kubeskew.cluster.failures import UserError

ROW = {
    "revision": 7,
    "time": "2026-11-01T10:00:00.000000Z",
    "verb": "update",
    "object": "pods default/web",
    "by": "kubelet/node-1 1.35",
    "user": "system:node:node-1",
    "server": "1.36",
    "request": "r",
}


@pytest.mark.parametrize(
    ("expression", "taken"),
    [
        ('verb == "update" && by.startsWith("kubelet/node-1 ")', True),
        ('verb == "create"', False),
        ("revision > 5 && revision in [6, 7]", True),
        ('timestamp(time) < timestamp("2026-11-01T10:00:00Z")', False),
        ('object.matches("^pods default/") && !by.endsWith(server)', True),
        ('user == "nobody" || request.size() == 1', True),
    ],
)
def test_a_row_is_taken_if_the_expression_is_true_of_it(expression, taken):
    """An expression over the fields of a row takes the row if it is true."""
    assert RowFilter(expression).takes(ROW) is taken


def test_expressions_know_every_field():
    """The fields of a row are the variables of an expression."""
    assert tuple(ROW) == FIELDS
    assert RowFilter(" && ".join(f'{name} != "x"' for name in FIELDS if name != "revision")).takes(ROW)


@pytest.mark.parametrize("expression", ["verb ==", "", "(", "a b"])
def test_an_expression_that_does_not_parse(expression):
    """A text that is no expression is refused before the first row."""
    with pytest.raises(UserError, match="--where: does not parse"):
        RowFilter(expression)


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("verbs == 'x'", "undeclared reference to 'verbs', at revision 7; rows have revision, time, verb"),
        ("revision / 0 == 1", "modulus or divide by zero, at revision 7"),
        ("verb.nope()", "at revision 7"),
        ("verb + 1 == ''", "at revision 7"),
        ("verb", "expected an expression that is true or false, found 'update' at revision 7"),
    ],
)
def test_an_expression_that_is_neither_true_nor_false(expression, why):
    """An expression that fails on a row, or gives something else, is wrong usage, reported in one line."""
    with pytest.raises(UserError) as refused:
        RowFilter(expression).takes(ROW)

    assert why in str(refused.value)
    assert "\n" not in str(refused.value)
