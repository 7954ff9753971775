"""The semantic models, and what is made of them: pure functions, tested by tables."""

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from semantic_cluster import DRIVER, card, counter, metadata, required, selected

from kubeskew.scheduler.plugins.dynamicresources.semantic.allocation import (
    NodeSearch,
    SemanticClaim,
    parameter_requests,
)
from kubeskew.scheduler.plugins.dynamicresources.semantic.models import (
    MODELS,
    CounterModel,
    MetadataModel,
    SemanticError,
    model_of,
)
from kubeskew.scheduler.plugins.dynamicresources.semantic.resources import (
    Part,
    Place,
    SemanticResources,
)

PLACE = Place("n0", DRIVER)
RAM = Part(PLACE, "CardA", "RAM", "counter")


@pytest.mark.parametrize(
    ("count", "parts", "asked", "fits"),
    [
        (10, [], 10, True),
        (10, [], 11, False),
        (10, [4, 5], 1, True),
        (10, [4, 5], 2, False),
        (10, [10], 0, True),
        pytest.param(10, [8, 8], 1, False, id="more is taken than there is"),
        pytest.param(10, [8, 8], 0, False, id="then not even nothing fits"),
        pytest.param(2**63 - 1, [2**63 - 2], 1, True, id="no rounding"),
        (0, [], 0, True),
    ],
)
def test_a_counter_gives_what_is_left_of_it(count, parts, asked, fits):
    """An amount fits if it is not more than the count without what claims have of it."""
    model, taken = CounterModel(), CounterModel.nothing
    for part in parts:
        taken = model.take(taken, {"count": part})

    assert model.requirement({"required": asked}).match(model.attribute({"count": count}), taken) is fits
    for part in parts:
        taken = model.free(taken, {"count": part})
    assert taken == CounterModel.nothing


@pytest.mark.parametrize(
    ("selector", "fits"),
    [
        ('versions["API"] >= "v1.0.0"', True),
        ('"v3.3.0" <= versions["API"]', False),
        ('labels.has("Color")', True),
        ('labels.has("Size")', False),
        ('labels["Color"] == "Red"', True),
        ('values["Length"] > 5', True),
        ('values["Length"] > 100', False),
        ('versions["API"] >= "v1.0.0" && labels.has("Color")', True),
    ],
)
def test_a_selector_says_yes_or_no(selector, fits):
    """It sees versions, labels and values by name, and takes nothing."""
    model = MetadataModel()
    given = metadata(Color="Red")["metadata"] | {"values": [{"name": "Length", "quantity": 100}]}
    requirement = model.requirement({"selector": selector})

    assert requirement.match(model.attribute(given), model.nothing) is fits
    assert requirement.allocate() is None


@pytest.mark.parametrize(
    "selector", ['versions["ABI"] == "1.0.0"', 'labels["Size"] == "L"', 'values["x"] > 1']
)
def test_a_selector_that_asks_for_what_is_not_there_does_not_match(selector):
    """It says which key is missing."""
    model = MetadataModel()
    attribute = model.attribute(metadata()["metadata"])
    for _ in range(2):
        with pytest.raises(SemanticError, match="evaluate selector: no such key: "):
            model.requirement({"selector": selector}).match(attribute, model.nothing)


def test_each_selector_has_its_own_answer():
    """An answer about an attribute is remembered for its selector alone, however many others there are."""
    model = MetadataModel()
    attribute = model.attribute({"values": [{"name": "Length", "quantity": 100}]})
    selectors = [model.requirement({"selector": f'values["Length"] > {number}'}) for number in range(200)]
    for _ in range(2):
        assert [each.match(attribute, model.nothing) for each in selectors] == [True] * 100 + [False] * 100


@pytest.mark.parametrize("selector", ["", "1", "versions.API >", "device.driver == 'x'"])
def test_a_selector_that_does_not_compile_is_an_error(selector):
    """The parameters cannot be used then."""
    with pytest.raises(SemanticError, match="compile selector: "):
        MetadataModel().requirement({"selector": selector})


