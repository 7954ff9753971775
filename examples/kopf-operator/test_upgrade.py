"""The operator through an upgrade of the cluster and back."""

from pathlib import Path

from kopf.testing import KopfRunner

OPERATOR = Path(__file__).with_name("settings.py")


def settings(name, **data):
    metadata = {"name": name}
    return {"apiVersion": "example.com/v1", "kind": "Settings", "metadata": metadata, "spec": {"data": data}}


def test_settings_are_kept_through_an_upgrade_and_back(kubeskew_cluster):
    """Settings of before, between and after the moves are kept, and none is made again."""
    cluster = kubeskew_cluster

    def await_kept(name, **data):
        cluster.eventually(lambda: cluster.client.get("v1", "ConfigMap", name)["data"] == data)

    with KopfRunner(["run", f"--namespace={cluster.namespace}", str(OPERATOR)], timeout=30) as operator:
        cluster.client.create(settings("before", color="red"))
        await_kept("before", color="red")

        cluster.upgrade("1.36")
        cluster.client.create(settings("between", color="green"))
        await_kept("between", color="green")

        cluster.downgrade("1.35")
        cluster.client.patch("example.com/v1", "Settings", "before", {"spec": {"data": {"color": "blue"}}})
        await_kept("before", color="blue")

    assert operator.exit_code == 0, operator.output
    assert cluster.events("configmaps", name="before", verb="delete") == []
    cluster.check()
