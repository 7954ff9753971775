"""Label and field selectors against the recorded answers of upstream, and their laws."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import DATA

from kubeskew.apimachinery.selectors import labels
from kubeskew.apimachinery.selectors.labels import LabelSelector, SelectorError
from kubeskew.apiserver.http.parameters import FieldSelector, Term

CASES = [json.loads(line) for line in (DATA / "selectors.jsonl").read_text().splitlines()]


def of_kind(kind):
    return [pytest.param(case, id=f"{number}") for number, case in enumerate(CASES) if case["case"] == kind]


def shown(selector):
    return [
        {
            "key": requirement.key,
            "operator": str(requirement.operator),
            "values": sorted(set(requirement.values)),
        }
        for requirement in selector.requirements
    ]


@pytest.mark.parametrize("case", of_kind("labels"))
def test_label_selector_text(case):
    """A selector's text gives upstream's requirements, canonical text and matches, or its error."""
    if "error" in case:
        with pytest.raises(SelectorError) as raised:
            LabelSelector.parse(case["selector"])
        assert str(raised.value) == case["error"]
        return
    selector = LabelSelector.parse(case["selector"])
    assert shown(selector) == case["requirements"]
    assert str(selector) == case["string"]
    assert selector.is_empty() is case["empty"]
    assert [selector.matches(labels) for labels in case["sets"]] == case["matches"]


@pytest.mark.parametrize("case", of_kind("labels"))
def test_text_to_object(case):
    """A selector's text becomes a LabelSelector object, or upstream's error says why not."""
    if "toLabelSelectorError" in case:
        with pytest.raises(SelectorError) as raised:
            labels.parse_to_object(case["selector"])
        assert str(raised.value) == case["toLabelSelectorError"]
    else:
        assert labels.parse_to_object(case["selector"]) == case["toLabelSelector"]


@pytest.mark.parametrize("case", of_kind("labelSelector"))
def test_label_selector_object(case):
    """A LabelSelector object gives upstream's requirements, text and matches, or its error."""
    assert labels.format_selector(case["labelSelector"]) == case["formatted"]
    if "error" in case:
        with pytest.raises(SelectorError) as raised:
            LabelSelector.from_object(case["labelSelector"])
        assert str(raised.value) == case["error"]
        return
    selector = LabelSelector.from_object(case["labelSelector"])
    assert shown(selector) == (case["requirements"] or [])
    assert str(selector) == case["string"]
    assert selector.is_empty() is case["empty"]
    assert selector.selectable is not case["nothing"]
    assert [selector.matches(each) for each in case["sets"]] == case["matches"]


@pytest.mark.parametrize("case", of_kind("fields"))
def test_field_selector(case):
    """A field selector gives upstream's canonical text and matches, or its error."""
    if "error" in case:
        with pytest.raises(SelectorError) as raised:
            FieldSelector.parse(case["selector"])
        assert str(raised.value) == case["error"]
        return
    selector = FieldSelector.parse(case["selector"])
    assert str(selector) == case["string"]
    assert selector.is_empty() is case["empty"]
    assert [selector.matches(labels) for labels in case["sets"]] == case["matches"]


def test_exact_match():
    """The value that a selector pins a key to is found, and only then."""
    selector = LabelSelector.parse("a=1,b in (2),c in (3,4),d")
    assert [selector.exact_match(key) for key in "abcde"] == ["1", "2", None, None, None]
    fields = FieldSelector.parse("metadata.name=x,spec.nodeName!=y")
    assert fields.exact_match("metadata.name") == "x"
    assert fields.exact_match("spec.nodeName") is None
    renamed = fields.transformed(lambda field, value: (field.upper(), value))
    assert str(renamed) == "METADATA.NAME=x,SPEC.NODENAME!=y"


word = st.from_regex(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,5}[A-Za-z0-9])?", fullmatch=True)
requirement = st.one_of(
    word,
    word.map("!{}".format),
    st.builds("{}{}{}".format, word, st.sampled_from(["=", "==", "!="]), word),
    st.builds("{} {} ({})".format, word, st.sampled_from(["in", "notin"]), st.lists(word).map(",".join)),
    st.builds("{}{}{}".format, word, st.sampled_from("<>"), st.integers(0, 100)),
)
sets = st.dictionaries(word, word)


@given(st.lists(requirement).map(",".join), st.lists(sets))
def test_label_round_trip(text, some):
    """The canonical text of a selector says the same."""
    selector = LabelSelector.parse(text)
    again = LabelSelector.parse(str(selector))
    assert again == selector
    assert [again.matches(each) for each in some] == [selector.matches(each) for each in some]


@given(st.dictionaries(st.from_regex(r"[a-z.]+", fullmatch=True), st.text(), min_size=1))
def test_field_round_trip(wanted):
    """Any value survives escaping."""
    selector = FieldSelector(tuple(Term(key, value) for key, value in wanted.items()))
    again = FieldSelector.parse(str(selector))
    assert {(term.field, term.value) for term in again.terms} == set(wanted.items())


@pytest.mark.parametrize("text", ["=", "==", "!=", "=,!="])
def test_a_term_without_field_and_value_selects_everything(text):
    """Upstream leaves it out."""
    assert FieldSelector.parse(text).is_empty()
