"""The arithmetic of rollouts, by tables."""

import pytest

from kubeskew.apimachinery.golang.fnv import fnv1a
from kubeskew.controllers.deployment import replica_sets
from kubeskew.controllers.framework.history import safe_encode, template_hash


def deployment(replicas, surge="25%", unavailable="25%", **status):
    return {
        "metadata": {"name": "d", "generation": 1},
        "spec": {
            "replicas": replicas,
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable},
            },
        },
        "status": status,
    }


def replica_set(name, replicas, available=None, *, created=0, most=None, desired=None, revision=None):
    notes = {
        replica_sets.MAX_REPLICAS: most,
        replica_sets.DESIRED_REPLICAS: desired,
        replica_sets.REVISION: revision,
    }
    return {
        "metadata": {
            "name": name,
            "generation": 1,
            "creationTimestamp": f"2026-01-01T00:00:{created:02}Z",
            "annotations": {key: str(value) for key, value in notes.items() if value is not None},
        },
        "spec": {"replicas": replicas},
        "status": {
            "availableReplicas": replicas if available is None else available,
            "observedGeneration": 1,
        },
    }


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "expected"),
    [
        pytest.param(10, "25%", "25%", (3, 2), id="surge-rounds-up-unavailable-down"),
        pytest.param(2, "25%", "25%", (1, 0), id="small"),
        pytest.param(1, 0, "25%", (0, 1), id="never-both-zero"),
        pytest.param(3, 0, 5, (0, 3), id="no-more-than-there-are"),
        pytest.param(0, 1, 1, (1, 0), id="none-wanted"),
        pytest.param(5, "0%", "100%", (0, 5), id="all-at-once"),
    ],
)
def test_bounds_of_a_rolling_update(replicas, surge, unavailable, expected):
    """maxSurge and maxUnavailable as numbers."""
    found = deployment(replicas, surge, unavailable)

    assert (replica_sets.max_surge(found), replica_sets.max_unavailable(found)) == expected


def test_recreate_has_no_bounds():
    """Without a rolling update there is neither surge nor missing replicas."""
    found = {"spec": {"replicas": 3, "strategy": {"type": "Recreate"}}}

    assert (replica_sets.max_surge(found), replica_sets.max_unavailable(found)) == (0, 0)


@pytest.mark.parametrize(
    ("replicas", "surge", "old", "new", "expected"),
    [
        pytest.param(10, 2, 10, 0, 2, id="as-far-as-surge-allows"),
        pytest.param(10, 2, 12, 0, 0, id="no-room"),
        pytest.param(10, 2, 5, 5, 7, id="half-way"),
        pytest.param(10, 5, 0, 8, 10, id="not-beyond-the-wish"),
    ],
)
def test_the_new_replica_set_grows_into_the_room(replicas, surge, old, new, expected):
    """All replica sets together stay within replicas + maxSurge."""
    newest = replica_set("new", new)
    sets = [replica_set("old", old), newest]

    assert replica_sets.new_set_size(deployment(replicas, surge), sets, newest) == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param((10, 10), (0, 0), {"old": 8}, id="down-to-the-minimum"),
        pytest.param((8, 8), (4, 2), {"old": 6}, id="available-new-ones-count"),
        pytest.param((8, 8), (4, 0), {}, id="none-to-spare"),
    ],
)
def test_old_replica_sets_shrink_by_what_is_available(old, new, expected):
    """replicas - maxUnavailable stay available."""
    cuts = replica_sets.rolling_cuts(
        deployment(10, 2, 2), [replica_set("old", *old)], replica_set("new", *new)
    )

    assert cuts == expected


def test_unhealthy_old_replicas_go_first():
    """Replicas that are not available cost nothing; the oldest set gives first."""
    old = [replica_set("b", 4, 1, created=2), replica_set("a", 4, 2, created=1)]
    cuts = replica_sets.unhealthy_cuts(deployment(8, 2, 4), old, replica_set("new", 2, 2))

    assert cuts == {"a": 2, "b": 1}


@pytest.mark.parametrize(
    ("before", "after", "sets", "expected"),
    [
        pytest.param(10, 30, {"new": 3, "old": 10}, {"new": 9, "old": 29}, id="up"),
        pytest.param(10, 5, {"new": 3, "old": 10}, {"new": 2, "old": 5}, id="down"),
        pytest.param(10, 0, {"new": 3, "old": 10}, {"new": 0, "old": 0}, id="to-nothing"),
    ],
)
def test_scaling_in_the_middle_of_a_rollout_is_proportional(before, after, sets, expected):
    """Each active replica set keeps its share; what is left over goes to the largest."""
    found = [replica_set(name, size, most=before + 3) for name, size in sets.items()]
    sizes = replica_sets.proportional_sizes(deployment(after), found)
    allowed = after + replica_sets.max_surge(deployment(after)) if after else 0

    assert sizes == expected
    assert sum(sizes.values()) == allowed


def test_one_active_replica_set_takes_the_whole_scaling():
    """The only active replica set takes the scaling, the new one if none is active; several give none."""
    old, new = replica_set("old", 0), replica_set("new", 3)

    assert replica_sets.active_or_latest(new, [old]) is new
    assert replica_sets.active_or_latest(new, [replica_set("old", 1)]) is None
    assert replica_sets.active_or_latest(None, [replica_set("newer", 0, created=1), old]) is not old
    assert replica_sets.active_or_latest(None, []) is None


def test_a_template_that_comes_back_keeps_its_history():
    """The former revision is remembered, the deployment's own annotations are copied."""
    owner = {"metadata": {"name": "d", "annotations": {"why": "because", replica_sets.REVISION: "9"}}}
    again = replica_set("a", 0, revision=2)

    assert replica_sets.annotations_of_new(owner, again, 5) == {
        "why": "because",
        replica_sets.REVISION: "5",
        replica_sets.REVISION_HISTORY: "2",
    }


def test_only_finished_replica_sets_beyond_the_limit_are_cleaned_up():
    """Oldest revisions first; one that still has pods stays."""
    old = [
        replica_set("third", 0, revision=3, created=1),
        replica_set("first", 0, revision=1, created=3),
        replica_set("second", 1, revision=2, created=2),
    ]
    owner = {"spec": {"revisionHistoryLimit": 1}}

    assert [one["metadata"]["name"] for one in replica_sets.to_clean_up(owner, old)] == ["first"]


def test_equal_templates_have_equal_hashes():
    """In any order of fields; a collision gives another name."""
    one = {"metadata": {"labels": {"a": "b"}}, "spec": {"x": 1}}
    other = {"spec": {"x": 1}, "metadata": {"labels": {"a": "b"}}}

    assert template_hash(one, None) == template_hash(other, None)
    assert template_hash(one, None) != template_hash(one, 1)
    assert set(template_hash(one, None)) <= set("bcdfghjklmnpqrstvwxz2456789")


@pytest.mark.parametrize(("data", "value"), [(b"", 0x811C9DC5), (b"a", 0xE40C292C), (b"foobar", 0xBF9CF968)])
def test_fnv(data, value):
    """The published test vectors of 32-bit FNV-1a."""
    assert fnv1a(data) == value


def test_safe_encoding_makes_no_words():
    """Each digit is mapped into the alphabet of generated names."""
    assert len(safe_encode("4294967295")) == 10
    assert safe_encode("1") == "bcdfghjklmnpqrstvwxz2456789"[ord("1") % 27]
