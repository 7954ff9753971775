"""A damaged store through the command line: `up` says what is wrong, `replay` shows it, `repair` mends it."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from asking import Local, advised, config_map

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(400)]

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def stopped(tmp_path: Path) -> Iterator[Local]:
    """A cluster that is down and has the config map `settings`."""
    local = Local(tmp_path / "state")
    local.run("up", "--nodes", "0")
    local.create(MAPS, config_map("settings"))
    local.run("down")
    yield local
    local.run("down", "--purge")


def sql(local: Local, statement: str) -> None:
    """Run one statement on the database, as nobody should."""
    with closing(sqlite3.connect(local.state / "data" / "log.db", isolation_level=None)) as raw:
        raw.execute(statement)


def revision(local: Local) -> int:
    """The revision of the config map."""
    with closing(sqlite3.connect(local.state / "data" / "log.db")) as raw:
        query = "SELECT revision FROM objects WHERE name = 'settings'"
        return int(raw.execute(query).fetchone()[0])


def test_a_damaged_object_is_reported_shown_and_repaired(stopped: Local) -> None:
    """`up` and `replay` exit with 1 and name key and revision; after the repair everything is as it was."""
    at = revision(stopped)
    assert "The log replays to the table of objects." in stopped.run("replay").stdout
    healthy = json.loads(stopped.run("replay", "-o", "json").stdout)
    assert healthy["equal"]
    sql(stopped, "UPDATE objects SET value = replace(value, 'settings', 'sextings') WHERE name = 'settings'")

    text = stopped.run("up", code=1).stderr
    wrong = f"configmaps default/settings is not in the table of objects as the log has it at revision {at}"
    assert f"apiserver cannot run: the store is damaged: {wrong}" in text
    assert f"{advised(stopped.state, 'repair --from-log')} rebuilds the table of objects from the log" in text
    stopped.run("down")
    assert wrong in stopped.run("replay", code=1).stdout
    document = json.loads(stopped.run("replay", "-o", "json", code=1).stdout)
    (difference,) = document["differences"]
    assert (difference["name"], difference["revision"]) == ("settings", at)
    assert document["replayed"] == healthy["replayed"] != document["projection"]

    assert "Lost for good" not in stopped.run("repair", "--from-log").stdout
    stopped.run("up")
    assert stopped.get(f"{MAPS}/settings")["data"] == config_map("settings")["data"]
    assert f"stop it with {advised(stopped.state, 'down')} first" in stopped.refused(
        "repair", "--from-log", code=1
    )
    assert json.loads(stopped.run("replay", "-o", "json").stdout)["equal"]


def test_a_lost_tail_is_reported_and_its_revisions_are_not_given_again(stopped: Local) -> None:
    """`up` says how far the log had come; the repair shows what is gone, and counts on from there."""
    with closing(sqlite3.connect(stopped.state / "data" / "log.db")) as raw:
        newest = int(raw.execute("SELECT max(revision) FROM events").fetchone()[0])
    sql(stopped, f"DELETE FROM events WHERE revision > {newest - 3}")

    text = stopped.run("up", code=1).stderr
    assert f"the log ends at revision {newest - 3}, though {newest} was committed" in text
    stopped.run("down")
    repaired = json.loads(stopped.run("repair", "--from-log", "-o", "json").stdout)
    assert [lost["details"] for lost in repaired["lost"]] == [f"events {newest - 2} to {newest} are gone"]
    stopped.run("up")
    made = stopped.create(MAPS, config_map("next"))
    assert int(made["metadata"]["resourceVersion"]) > newest
    assert f"lost before a repair: {newest - 2}-{newest}" in stopped.run("replay").stdout


def test_files_removed_under_a_cluster_end_its_writes(stopped: Local) -> None:
    """No create is answered with 201, nor is the server ready; the log's loss shows at the next start."""
    stopped.run("up")
    for file in (stopped.state / "data").glob("log.db*"):
        if not file.name.endswith("-mark"):
            file.unlink()

    status, answer = stopped.ask("POST", MAPS, config_map("next"))
    assert status == 500
    assert "was removed or replaced while the server ran" in answer["message"]
    assert stopped.states()["apiserver"] == "NotReady"
    stopped.run("down")
    assert "log.db is gone, though revision" in stopped.run("up", code=1).stderr