@pytest.mark.parametrize(
    ("entry", "name", "error"),
    [
        ({"name": "x", "counter": {"count": 1}}, "counter", ""),
        ({"name": "x", "counter": None, "metadata": {}}, "metadata", ""),
        ({"name": "x"}, "", "it is of an unknown semantic model"),
        ({"name": "x", "mesh": {}}, "", "it is of an unknown semantic model"),
        ({"counter": {}, "metadata": {}}, "", "it is of several semantic models: counter, metadata"),
    ],
)
def test_an_entry_is_of_exactly_one_model(entry, name, error):
    """An entry without any field that is known was written by somebody who knows more."""
    if not error:
        assert model_of(MODELS, entry, "it").name == name
        return
    with pytest.raises(SemanticError) as raised:
        model_of(MODELS, entry, "it")
    assert str(raised.value) == error


def published(*cards, name="s", node="n0", driver=DRIVER):
    return {"metadata": {"name": name}, "nodeName": node, "driverName": driver, "resources": [*cards]}


def allocated(uid, *parts, node="n0", driver=DRIVER):
    """Returns a claim that has parts: (resource, attribute, amount)."""
    results = [
        {"counter": {"resourceID": resource, "name": name, "count": amount}}
        for resource, name, amount in parts
    ]
    data = {"nodeName": node, "allocations": results}
    handles = [{"driverName": driver, "semanticData": data}]
    metadata = {"name": uid, "namespace": "default", "uid": uid}
    return {"metadata": metadata, "spec": {}, "status": {"allocation": {"resourceHandles": handles}}}


def resources_of(*slices, claims=()):
    resources = SemanticResources(MODELS)
    for each in slices:
        resources.set_slice(each)
    for claim in claims:
        resources.set_claim(claim)
    return resources


def claim(*parameters, driver=DRIVER):
    return SemanticClaim(driver, parameter_requests(MODELS, {"parameters": [*parameters]}), shareable=False)


def chosen(resources, *claims, node="n0"):
    found = NodeSearch(resources, node).find(claims)
    return None if found is None else [resource.id for resource in found]


def test_every_claim_counts_once():
    """An allocation that is decided counts instead of what is written, until it is written or given up."""
    resources = resources_of(published(card()))
    decided = allocated("a", ("CardA", "RAM", 4))
    resources.decide(decided)
    assert resources.taken(RAM) == 4
    assert resources.allocated == 0
    resources.set_claim(decided)  # the informer is faster than the answer to the write
    assert resources.taken(RAM) == 4
    resources.land("a")
    assert (resources.taken(RAM), resources.allocated) == (4, 1)

    resources.set_claim(allocated("b", ("CardA", "RAM", 3)))
    resources.set_claim(allocated("b", ("CardA", "RAM", 2)))
    resources.decide(allocated("c", ("CardA", "RAM", 1), ("CardA", "ComputeUnits", 1)))
    assert resources.taken(RAM) == 7
    resources.land("c")
    resources.remove_claim(decided)
    resources.set_claim({**allocated("b"), "status": {}})
    assert (resources.taken(RAM), resources.allocated) == (0, 0)


def test_what_other_nodes_and_drivers_give_counts_for_them():
    """Node, driver, resource and attribute together say what is taken."""
    other_node = allocated("a", ("CardA", "RAM", 9), node="n1")
    other_driver = allocated("b", ("CardA", "RAM", 9), driver="other.example.com")
    other_card = allocated("c", ("CardB", "RAM", 9), ("CardA", "ComputeUnits", 4))
    resources = resources_of(published(card(ram=9)), claims=[other_node, other_driver, other_card])

    assert chosen(resources, claim(required("RAM", 9))) == ["CardA"]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param([[9], [2]], ["Big", "Small"], id="each where it fits"),
        pytest.param([[2], [9]], ["Small", "Big"], id="the scarce one first"),
        pytest.param([[2], [2], [8]], ["Big", "Small", "Big"], id="no part twice"),
        pytest.param([[5], [5]], ["Big", "Big"], id="several of one resource"),
        pytest.param([[11]], None, id="too much"),
        pytest.param([[1], [6], [6]], None, id="too much together"),
    ],
)
def test_claims_of_one_pod_are_placed_together(asked, expected):
    """Each gets one resource, and no part of it is given twice."""
    resources = resources_of(published(card("Big", ram=10), card("Small", ram=2)))
    claims = [claim(*(required("RAM", amount) for amount in each)) for each in asked]

    assert chosen(resources, *claims) == expected


