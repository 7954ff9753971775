"""Replica sets give up the right pods first, and pods count as available at the right moment."""

from datetime import UTC, datetime

import pytest

from kubeskew.apimachinery.clock import timestamp
from kubeskew.controllers.framework import pods

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def pod(name, *, node="n", phase="Running", ready=3600, age=7200, restarts=0, cost=None):
    """`ready` and `age` in seconds before now; ready=None is not ready."""
    since = timestamp(datetime.fromtimestamp(NOW.timestamp() - (ready or 0), UTC))
    status = {
        "type": "Ready",
        "status": "True" if ready is not None else "False",
        "lastTransitionTime": since,
    }
    return {
        "metadata": {
            "name": name,
            "uid": name,
            "creationTimestamp": timestamp(datetime.fromtimestamp(NOW.timestamp() - age, UTC)),
            "annotations": {pods.DELETION_COST: cost} if cost else {},
        },
        "spec": {"nodeName": node},
        "status": {
            "phase": phase,
            "conditions": [status],
            "containerStatuses": [{"name": "c", "restartCount": restarts}],
        },
    }


@pytest.mark.parametrize(
    ("goes", "stays"),
    [
        pytest.param(pod("z", node=""), pod("a"), id="unassigned"),
        pytest.param(pod("z", phase="Pending"), pod("a"), id="pending"),
        pytest.param(pod("z", phase="Unknown"), pod("a"), id="unknown"),
        pytest.param(pod("z", ready=None), pod("a"), id="not-ready"),
        pytest.param(pod("z", cost="-5"), pod("a"), id="cheap"),
        pytest.param(pod("z"), pod("a", cost="10"), id="other-is-expensive"),
        pytest.param(pod("z", node="crowded"), pod("a"), id="crowded-node"),
        pytest.param(pod("z", ready=10), pod("a"), id="ready-recently"),
        pytest.param(pod("z", restarts=3), pod("a"), id="restarted"),
        pytest.param(pod("z", age=3700), pod("a", age=72000), id="younger"),
        pytest.param(pod("a"), pod("z"), id="by-uid-in-the-end"),
        pytest.param(pod("z", ready=None, cost="100"), pod("a", cost="-100"), id="readiness-before-cost"),
    ],
)
def test_who_goes_first(goes, stays):
    """Upstream's ranking, criterion by criterion."""
    order = pods.deletion_order([stays, goes], {"crowded": 3, "n": 1}, NOW)

    assert [one["metadata"]["name"] for one in order] == [
        goes["metadata"]["name"],
        stays["metadata"]["name"],
    ]


@pytest.mark.parametrize(
    ("text", "cost"),
    [("5", 5), ("-7", -7), ("+5", 0), ("05", 0), ("", 0), ("x", 0), ("2147483648", 0), ("-0", 0)],
)
def test_deletion_costs_are_strict_integers(text, cost):
    """A deletion cost that is not a plain 32-bit integer counts as zero."""
    assert pods.deletion_cost(pod("p", cost=text)) == cost


@pytest.mark.parametrize(
    ("made", "wait", "left"),
    [
        pytest.param(pod("p", ready=None), 0, None, id="not-ready"),
        pytest.param(pod("p", ready=5), 0, 0, id="no-wait"),
        pytest.param(pod("p", ready=5), 30, 25, id="waiting"),
        pytest.param(pod("p", ready=45), 30, 0, id="waited"),
    ],
)
def test_availability_takes_time(made, wait, left):
    """Ready for minReadySeconds."""
    assert pods.available_in(made, wait, NOW) == left


@pytest.mark.parametrize(
    ("status", "deleted", "active"),
    [
        ("Running", False, True),
        ("Succeeded", False, False),
        ("Failed", False, False),
        ("Running", True, False),
    ],
)
def test_active_pods_count_as_replicas(status, deleted, active):
    """A pod counts as active if it has neither ended nor is on its way out."""
    made = pod("p", phase=status)
    if deleted:
        made["metadata"]["deletionTimestamp"] = timestamp(NOW)

    assert pods.is_active(made) is active
