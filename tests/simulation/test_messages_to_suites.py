"""Tests what pytest says to a suite with the fixture `simulated_cluster` of a test that cannot be."""

import pytest

pytest_plugins = ("pytester",)

SUITE = """
async def test_a_coroutine(simulated_cluster): ...


def test_a_story(simulated_cluster):
    cluster = simulated_cluster(nodes=[])

    async def story():
        await cluster.upgrade("1.99")

    cluster.run(story())


def test_a_key(simulated_cluster):
    simulated_cluster(versoin="1.35")
"""


def test_what_cannot_be_is_reported_at_the_lines_of_the_test(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
):
    """The error of a coroutine says how to write it; what a cluster refuses is shown without kubeskew's
    frames."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeini("[pytest]")
    pytester.makepyfile(SUITE)
    done = pytester.runpytest_subprocess("-p", "kubeskew.simulation.pytest_plugin")

    done.assert_outcomes(failed=3)
    done.stdout.fnmatch_lines(
        [
            "simulated_cluster: this test is a coroutine, which no plugin of pytest here runs: write *",
            '>  *await cluster.upgrade("1.99")',
            "E  *UserError: version 1.99 is not supported: choose one from *",
            '>  *simulated_cluster(versoin="1.35")',
            "E  *UserError: the simulated cluster: unknown key 'versoin'; *did you mean version?",
        ]
    )
    done.stdout.no_fnmatch_line("*kubeskew/*.py:*")
    done.stdout.no_fnmatch_line("*direct cause*")