def test_a_search_that_must_turn_back_finds_what_fits():
    """The first choice of a claim is given up if the others find nothing next to it."""
    cards = [
        {"id": "Both", "attributes": [counter("RAM", 2), counter("Units", 2)]},
        {"id": "Memory", "attributes": [counter("RAM", 2)]},
        {"id": "Units", "attributes": [counter("Units", 2)]},
    ]
    resources = resources_of(published(*cards))
    found = chosen(
        resources, claim(required("RAM", 2)), claim(required("RAM", 2)), claim(required("Units", 1))
    )
    assert found is not None
    assert (sorted(found[:2]), found[2] in ("Both", "Units")) == (["Both", "Memory"], True)


def fits_by_trying_everything(free, asked):
    """Returns whether some choice of cards has enough RAM and units left for all that is asked."""
    for choice in itertools.product(range(len(free)), repeat=len(asked)):
        left = [list(amounts) for amounts in free]
        for wanted, index in zip(asked, choice, strict=True):
            left[index] = [have - want for have, want in zip(left[index], wanted, strict=True)]
        if all(amount >= 0 for amounts in left for amount in amounts):
            return True
    return False


_AMOUNTS = st.tuples(st.integers(0, 5), st.integers(0, 5))


@given(st.lists(_AMOUNTS, min_size=1, max_size=3), st.lists(_AMOUNTS, min_size=1, max_size=4))
def test_a_search_finds_what_there_is(free, asked):
    """Claims of one pod have resources if and only if trying all choices finds some, and no amount twice."""
    cards = [card(f"Card{index}", ram, units) for index, (ram, units) in enumerate(free)]
    claims = [claim(required("RAM", ram), required("ComputeUnits", units)) for ram, units in asked]
    found = chosen(resources_of(published(*cards)), *claims)

    assert (found is not None) == fits_by_trying_everything(free, asked)
    taken = Counter()
    for name, (ram, units) in zip(found or (), asked, strict=found is not None):
        taken[name, "RAM"] += ram
        taken[name, "ComputeUnits"] += units
    for index, (ram, units) in enumerate(free):
        assert taken[f"Card{index}", "RAM"] <= ram
        assert taken[f"Card{index}", "ComputeUnits"] <= units


def test_many_alike_claims_end_soon():
    """A node that has one card too few is refused without trying all orders."""
    cards = [card(f"card-{number:02}", ram=1) for number in range(30)]
    resources = resources_of(published(*cards))

    assert len(chosen(resources, *[claim(required("RAM", 1))] * 30)) == 30
    assert chosen(resources, *[claim(required("RAM", 1))] * 31) is None


def test_a_search_ends_even_where_it_is_not_over():
    """Claims and cards that all differ have more orders than are tried; that is reported as such."""
    cards = [card(f"card-{number:02}", ram=100 + number) for number in range(20)]
    resources = resources_of(published(*cards))
    with pytest.raises(SemanticError, match="too many ways to give 21 claims the resources of a node"):
        chosen(resources, *(claim(required("RAM", 80 + number)) for number in range(21)))


def test_a_resource_that_cannot_be_judged_does_not_hide_others():
    """The key that the first one lacks is no reason where another one fits."""
    plain = {"id": "CardA", "attributes": [metadata(), counter("RAM", 5)]}
    red = {"id": "CardB", "attributes": [metadata(Color="Red"), counter("RAM", 5)]}
    wanted = claim(selected('labels["Color"] == "Red"'), required("RAM", 5))

    assert chosen(resources_of(published(plain, red)), wanted) == ["CardB"]
    with pytest.raises(
        SemanticError, match='parameter "meta" at resource "CardA": evaluate selector: no such key'
    ):
        chosen(resources_of(published(plain)), wanted)


