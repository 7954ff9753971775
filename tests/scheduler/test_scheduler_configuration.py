"""KubeSchedulerConfiguration: what a file says, what it may not say, and what profiles follow from it."""

import asyncio
import textwrap

import pytest
from scheduling_cluster import Cluster, running

from kubeskew.scheduler.configuration import read
from kubeskew.scheduler.framework.profile import ProfileError
from kubeskew.scheduler.settings import ConfigurationError, parse_duration

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def _read(text):
    return read((HEAD + textwrap.dedent(text)).encode())


def test_defaults_are_upstreams():
    """A file with nothing in it changes nothing."""
    settings = _read("")

    assert [profile.scheduler_name for profile in settings.profiles] == ["default-scheduler"]
    assert settings.backoff.seconds(1) == 1.0
    assert settings.leader_election.resource_name == "kube-scheduler"
    assert settings.leader_election.timing.lease_duration == 15.0


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param("foo: 1", 'strict decoding error: unknown field "foo"', id="unknown"),
        pytest.param(
            "parallelism: 0",
            "parallelism: Invalid value: 0: should be an integer value greater than zero",
            id="parallelism",
        ),
        pytest.param(
            "percentageOfNodesToScore: 101",
            "percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",
            id="percentage",
        ),
        pytest.param(
            "profiles: [{schedulerName: a}, {schedulerName: a}]",
            'profiles[1].schedulerName: Duplicate value: "a"',
            id="twice",
        ),
        pytest.param(
            "profiles: [{schedulerName: a}, {}]", "profiles[1].schedulerName: Required value", id="nameless"
        ),
        pytest.param(
            "podInitialBackoffSeconds: 5\npodMaxBackoffSeconds: 2",
            "podMaxBackoffSeconds: Invalid value: 2: must be greater than or equal to "
            "PodInitialBackoffSeconds",
            id="backoff",
        ),
        pytest.param(
            "leaderElection: {leaseDuration: 15x}", 'time: unknown unit "x" in duration "15x"', id="duration"
        ),
    ],
)
def test_files_that_are_refused(text, error):
    """Each mistake is reported in upstream's words."""
    with pytest.raises(ConfigurationError) as raised:
        _read(text)
    assert str(raised.value) == error


def test_durations():
    """Go's notation."""
    assert parse_duration("1m30s") == 90.0
    assert parse_duration("250ms") == 0.25


def _points(text):
    profile = next(iter(Cluster(settings=_read(text)).service.scheduler.profiles.values()))
    return {
        "filter": [plugin.name for plugin in profile.filters],
        "score": [plugin.name for plugin in profile.scores],
        "postFilter": [plugin.name for plugin in profile.post_filters],
    }


async def test_a_plugin_can_be_taken_away_everywhere_or_at_one_point():
    """`disabled` under multiPoint and under an extension point."""
    points = _points(
        """
        profiles:
        - plugins:
            multiPoint: {disabled: [{name: NodePorts}]}
            score: {disabled: [{name: NodeAffinity}]}
            postFilter: {disabled: [{name: "*"}]}
        """
    )

    assert "NodePorts" not in points["filter"]
    assert "NodeAffinity" in points["filter"]
    assert "NodeAffinity" not in points["score"]
    assert points["postFilter"] == []


async def test_what_is_enabled_at_a_point_comes_first():
    """A plugin of multiPoint that is named again goes to the front, with the weight given there."""
    points = _points(
        """
        profiles:
        - plugins:
            score: {enabled: [{name: NodeResourcesBalancedAllocation, weight: 7}]}
        """
    )

    assert points["score"][0] == "NodeResourcesBalancedAllocation"
    assert len(set(points["score"])) == len(points["score"])


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param(
            "profiles: [{plugins: {filter: {enabled: [{name: Foo}]}}}]",
            'FilterPlugin "Foo" does not exist',
            id="unknown-plugin",
        ),
        pytest.param(
            "profiles: [{plugins: {bind: {disabled: [{name: '*'}]}}}]",
            "at least one bind plugin is needed",
            id="no-bind",
        ),
    ],
)
async def test_profiles_that_make_no_scheduler(text, error):
    """Profiles that make no scheduler are refused before the first pod."""
    with pytest.raises(ProfileError, match=error):
        Cluster(settings=_read(text))


@pytest.mark.looptime
async def test_two_profiles_share_nodes_and_leave_other_pods_alone():
    """Each pod is scheduled by the profile that it names; one that names another scheduler waits."""
    settings = _read("profiles: [{schedulerName: default-scheduler}, {schedulerName: second}]")
    async with running(Cluster(settings=settings)) as cluster:
        await cluster.node()
        await cluster.pod("a", {"cpu": "1"})
        await cluster.pod("b", {"cpu": "1"}, schedulerName="second")
        await cluster.pod("c", {"cpu": "1"}, schedulerName="third")

        assert await cluster.node_of("a") == "n0"
        assert await cluster.node_of("b") == "n0"
        await asyncio.sleep(5)
        assert "nodeName" not in (await cluster.read("c"))["spec"]
        assert 'scheduler_schedule_attempts_total{profile="second",result="scheduled"} 1.0' in (
            cluster.metrics()
        )


@pytest.mark.looptime
async def test_added_affinity_holds_for_all_pods_of_a_profile():
    """NodeAffinityArgs keep a profile's pods on some of the nodes."""
    settings = _read(
        """
        profiles:
        - pluginConfig:
          - name: NodeAffinity
            args:
              addedAffinity:
                requiredDuringSchedulingIgnoredDuringExecution:
                  nodeSelectorTerms:
                  - matchExpressions: [{key: zone, operator: In, values: [b]}]
        """
    )
    async with running(Cluster(settings=settings)) as cluster:
        await cluster.node("a", labels={"zone": "a"})
        await cluster.pod()
        assert "1 node(s) didn't match scheduler-enforced node affinity" in (await cluster.message())[1]
        await cluster.node("b", labels={"zone": "b"})

        assert await cluster.node_of() == "b"
