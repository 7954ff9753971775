"""`kubeskew history`, `diff` and `why` over a log that is written by hand."""

import asyncio
import json
from datetime import UTC, datetime

import orjson
import pytest

from kubeskew.apimachinery.clock import SystemClock
from kubeskew.apiserver.storage.records import Author, Change, ComponentEvent, Key, Verb
from kubeskew.apiserver.storage.sql_log import SQLLog
from kubeskew.cli import terminal
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


def test_a_story_is_reported(directory, capsys):
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
def test_what_is_not_there_is_reported_in_a_line(directory, capsys, arguments, message):
    """A resource, object or revision that is not there is wrong usage."""
    run(directory, *arguments, code=2)
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_a_compacted_revision_is_reported(directory, capsys):
    """`diff` and `events` say from which revision on there is a log; what `why` has left is no creation."""

    async def compact():
        log = await SQLLog.open(directory.storage_url, SystemClock())
        await log.compact(4)
        await log.close()

    asyncio.run(compact())
    run(directory, "diff", "3", "6", code=2)
    assert "revision 3 is compacted: the log begins after revision 4" in capsys.readouterr().err
    for bound in ("--since", "--until"):
        run(directory, "events", bound, "3", code=2)
        expected_error = f"kubeskew: {bound}: revision 3 is compacted: the log begins after revision 4\n"
        assert capsys.readouterr().err == expected_error
    run(directory, "events", "--until", "5")
    capsys.readouterr()
    run(directory, "why", "pod", "p")
    assert "wrote Pod p; the log of what it was before is compacted." in capsys.readouterr().out


def listed(directory, capsys, *arguments):
    run(directory, "events", *arguments, "-o", "json")
    return [row["revision"] for row in json.loads(capsys.readouterr().out)]


@pytest.mark.parametrize(
    ("arguments", "revisions"),
    [
        (["-n", "default"], [2, 4, 6]),
        (["--name", "w"], [3, 5]),
        (["--name", "*", "--verb", "update"], [4, 5]),
        (["--verb", "update,delete"], [4, 5, 6]),
        (["--verb", "create", "--verb", "delete", "pods"], [2, 6]),
        (["--user", "kubernetes-*"], [2, 3, 4, 5, 6]),
        (["--user", "nobody"], []),
        (["--component", "kubectl"], [2, 3, 4, 5, 6]),
        (["--component", "scheduler"], [6]),
        (["--verb", "started"], [6]),
        (["--since", "3", "--until", "5"], [4, 5]),
        (["--since", "1h", "--until", "0s"], [2, 3, 4, 5, 6, 6]),
        (["--until", "2020-01-01T00:00:00Z"], []),
        (["--since", "2020-01-01", "widgets"], [3, 5, 6]),
    ],
)
def test_events_are_chosen(directory, capsys, arguments, revisions):
    """Filters hold together; what happened to components is an event like others."""

    async def start():
        log = await SQLLog.open(directory.storage_url, SystemClock())
        await log.record(ComponentEvent(0, "scheduler", "started", "1.36", "", datetime.now(UTC)))
        await log.close()

    asyncio.run(start())
    assert listed(directory, capsys, *arguments) == revisions


@pytest.mark.parametrize(
    ("components", "messages"),
    [
        (["apiservr"], ["--component apiservr: nothing is of it; the cluster has apiserver; did you mean"]),
        (["apiserver"], []),
        (["kubelet*"], []),
        (["kubectl", "scheduler"], []),
        (["scheduler", "a"], ["--component scheduler: nothing is of it", "--component a: nothing is of it"]),
    ],
)
def test_a_component_that_is_none_is_reported(directory, capsys, components, messages):
    """Names of components that the cluster does not have are reported where nothing is listed for them."""
    run(directory, "events", *(part for name in components for part in ("--component", name)))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(messages)
    assert all(text in line for text, line in zip(messages, lines, strict=True))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["events", "--since", "7"], "revision 7 has not been written yet: the newest is 6"),
        (["events", "--since", "soon"], "--since soon: expected a revision (300), a time"),
        (["events", "--until", "25:00"], "--until 25:00: expected a revision"),
        (["events", "--since", "5", "--until", "4"], "nothing can be between them"),
        (["events", "--follow", "--until", "4"], "--follow does not end"),
        (["events", "--verb", "updat"], "--verb updat: known are create, update, "),
        (["diff", "2", "7"], "revision 7 has not been written yet: the newest is 6"),
        (["history", "pod", "q"], "the log has no pod default/q"),
        (
            ["history", "pod", "p", "-n", "other"],
            "the log has no pod other/p; there is one in default: say -n",
        ),
        (["history", "widget.example.com", "x"], "there is no resource widget.example.com"),
    ],
)
def test_wrong_filters_are_refused(directory, capsys, arguments, message):
    """A wrong filter, revision or name is reported in one line, with status 2."""
    run(directory, *arguments, code=2)
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("command", [["events"], ["history", "pod", "p"], ["diff", "2", "5"]])
def test_lines_fit_the_terminal(directory, capsys, monkeypatch, command):
    """Lines are no longer than the terminal is wide; what goes elsewhere is whole."""
    run(directory, *command)
    whole = capsys.readouterr().out
    monkeypatch.setattr(terminal, "width", lambda: 70)
    run(directory, *command)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 70
    assert "…" not in whole


def test_a_narrow_terminal_has_room_for_times_and_names(directory, capsys, monkeypatch):
    """A terminal of 80 columns shows whole what a row is known by: revision, time, verb, and the name."""
    run(directory, "events")
    header, *whole = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert header[-2:] == ["USER", "SERVER"]
    monkeypatch.setattr(terminal, "width", lambda: 80)
    run(directory, "events")
    header, *lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert header == ["REVISION", "TIME", "VERB", "OBJECT", "BY"]
    assert [line[:3] for line in lines] == [line[:3] for line in whole]
    assert [line[3:5] for line in lines] == [[line[3].split(".")[0], line[4]] for line in whole]


def test_differences_of_one_resource_are_listed(directory, capsys):
    """`diff` takes a resource and a namespace."""
    for arguments, expected in ((["widgets"], 1), (["pods", "-n", "default"], 1), (["pods", "-n", "x"], 0)):
        run(directory, "diff", "3", "5", *arguments, "-o", "json")
        assert len(json.loads(capsys.readouterr().out)) == expected
