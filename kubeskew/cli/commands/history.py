"""`kubeskew history`, `diff` and `why`, which read the past from the log."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import click
import orjson

from kubeskew.apimachinery.known_names import did_you_mean
from kubeskew.apiserver.storage.etcd.keys import OPAQUE, opaque_value
from kubeskew.apiserver.storage.interfaces import StorageError
from kubeskew.apiserver.storage.records import EMPTY_REVISION, Event, Key, Verb
from kubeskew.apiserver.storage.sql_log import LogReader
from kubeskew.cli import completion, terminal
from kubeskew.cli.commands.options import (
    output_option,
    print_json,
    run_async,
    state_dir_option,
)
from kubeskew.cli.events import resource_of
from kubeskew.cli.terminal import echo
from kubeskew.cluster.failures import ClusterError, UserError
from kubeskew.cluster.revisions import check_kept
from kubeskew.cluster.state import StateDir
from kubeskew.conformance.evidence.changes import changes, patch
from kubeskew.conformance.evidence.log import Logged, Write
from kubeskew.conformance.evidence.node_files import node_records
from kubeskew.conformance.evidence.rows import evidence
from kubeskew.conformance.evidence.secrets import masked, shown
from kubeskew.conformance.evidence.story import CLAIMS, Sentence, story

_NARROW = 60  # least columns of a change

namespace_option = click.option(
    "-n",
    "--namespace",
    default="default",
    show_default=True,
    help="Namespace of the object; ignored for cluster-scoped ones.",
)


@click.command()
@state_dir_option
@output_option
@namespace_option
@click.argument("resource", shell_complete=completion.resources)
@click.argument("name")
def history(directory: StateDir, output: str, namespace: str, resource: str, name: str) -> None:
    """Show every write of one object that the log has: when, by whom, and what it changed.

    \b
    kubeskew history pod web-0
    kubeskew history resourceclaims gpu -n tests -o json
    """
    directory.load()
    log = _log(directory)
    writes = _writes(log, _place(log, resource, namespace, name))
    if not writes:
        raise UserError(_absent(log, resource, namespace, name))
    rows = [*_history(writes)]
    if output == "json":
        print_json(rows)
        return
    for row in rows:
        echo(f"{row['revision']}  {row['time'][11:23]}  {row['verb']} by {row['by']}{_through(row)}")
        for change in row["changes"]:
            echo(_fitting(f"    {change}"))


def _history(writes: Sequence[Write]) -> list[dict[str, Any]]:
    before: Mapping[str, Any] | None = None
    rows = []
    for write in writes:
        after = None if write.verb == "delete" else write.value
        found = changes(before, after) if before is not None and after is not None else []
        rows.append(
            {
                "revision": write.revision,
                "time": write.time,
                "verb": write.verb,
                "by": write.by,
                "user": write.user,
                "server": write.server,
                "changes": [str(each) for each in found],
                "patch": patch(before, after) if found else [],
                "object": dict(shown(write.value)),
            }
        )
        before = after
    return rows


def _through(row: Mapping[str, Any]) -> str:
    return f" through API server {row['server']}" if row["server"] else ""


@click.command()
@state_dir_option
@output_option
@click.argument("old", type=click.IntRange(0), metavar="REV")
@click.argument("new", type=click.IntRange(0), metavar="REV")
@click.argument("resource", required=False)
@click.option("-n", "--namespace", help="Only objects of this namespace.")
def diff(
    directory: StateDir, output: str, old: int, new: int, resource: str | None, namespace: str | None
) -> None:
    """Show what differs between the cluster's objects at two revisions.

    Exits 0 whether or not something differs. Leases and Events are objects like others; RESOURCE limits it to
    one kind.

    \b
    kubeskew diff 120 180
    kubeskew diff 120 180 pods -n default
    kubeskew diff 120 180 -o json
    """
    directory.load()
    try:
        rows = run_async(_differences(directory, old, new, resource, namespace))
    except StorageError as error:
        raise ClusterError(f"cannot read the log: {error}") from error
    if output == "json":
        print_json(rows)
        return
    for row in rows:
        place = "/".join(filter(None, (row["namespace"], row["name"])))
        echo(f"{row['what']} {row['resource']} {place}")
        for change in row["changes"]:
            echo(_fitting(f"    {change}"))
    differ = "1 object differs" if len(rows) == 1 else f"{len(rows)} objects differ"
    echo(f"{differ} between revision {old} and revision {new}.", err=True)


async def _differences(
    directory: StateDir, old: int, new: int, resource: str | None, namespace: str | None
) -> list[dict[str, Any]]:
    """A revision that the log does not have is a UserError."""
    first, last = sorted((old, new))
    async with await LogReader.open(directory.storage_url) as reader:
        if resource is not None:
            resource = resource_of(resource, await reader.resources())
        for revision in (last, first):
            await check_kept(reader, max(revision, EMPTY_REVISION))
        at_first: dict[Key, Event] = {}
        later: dict[Key, Event] = {}
        async for event in reader.remaining():
            if event.revision > last:
                break
            if resource not in (None, event.key.resource):
                continue
            if namespace is not None and event.key.namespace != namespace:
                continue
            (at_first if event.revision <= first else later)[event.key] = event
    rows = []
    for key in sorted(later):
        before, after = _value(at_first.get(key)), _value(later[key])
        if old > new:
            before, after = after, before
        found = changes(before, after)
        if found:
            what = "+" if before is None else "-" if after is None else "~"
            listed = [str(each) for each in found] if what == "~" else []
            place = {"resource": key.resource, "namespace": key.namespace, "name": key.name}
            old_state, new_state = masked(before, after)
            rows.append({"what": what, **place, "changes": listed, "before": old_state, "after": new_state})
    return rows


def _value(event: Event | None) -> Any:
    """None after a deletion."""
    if event is None or event.verb is Verb.DELETE:
        return None
    return opaque_value(event.value) if event.key.resource == OPAQUE else orjson.loads(event.value)


@click.command()
@state_dir_option
@output_option
@namespace_option
@click.argument("what", shell_complete=completion.resources)
@click.argument("name", required=False)
def why(directory: StateDir, output: str, namespace: str, what: str, name: str | None) -> None:
    """Explain one pod, claim or other object: which component changed it, and why.

    WHAT is the name of a pod or a claim, or a resource followed by NAME.

    \b
    kubeskew why web-0
    kubeskew why resourceclaim gpu -n tests
    kubeskew why deployment/web -o json
    """
    directory.load()
    log = _log(directory)
    kind, slash, rest = what.partition("/")
    if slash and name is None:
        what, name = kind, rest
    place = _place(log, what, namespace, name) if name else _pod_or_claim(log, namespace, what)
    if not _writes(log, place):
        raise UserError(f"the log has no {place[0]} {'/'.join(filter(None, place[1:]))}")
    found = _with_refusals(directory, log, place, story(log, node_records(directory), *place))
    if output == "json":
        fields = ("revision", "time", "text", "because")
        print_json([{name: getattr(sentence, name) for name in fields} for sentence in found])
        return
    for sentence in found:
        echo(_line(sentence))


def _with_refusals(
    directory: StateDir, log: Sequence[Logged], place: tuple[str, str, str], sentences: Sequence[Sentence]
) -> list[Sentence]:
    """Each failed attempt to schedule the pod gets the plugins that refused it, and the nodes."""
    from kubeskew.cli.rejections import refusals

    config = directory.load().runtime_config

    async def asked() -> list[Sentence]:
        async with await LogReader.open(directory.storage_url) as reader:
            found = []
            for sentence in sentences:
                if sentence.waits and not sentence.because:
                    before = sentence.revision - 1
                    why = "; ".join(await refusals(reader, log, config, before, (place[1], place[2])))
                    sentence = replace(sentence, because=why)
                found.append(sentence)
            return found

    if place[0] != "pods" or not any(sentence.waits for sentence in sentences):
        return [*sentences]
    return run_async(asked())


def _line(sentence: Sentence) -> str:
    revision = str(sentence.revision or "")
    because = f"\n{'':23}because {sentence.because}" if sentence.because else ""
    return f"{sentence.time[11:23]}  {revision:>7}  {sentence.text}{because}"


def _pod_or_claim(log: Sequence[Logged], namespace: str, name: str) -> tuple[str, str, str]:
    """Pods come first; the claim of that name is the answer if there never was a pod."""
    for resource in ("pods", CLAIMS):
        place = (resource, namespace, name)
        if _writes(log, place):
            return place
    raise UserError(
        f"the log has no pod and no resourceclaim {namespace}/{name}; say -n NAMESPACE for another one"
    )


# -- shared


def _log(directory: StateDir) -> list[Logged]:
    async def read() -> list[Logged]:
        async with await LogReader.open(directory.storage_url) as reader:
            return await evidence(reader.events())

    try:
        return run_async(read())
    except StorageError as error:
        raise ClusterError(f"cannot read the log: {error}") from error


def _place(log: Sequence[Logged], resource: str, namespace: str, name: str) -> tuple[str, str, str]:
    """Names are those of the log; cluster-scoped resources have no namespace."""
    writes = [entry for entry in log if isinstance(entry, Write)]
    found = resource_of(resource, {write.resource for write in writes})
    spaces = {write.namespace for write in writes if write.resource == found}
    return found, "" if spaces == {""} else namespace, name


def _absent(log: Sequence[Logged], resource: str, namespace: str, name: str) -> str:
    """Namespaces with an object of that name are in the message."""
    kind, _, _ = _place(log, resource, namespace, name)
    own = [entry for entry in log if isinstance(entry, Write) and entry.resource == kind]
    spaces = sorted({entry.namespace for entry in own if entry.name == name and entry.namespace})
    place = "" if own and not any(entry.namespace for entry in own) else f"{namespace}/"
    elsewhere = f"; there is one in {', '.join(spaces)}: say -n" if spaces else ""
    names = sorted({entry.name for entry in own if entry.namespace in ("", namespace)})
    return f"the log has no {resource} {place}{name}{elsewhere or did_you_mean(name, names)}"


def _writes(log: Sequence[Logged], place: tuple[str, str, str]) -> list[Write]:
    return [
        entry
        for entry in log
        if isinstance(entry, Write) and (entry.resource, entry.namespace, entry.name) == place
    ]


def _fitting(line: str) -> str:
    """Narrow terminals get at least _NARROW columns."""
    limit = terminal.width()
    return line if limit is None else terminal.cut(line, max(limit, _NARROW))
