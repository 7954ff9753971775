"""Tables of features: rules by release, gate and known bug, and the facts that they name."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeskew.apimachinery.features import (
    BUG,
    GATE,
    MINOR,
    RELEASE,
    VERSION,
    Condition,
    FeatureTable,
    always,
    bug,
    by_release,
    choose,
    fixed,
    gate,
    has_flag,
    has_gate,
    made,
    only,
    part,
    preview,
    since,
    unless_off,
    until,
)
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version


def gates(version: str, overrides: dict[str, bool] | None = None, **bugs: bool) -> FeatureGates:
    return FeatureGates(
        Version.parse(version), overrides, {f"k8s-{name[1:]}": on for name, on in bugs.items()}
    )


JOB_BUG = "k8s-132109"  # in 1.33.0 to 1.33.2, and not in 1.36
FIX = f"fix of {JOB_BUG}"
ON = "gate JobManagedBy is on (GA, locked)"
MANAGED = "JobManagedBy"  # alpha in 1.30, on since 1.32, locked in 1.35


@pytest.mark.parametrize(
    ("rule", "version", "value", "kind", "text"),
    [
        (since(31), "1.31", True, RELEASE, "1.31 is at or after 1.31"),
        (since(31), "1.30", False, RELEASE, "1.30 is before 1.31"),
        (until(31), "1.31", True, RELEASE, "1.31 is not after 1.31"),
        (until(31), "1.32", False, RELEASE, "1.32 is after 1.31"),
        (only(31), "1.31.2", True, RELEASE, "1.31.2 is of 1.31"),
        (only(31), "1.32", False, RELEASE, "1.32 is not of 1.31"),
        (preview("kep4381"), "1.29+kep4381", True, RELEASE, "1.29+kep4381 is the preview kep4381"),
        (preview("kep4381"), "1.29", False, RELEASE, "1.29 is not the preview kep4381"),
        (gate(MANAGED), "1.36", True, GATE, "gate JobManagedBy is on (GA, locked)"),
        (gate(MANAGED), "1.31", False, GATE, "gate JobManagedBy is off (Alpha)"),
        (gate(MANAGED), "1.28", False, GATE, "gate JobManagedBy is not in 1.28"),
        (has_flag(MANAGED), "1.28", False, GATE, "gate JobManagedBy is not among the flags of 1.28"),
        (has_gate(MANAGED), "1.36", True, GATE, "gate JobManagedBy is in 1.36"),
        (bug(JOB_BUG), "1.36", False, BUG, "bug k8s-132109 is not in 1.36"),
        (bug(JOB_BUG), "1.33.1", True, BUG, "bug k8s-132109 is in 1.33.1"),
        (fixed(JOB_BUG), "1.36", True, BUG, "1.36 has the fix of k8s-132109"),
        (by_release({0: "a", 34: "b"}), "1.33", "a", RELEASE, "1.33 is before 1.34"),
        (by_release({0: "a", 34: "b"}), "1.35", "b", RELEASE, "1.35 is at or after 1.34"),
        (choose(since(35), 2, 1), "1.36", 2, RELEASE, "1.36 is at or after 1.35"),
        (made(max, MINOR, 33), "1.35", 35, RELEASE, "the version is 1.35"),
    ],
)  # fmt: skip
def test_a_rule_has_a_value_and_the_fact_that_decides_it(rule, version, value, kind, text):
    """A rule's value comes with the release, gate or bug that made it so."""
    found = gates(version)

    assert rule.value(found) == value
    reason = rule.reasons(found)[0]
    assert (reason.kind, reason.text.partition(" (it is in")[0].partition(" (the bug")[0]) == (kind, text)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (since(31) & gate(MANAGED), "since 1.31 and gate JobManagedBy"),
        (since(31) & (gate("A") | ~gate("B")), "since 1.31 and (gate A or not gate B)"),
        ((since(31) & gate("A")) | until(28), "(since 1.31 and gate A) or until 1.28"),
        (~(since(31) & gate("A")), "not (since 1.31 and gate A)"),
        (unless_off("A"), "not flag A or gate A"),
        (by_release({34: "b", 0: "a"}), "'a', 'b' since 1.34"),
        (choose(bug(JOB_BUG), 1, always(2)), "1 if bug k8s-132109, else 2"),
        (made(max, VERSION, fixed(JOB_BUG), key=only(31)), f"max(the version; {FIX}; key: only 1.31)"),
        (has_gate("A"), "gate A exists"),
        (preview("kep3063"), "preview kep3063"),
    ],
)  # fmt: skip
def test_a_rule_is_written_as_people_say_it(rule, text):
    """A rule's text names releases, gates and bugs, with brackets where and and or mix."""
    assert str(rule) == text


