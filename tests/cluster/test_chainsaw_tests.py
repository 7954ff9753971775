"""Tests of Chainsaw's own, on a cluster of which only a kubeconfig is known."""

import json
from pathlib import Path
from typing import Any

import pytest
from asking import Local

from kubeskew.conformance.matrix import of_scenarios

DATA = Path(__file__).parents[1] / "data" / "chainsaw"


@pytest.mark.cluster
@pytest.mark.xdist_group("cluster")
def test_a_folder_of_chainsaws_tests_runs_on_any_cluster(cluster: Any):
    """All hold but the one that is to fail, whose catch shows what there is; nothing of them stays."""
    arguments = ("--kubeconfig", str(cluster.kubeconfig), "-o", "json")
    done = cluster.run("run", str(DATA), *arguments, check=False)
    cells = {cell["name"]: cell for cell in json.loads(done.stdout)["cells"]}

    failures = {name: cell["failure"] for name, cell in cells.items() if cell["result"] != "passed"}
    assert failures == {
        "collecting": "step 1: assert: expected a ConfigMap as asserted; "
        "found ConfigMap collecting/found: data.foo: expected 'other', found 'bar'"
    }
    assert len(cells) == 9
    operations = cells["collecting"]["steps"][0]["operations"]
    shown = {(each["block"], each["kind"]): each["shown"] for each in operations}
    assert json.loads(shown["catch", "get"])["data"] == {"foo": "bar"}
    assert shown["catch", "describe"].endswith("\nEvents:\nnone")
    assert shown["finally", "command"] == "$ echo the end\nthe end"
    assert shown["cleanup", "script"] == "$ sh -c echo cleaned up\ncleaned up"

    made = {cell.bindings()["namespace"] for cell in of_scenarios([str(DATA)]).cells()}
    assert {"collecting", "example", "example-2", "given"} < made
    listed = Local(cluster.state).get("/api/v1/namespaces")["items"]
    assert {each["metadata"]["name"] for each in listed} & made == set()
