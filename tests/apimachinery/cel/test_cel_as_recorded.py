"""Expressions that once came out otherwise than at a real API server, with what that answered."""

import json
from pathlib import Path

import pytest

from kubeskew.apimachinery import cel

_RECORDED = json.loads((Path(__file__).parents[2] / "data/cel/expressions-1.36.json").read_text())
_DECLARED = cel.declare(_RECORDED["schema"])
_ENVIRONMENT = cel.environment(36, stored=True, variables={"self": _DECLARED})
_BINDINGS = {"self": cel.to_value(_RECORDED["object"], _DECLARED)}


def _rule(expression):
    """The rule that the expression was asked in: its type is seldom that of null."""
    return cel.compile(f"type({expression}) == null_type", _ENVIRONMENT)


@pytest.mark.parametrize("row", _RECORDED["expressions"], ids=lambda row: row["expression"])
def test_answer_of_a_real_server(row):
    """A recorded expression has the value or the error that a real API server showed, at the same cost."""
    if "refused" in row:
        with pytest.raises(cel.CompileError) as refused:
            _rule(row["expression"])
        assert str(refused.value) == row["refused"]
    elif "error" in row:
        with pytest.raises(cel.EvaluationError) as failed:
            _rule(row["expression"]).evaluate(_BINDINGS)
        assert (str(failed.value), failed.value.cost) == (row["error"], row["cost"])
    else:
        shown = cel.compile(f"'%s'.format([{row['expression']}])", _ENVIRONMENT).evaluate(_BINDINGS)[0]
        assert (shown.strip(), _rule(row["expression"]).evaluate(_BINDINGS)[1]) == (row["shown"], row["cost"])
