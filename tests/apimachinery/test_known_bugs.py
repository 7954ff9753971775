"""The table of known bugs: which release has which, and what is switched."""

import importlib
from dataclasses import fields
from typing import Any

import pytest

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.known_bugs import (
    BugError,
    KnownBug,
    KnownBugs,
    Patch,
    bugs_flag,
    check_bugs,
    known_bugs,
    parse_bugs,
)
from kubeskew.apimachinery.versions import NEWEST_PATCHES, PREVIEWS, SUPPORTED, Version

BUILT = [bug for bug in known_bugs().values() if bug.switch]


def bug_of(since: str, fixed: str) -> KnownBug:
    row = next(iter(known_bugs().values()))
    values = {field.name: getattr(row, field.name) for field in fields(KnownBug)}
    patches = {
        "since": tuple(map(Patch.parse, since.split())),
        "fixed": tuple(map(Patch.parse, fixed.split())),
    }
    return KnownBug(**{**values, **patches})


@pytest.mark.parametrize(
    ("since", "fixed", "has", "has_not"),
    [
        ("1.32.0", "1.33.6 1.34.0", "1.32.0 1.32 1.33.0 1.33.5", "1.31 1.33.6 1.33 1.34.0 1.37"),
        ("1.33.2 1.34.0", "1.33.4 1.34.1 1.35.0", "1.33.2 1.33.3 1.34.0", "1.32 1.33.1 1.33.4 1.34.1 1.35"),
        ("1.29.0", "1.29.1 1.30.0", "1.29.0", "1.28 1.29.1 1.30.0 1.29+kep4381"),
        ("1.36.0", "", "1.36.0 1.37", "1.35"),
    ],
)
def test_a_release_has_a_bug_from_the_patch_that_brought_it_to_the_one_before_its_fix(
    since: str, fixed: str, has: str, has_not: str
):
    """Each minor counts its own patches; the last one named speaks for later minors; previews have none."""
    bug = bug_of(since, fixed)

    assert [version for version in has.split() if not bug.affects(Version.parse(version))] == []
    assert [version for version in has_not.split() if bug.affects(Version.parse(version))] == []


@pytest.mark.parametrize(
    ("since", "fixed", "text"),
    [
        ("1.32.0", "1.33.6 1.34.0", "1.32.0-1.32, 1.33.0-1.33.5"),
        ("1.34.0", "1.34.2 1.35.0", "1.34.0-1.34.1"),
        ("1.34.0", "1.36.0", "1.34.0-1.35"),
        ("1.36.0", "", "since 1.36.0"),
        ("1.26.10 1.27.7 1.28.0", "1.36.0", "1.26.10-1.26, 1.27.7-1.35"),
        ("1.32.0 1.33.0 1.34.2", "1.35.0", "1.32.0-1.33, 1.34.2-1.34"),
    ],
)
def test_affected_releases_are_reported_as_people_write_them(since: str, fixed: str, text: str):
    """The stretches of releases are reported with their first and last patch."""
    assert bug_of(since, fixed).affected == text


@pytest.mark.parametrize("bug", known_bugs().values(), ids=lambda bug: bug.id)
def test_every_row_is_of_releases_that_were(bug: KnownBug):
    """A row names patches that exist, in order, a source, a trigger, and its switch or what is missing."""
    assert list(bug.since) == sorted(bug.since)
    assert list(bug.fixed) == sorted(bug.fixed)
    assert [str(p) for p in (*bug.since, *bug.fixed) if p.patch > NEWEST_PATCHES[p.minor]] == []
    assert bug.source.startswith("https://github.com/")
    assert bug.id.rpartition("-")[2].isdecimal()
    assert bool(bug.switch) != bool(bug.missing)
    assert bug.trigger
    assert bug.component in {"apiserver", "controller-manager", "scheduler", "kubelet", "driver"}


def decided(switch: str, gates: FeatureGates) -> Any:
    """Returns the field that a bug's switch names, of features made for these gates."""
    module, _, path = switch.partition(":")
    table: Any = getattr(importlib.import_module(module), path.partition(".")[0])
    made = table.of(gates)
    for name in path.split(".")[1:]:
        made = None if made is None else getattr(made, name)  # a release may be without that part
    return made


@pytest.mark.parametrize("bug", BUILT, ids=lambda bug: bug.id)
def test_the_switch_of_a_bug_is_what_its_settings_change(bug: KnownBug):
    """A component has the behaviour at each release that has the bug, with it on, and never with it off."""
    on = dict.fromkeys(bug.gates, True)
    for minor in (version for version in SUPPORTED if version not in PREVIEWS):
        for patch in range(minor.level + 1):
            version = Version(minor.minor, patch=patch)
            there = bug.affects(version)
            by_release = decided(bug.switch, FeatureGates(version, on))
            assert by_release == decided(bug.switch, FeatureGates(version, on, {bug.id: there})), version
            if there:
                assert by_release != decided(bug.switch, FeatureGates(version, on, {bug.id: False})), version


def test_settings_are_read_as_the_flag_has_them():
    """`on` and `off` go by id; what the flag says is what a component is given again."""
    settings = parse_bugs(" k8s-134773=off, k8s-132334=on")

    assert settings == {"k8s-132334": True, "k8s-134773": False}
    assert parse_bugs(bugs_flag(settings)) == settings
    assert KnownBugs(Version(36), settings).present("k8s-132334")
    assert not KnownBugs(Version.parse("1.34.1"), settings).present("k8s-134773")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("k8s-134774=off", "there is no known bug k8s-134774; did you mean k8s-134773?"),
        ("nonsense=off", "there is no known bug nonsense; `kubeskew bugs` lists them"),
        ("k8s-134773", "'k8s-134773': write k8s-134773=off or k8s-134773=on"),
        ("k8s-134773=maybe", "'k8s-134773=maybe': write k8s-134773=off or k8s-134773=on"),
        ("k8s-141471=on", "k8s-141471 cannot be switched on, for kubeskew does not behave so: "),
    ],
)
def test_settings_that_say_nothing_are_refused(text: str, why: str):
    """An unknown bug, an unknown value, and one that nothing here behaves as are reported in one line."""
    with pytest.raises(BugError) as refused:
        parse_bugs(text)
    assert str(refused.value).startswith(why)


def test_a_bug_is_of_one_component():
    """Another component refuses it, and says whose it is."""
    with pytest.raises(BugError, match="k8s-134773 is a bug of the controller-manager, not of the kubelet"):
        check_bugs({"k8s-134773": False}, "kubelet")


def test_gates_with_other_bugs_are_others():
    """Gates with other bugs are unequal, so that caches keep them apart."""
    plain, without = FeatureGates(Version(36)), FeatureGates(Version(36), {}, {"k8s-134773": False})

    assert plain != without
    assert plain == FeatureGates(Version(36), {}, {})
    assert len({plain, without, FeatureGates(Version(36))}) == 2
