"""Switches of drivers that faults hold."""

from kubeskew.simulation.faults.control import HeldSwitches

PLACE = ("d.example.com", "n")


def test_what_a_fault_held_is_as_it_was():
    """A fault that ends leaves the switches that were set before it, and takes off the others; once."""
    held = HeldSwitches()
    held.hold("f", {PLACE: {"delay": "1s", "devices": 4}}, {"delay": "5s", "hang": True})

    assert held.release("f") == {PLACE: {"delay": "1s", "hang": None}}
    assert held.release("f") == {}


def test_what_others_hold_stays():
    """The newest fault that still holds a switch decides; the last one that ends leaves what was before."""
    for order in ("abc", "acb", "bac", "bca", "cab", "cba"):
        held = HeldSwitches()
        now: dict[str, object] = {"delay": "1s"}
        for fault in "abc":
            held.hold(fault, {PLACE: now}, {"delay": fault})
            now = {"delay": fault}
        left = [*"abc"]
        for fault in order:
            left.remove(fault)
            now |= held.release(fault)[PLACE]
            assert now == {"delay": left[-1] if left else "1s"}


def test_what_the_scenario_sets_meanwhile_stays():
    """A switch that the scenario has set while a fault held it is not taken back; elsewhere nothing is."""
    held = HeldSwitches()
    held.hold("f", {PLACE: {}, ("d.example.com", "m"): {}}, {"devices": 1, "hang": True})
    held.set_by_scenario("d.example.com", ["n"], {"devices": 3, "vanish": True})

    assert held.release("f") == {
        PLACE: {"devices": 3, "hang": None},
        ("d.example.com", "m"): {"devices": None, "hang": None},
    }
