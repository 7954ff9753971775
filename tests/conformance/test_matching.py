"""Assertion trees and expressions."""

import pytest

from kubeskew.conformance.assertion_trees import mismatches
from kubeskew.conformance.bindings import bind, evaluate
from kubeskew.conformance.errors import ScenarioError

POD = {
    "kind": "Pod",
    "metadata": {"name": "a", "labels": {"app": "demo", "x": "y"}},
    "spec": {"containers": [{"name": "c", "image": "i", "resources": {}}]},
    "status": {"ready": True},
}


@pytest.mark.parametrize(
    "expected",
    [
        pytest.param({"metadata": {"labels": {"app": "demo"}}}, id="a subset of a map"),
        pytest.param({"spec": {"containers": [{"name": "c"}]}}, id="items of a list"),
        pytest.param({"(length(spec.containers))": 1}, id="an expression of the object"),
        pytest.param({"metadata": {"(name != $other)": True}}, id="an expression with a binding"),
        pytest.param({"metadata": {"name": "($name)"}}, id="a bound value"),
        pytest.param({"metadata": {"namespace": None}}, id="what is not there"),
    ],
)
def test_what_matches(expected: object):
    """Subsets, items, expressions and bindings match."""
    assert list(mismatches(expected, POD, {"name": "a", "other": "b"})) == []


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ({"kind": "Node"}, "kind: expected 'Node', found 'Pod'"),
        ({"spec": {"nodeName": "n"}}, "spec.nodeName: expected 'n', found nothing"),
        ({"spec": {"containers": []}}, "spec.containers: expected 0 items, found 1"),
        ({"spec": {"containers": [{"image": "j"}]}}, "spec.containers[0].image: expected 'j', found 'i'"),
        ({"status": {"ready": 1}}, "status.ready: expected 1, found True"),
        ({"status": {"ready": {"a": 1}}}, "status.ready: expected an object, found True"),
        ({"(length(spec.containers))": 2}, "(length(spec.containers)): expected 2, found 1"),
    ],
)
def test_what_does_not_match_says_where(expected: object, text: str):
    """A mismatch gives the path, what was expected and what was found."""
    assert list(mismatches(expected, POD, {})) == [text]


def test_bindings_go_into_keys_and_values():
    """An expression becomes its value, of any type, as value or as key."""
    bound = bind({"($r.name)": 1, "list": ["($r)"], "plain": "(x"}, {"r": {"name": "example.com/gpu"}})
    assert bound == {"example.com/gpu": 1, "list": [{"name": "example.com/gpu"}], "plain": "(x"}


def test_an_unbound_name_is_an_error():
    """A typo in a binding is reported, with what is bound."""
    with pytest.raises(ScenarioError, match=r"nothing is bound to \$nam; bound are name"):
        evaluate("$nam", {"name": 1})


def test_a_broken_expression_is_an_error():
    """An expression that JMESPath cannot parse raises ScenarioError."""
    with pytest.raises(ScenarioError, match=r"\(a\.\.b\)"):
        evaluate("a..b", {}, {})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("(lookup(@, 'a.b/c'))", 1),
        ("(lookup(@, 'd'))", None),
        ("(lookup(list, `1`))", "y"),
        ("(lookup(list, `7`))", None),
        ("(regex_match('^x', 'xy'))", True),
        ("(split('a,b', ','))", ["a", "b"]),
        ("(replace_all('a-a', 'a', 'b'))", "b-b"),
        ("(trim('..a.', '.'))", "a"),
        ("(to_upper(to_lower('aB')))", "AB"),
        ("(parse_json(base64_decode('eyJhIjoxfQ==')).a)", 1),
    ],
)
def test_chainsaws_functions(text, value):
    """The functions that Chainsaw adds to JMESPath can be used in assertions."""
    assert list(mismatches({text: value}, {"a.b/c": 1, "list": ["x", "y"]}, {})) == []
