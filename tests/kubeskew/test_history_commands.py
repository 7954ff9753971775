"""`kubeskew history`, `diff` and `why` over a log that is written by hand."""

import asyncio
import json
from datetime import UTC, datetime

import orjson
import pytest

from kubeskew.apimachinery.clock import SystemClock
from kubeskew.apiserver.storage.records import Author, Change, Key, Verb
from kubeskew.apiserver.storage.sql_log import SQLLog
from kubeskew.cli.main import main
from kubeskew.cluster.pki import Authority
from kubeskew.cluster.state import Process, State, StateDir

AUTHOR = Author("kubernetes-admin", "kubectl", "1.36", "1.35", "r-1")


def pod(**labels):
    return {"kind": "Pod", "metadata": {"name": "p", "namespace": "default", "uid": "u", "labels": labels}}


def widget(color):
    return {"kind": "Widget", "metadata": {"name": "w", "uid": "w"}, "spec": {"color": color}}


PODS, WIDGETS = Key("pods", "default", "p"), Key("widgets.example.com", "", "w")
WRITES = [  # revisions 2 to 6
    (Verb.CREATE, PODS, pod(a="1")),
    (Verb.CREATE, WIDGETS, widget("red")),
    (Verb.UPDATE, PODS, pod(a="2")),
    (Verb.UPDATE, WIDGETS, widget("blue")),
    (Verb.DELETE, PODS, pod(a="2")),
]


@pytest.fixture
def directory(tmp_path):
    """A state directory whose log has five writes of two objects."""
    directory = StateDir(tmp_path / "state")
    state = State(runtime_config={})
    state.processes["apiserver"] = Process("apiserver", "apiserver", "1.35", {}, 1)
    directory.save(state)
    directory.ca.write_bytes(Authority.create(datetime.now(UTC)).pair.certificate)
    directory.token.write_text("t")
    directory.database.parent.mkdir(parents=True, exist_ok=True)
    asyncio.run(write(directory))
    return directory


async def write(directory):
    log = await SQLLog.open(directory.storage_url, SystemClock())
    revisions = {}
    for verb, key, value in WRITES:
        change = Change(verb, key, "u", orjson.dumps(value), revisions.get(key, 0), AUTHOR, datetime.now(UTC))
        revisions[key] = (await log.append(change)).revision
    await log.close()


def run(directory, *arguments, code=0):
    with pytest.raises(SystemExit) as exited:
        main(["--state-dir", str(directory.path), *arguments])
    assert exited.value.code in ({0, None} if code == 0 else {code})


def test_every_write_of_an_object_is_listed_with_what_it_changed(directory, capsys):
    """`history` takes singular, plural, kind and short name, and names the fields that changed."""
    for resource in ("pod", "pods", "Pod", "po"):
        run(directory, "history", resource, "p")
        lines = capsys.readouterr().out.splitlines()
        assert [line.split()[0] for line in lines if line[0] != " "] == ["2", "4", "6"]
        assert "    metadata.labels.a: 1 → 2" in lines
    run(directory, "history", "pods", "p", "-o", "json")
    rows = json.loads(capsys.readouterr().out)
    assert [row["verb"] for row in rows] == ["create", "update", "delete"]
    assert rows[1]["patch"] == [{"op": "replace", "path": "/metadata/labels/a", "value": "2"}]
    assert (rows[1]["user"], rows[1]["server"]) == ("kubernetes-admin", "1.35")


def test_custom_resources_without_namespace_are_found(directory, capsys):
    """`history` knows custom resources by the plural that the log has."""
    run(directory, "history", "widgets", "w", "-o", "json")
    assert [row["revision"] for row in json.loads(capsys.readouterr().out)] == [3, 5]


@pytest.mark.parametrize(
    ("revisions", "expected"),
    [
        ((2, 6), [("-", "pods"), ("+", "widgets.example.com")]),
        ((3, 5), [("~", "pods"), ("~", "widgets.example.com")]),
        ((6, 3), [("+", "pods"), ("~", "widgets.example.com")]),
        ((4, 4), []),
    ],
)
def test_two_revisions_are_compared(directory, capsys, revisions, expected):
    """`diff` lists objects that came, went or changed on the way from one revision to the other."""
    run(directory, "diff", *map(str, revisions), "-o", "json")
    assert [(row["what"], row["resource"]) for row in json.loads(capsys.readouterr().out)] == expected


def test_a_story_is_told(directory, capsys):
    """`why` finds a pod by its name alone, and says who did what."""
    run(directory, "why", "p")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(maxsplit=2)[2] for line in lines] == [
        "kubectl 1.36 as kubernetes-admin created Pod p.",
        "kubectl 1.36 as kubernetes-admin changed Pod p: metadata.labels.a: 1 → 2.",
        "kubectl 1.36 as kubernetes-admin removed Pod p.",
    ]
    run(directory, "why", "pod/p", "-o", "json")
    assert json.loads(capsys.readouterr().out)[0]["text"] == "kubectl 1.36 as kubernetes-admin created Pod p."


@pytest.mark.parametrize(("name", "revisions"), [("po", [2, 4, 6]), ("Pod", [2, 4, 6]), ("widgets", [3, 5])])
def test_events_of_one_resource_are_listed(directory, capsys, name, revisions):
    """`events` takes a resource as kubectl does: by short name, kind, or a custom resource's plural."""
    run(directory, "events", name, "-o", "json")
    assert [row["revision"] for row in json.loads(capsys.readouterr().out) if row["object"]] == revisions


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["history", "pods", "q"], "the log has no pods default/q"),
        (["history", "podz", "p"], "there is no resource podz; did you mean pod?"),
        (["history", "events", "p"], "the log has no events default/p"),
        (["events", "podz"], "there is no resource podz; did you mean pod?"),
        (["diff", "2", "7"], "revision 7 has not been written yet: the newest is 6"),
        (["why", "nobody"], "the log has no pod and no resourceclaim default/nobody"),
        (["why", "pod", "nobody"], "the log has no pods default/nobody"),
    ],
)
def test_what_is_not_there_is_told_in_a_line(directory, capsys, arguments, message):
    """A resource, object or revision that is not there is wrong usage."""
    run(directory, *arguments, code=2)
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_a_compacted_revision_is_told(directory, capsys):
    """`diff` says from which revision on there is a log."""

    async def compact():
        log = await SQLLog.open(directory.storage_url, SystemClock())
        await log.compact(4)
        await log.close()

    asyncio.run(compact())
    run(directory, "diff", "3", "6", code=2)
    assert "revision 3 is compacted: the log begins after revision 4" in capsys.readouterr().err