@pytest.mark.parametrize(
    ("rule", "version", "reasons"),
    [
        (since(31) & gate(MANAGED), "1.30", ["1.30 is before 1.31"]),
        (since(31) & gate(MANAGED), "1.31", ["gate JobManagedBy is off (Alpha)"]),
        (since(31) & gate(MANAGED), "1.36", ["1.36 is at or after 1.31", ON]),
        (since(31) | gate(MANAGED), "1.36", ["1.36 is at or after 1.31"]),
        (since(37) | gate(MANAGED), "1.31", ["1.31 is before 1.37", "gate JobManagedBy is off (Alpha)"]),
        (~since(37), "1.31", ["1.31 is before 1.37"]),
    ],
)  # fmt: skip
def test_only_facts_that_decide_are_named(rule, version, reasons):
    """Of parts that are joined those are named which alone decide, else all of them."""
    assert [reason.text for reason in rule.reasons(gates(version))] == reasons


def test_what_is_set_by_hand_is_a_reason():
    """A gate of the flag and a switched bug are named as such."""
    found = gates("1.31", {MANAGED: True}, k132109=True)

    assert gate(MANAGED).reasons(found)[0].text == "gate JobManagedBy is on, set by flag"
    assert bug(JOB_BUG).reasons(found)[0].text == "bug k8s-132109 is switched on"
    assert fixed(JOB_BUG).reasons(found)[0].text == "bug k8s-132109 is switched on"


def test_a_gate_that_other_settings_decide_names_them():
    """AllAlpha and a known bug that has a gate on are named, and a preview that is older than a fix."""
    (alpha,) = gate(MANAGED).reasons(gates("1.31", {"AllAlpha": True}))
    on, why = gate("MaxUnavailableStatefulSet").reasons(gates("1.36", k137409=True))
    (older,) = fixed(JOB_BUG).reasons(gates("1.29+kep4381", k132109=False))

    assert alpha.text == "gate JobManagedBy is on, set by AllAlpha"
    assert on.text == "gate MaxUnavailableStatefulSet is on with a known bug"
    assert (why.kind, why.text) == (BUG, "bug k8s-137409 is switched on")
    assert older.text == f"1.29+kep4381 is a preview, older than the fix of {JOB_BUG}"


class Inner(FeatureTable):
    managed: bool = gate(MANAGED)


class Outer(FeatureTable):
    newest: bool = since(36)
    inner: Inner = part(Inner)
    later: Inner | None = part(Inner, where=since(36))


def test_a_table_is_built_once_for_equal_gates():
    """Equal gates give the same frozen value, whose parts are tables themselves."""
    made_once = Outer.of(gates("1.36"))

    assert made_once is Outer.of(gates("1.36"))
    assert made_once.inner is made_once.later
    assert Outer.of(gates("1.35")).later is None
    with pytest.raises(AttributeError):
        made_once.newest = False


def test_a_table_by_hand_needs_every_value():
    """Nobody gets a rule in place of a value."""
    with pytest.raises(TypeError, match="managed"):
        Inner()
    assert Inner(managed=True).managed


def test_a_table_explains_itself():
    """Rows stand in the order of the fields, those of parts under the part's name."""
    rows = [*Outer.explain(gates("1.35"))]

    assert [(row.name, row.value, row.rule) for row in rows] == [
        ("newest", False, "since 1.36"),
        ("inner.managed", True, "gate JobManagedBy"),
        ("later", None, "the table Inner if since 1.36, else None"),
    ]
    assert [row.reasons[0].kind for row in rows] == [RELEASE, GATE, RELEASE]


LEAVES = st.sampled_from([since(31), until(33), only(34), gate(MANAGED), bug(JOB_BUG), fixed(JOB_BUG)])
CONDITIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda a, b: a & b, inner, inner),
        st.builds(lambda a, b: a | b, inner, inner),
        st.builds(lambda a: ~a, inner),
    ),
    max_leaves=6,
)


@settings(max_examples=200)
@given(CONDITIONS, CONDITIONS, st.sampled_from(["1.30", "1.31", "1.33.1", "1.33", "1.34", "1.36"]))
def test_conditions_combine_as_booleans_do(one: Condition, other: Condition, version: str):
    """And, or and not of conditions have the values of those of their parts, and some fact for each."""
    found = gates(version)

    assert (one & other).value(found) is (one.value(found) and other.value(found))
    assert (one | other).value(found) is (one.value(found) or other.value(found))
    assert (~one).value(found) is not one.value(found)
    assert ((one & other) | ~one).reasons(found)