def test_a_slice_is_refused_as_a_whole():
    """With one attribute that is not known none of its resources counts; other slices do."""
    extended = {"id": "CardX", "attributes": [counter("RAM", 99), {"name": "mesh", "mesh": {}}]}
    resources = resources_of(published(card("CardB"), extended, name="a"), published(card("CardC"), name="b"))
    assert chosen(resources, claim(required("RAM", 1))) == ["CardC"]
    with pytest.raises(SemanticError, match='NodeResourceSlice a: attribute "mesh" of resource "CardX"'):
        chosen(resources, claim(required("RAM", 50)))

    resources.set_slice(published(card("CardB"), name="a"))
    assert chosen(resources, claim(required("RAM", 1))) == ["CardB"]
    resources.remove_slice(published(name="a"))
    assert chosen(resources, claim(required("RAM", 1))) == ["CardC"]


def test_nothing_is_given_where_it_is_not_known_what_is_taken():
    """A claim whose allocation is of a newer model keeps others from that driver's resources of the node."""
    newer = allocated("a")
    data = newer["status"]["allocation"]["resourceHandles"][0]["semanticData"]
    data["allocations"] = [{"mesh": {"resourceID": "CardA"}}]
    resources = resources_of(published(card()), published(card(), name="t", node="n1"), claims=[newer])
    with pytest.raises(
        SemanticError, match="an allocation of claim default/a is of an unknown semantic model"
    ):
        chosen(resources, claim(required("RAM", 1)))

    assert chosen(resources, claim(required("RAM", 1)), node="n1") == ["CardA"]
    resources.remove_claim(newer)
    assert chosen(resources, claim(required("RAM", 1))) == ["CardA"]


def test_a_fictional_node_has_the_slices_of_its_template():
    """Its resources are those that the template's slices list, and nobody has any of them."""
    resources = resources_of(published(card()), claims=[allocated("a", ("CardA", "RAM", 10))])

    assert chosen(resources, claim(required("RAM", 1))) is None
    assert chosen(resources, claim(required("RAM", 1)), node="fictional") is None
    resources.copy_node("fictional", "n0")
    assert chosen(resources, claim(required("RAM", 1)), node="fictional") == ["CardA"]
    resources.drop_node("fictional")
    assert chosen(resources, claim(required("RAM", 1)), node="fictional") is None


def test_copies_of_slices_do_not_replace_each_other():
    """Names of slices and nodes may be alike where they are joined; each fictional node has its own copy."""
    resources = resources_of(
        published(card("CardA"), name="gpu-a", node="n0"), published(card("CardB"), name="gpu", node="n1")
    )
    resources.copy_node("b", "n0")
    resources.copy_node("a-b", "n1")

    assert chosen(resources, claim(required("RAM", 1)), node="b") == ["CardA"]
    assert chosen(resources, claim(required("RAM", 1)), node="a-b") == ["CardB"]
    resources.drop_node("a-b")
    assert chosen(resources, claim(required("RAM", 1)), node="b") == ["CardA"]


def test_a_fictional_node_may_be_made_of_a_fictional_one():
    """The slices of a copy are copied as those of a real node, also where a slice is one of several."""
    resources = resources_of(published(card("CardA")), published(card("CardB"), name="t"))
    resources.copy_node("first", "n0")
    resources.copy_node("second", "first")
    resources.drop_node("first")

    both = claim(required("RAM", 10)), claim(required("RAM", 10))
    assert chosen(resources, *both, node="second") == ["CardA", "CardB"]
    assert chosen(resources, *both, node="first") is None


def test_a_node_that_is_its_own_template_keeps_its_slices():
    """Nothing is lost or listed twice where a node names itself."""
    resources = resources_of(published(card("CardA")))
    resources.copy_node("n0", "n0")

    assert [resource.id for resource in resources.resources(PLACE)] == ["CardA"]


def test_an_example_without_identifiers_is_read_by_its_names():
    """The draft's examples say `name` where its type says `id`."""
    named = {**card(), "name": "CardA"}
    del named["id"]

    assert chosen(resources_of(published(named)), claim(required("RAM", 1))) == ["CardA"]
