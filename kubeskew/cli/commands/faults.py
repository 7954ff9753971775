"""`kubeskew fault`: faults in components of the cluster, and their effects."""

from collections.abc import Callable
from typing import Any

import click

from kubeskew.apimachinery.faults.fault import FaultReport
from kubeskew.apimachinery.faults.keys import CODES
from kubeskew.apimachinery.faults.syntax import ALL
from kubeskew.apimachinery.go_formats import parse_duration
from kubeskew.cli import completion
from kubeskew.cli.commands.options import change, output_option, print_json, print_table, state_dir_option
from kubeskew.cluster.failures import ClusterError, UserError
from kubeskew.cluster.state import StateDir

COLUMNS = ["ID", "COMPONENT", "FAULT", "CALLS", "FIRED", "STATE"]
_SET = "set"

Command = Callable[..., Any]


class FaultGroup(click.Group):
    """A component in place of a command means `set`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = [_SET, *args]
        return super().resolve_command(ctx, args)


@click.group(cls=FaultGroup, subcommand_metavar="COMPONENT [OPTIONS] | list | await ID | clear ID")
def fault() -> None:
    """Inject faults into a component: errors, lost answers, delays, crashes, outages.

    Options choose calls of the component to the API server, and what goes wrong with them. A fault stays
    until it has fired as often as --nth or --times says, or is cleared; a restart of its component does not
    end it. `kubeskew events` shows when it was set and what it did. `kubeskew fault set --help` has all
    options.

    \b
    kubeskew fault scheduler --verb update --resource resourceclaims/status --nth 1 --answer 409
    kubeskew fault scheduler --verb create --resource pods/binding --drop answer --id lost-binding
    kubeskew fault controller-manager --resource resourceclaims --crash after --nth 2
    kubeskew fault kubelet/node-1 --resource pods --stale 5s
    kubeskew fault driver/gpu.example.com --outage 5s       its plugins, and its controller if it has one
    kubeskew fault apiserver --user kubernetes-admin --delay 200ms
    kubeskew fault apiserver --outage 5s
    kubeskew fault list
    kubeskew fault await lost-binding
    kubeskew fault clear all
    """


def _selecting(command: Command) -> Command:
    """These options choose calls (--verb, --resource, …), and which of them fail (--nth, …)."""
    options: dict[str, dict[str, Any]] = {
        "--verb": {
            "multiple": True,
            "help": "Only calls of this verb: get, list, watch, create, update, patch, delete, …; "
            "repeatable.",
        },
        "--resource": {
            "help": "Only calls for this resource: PLURAL, PLURAL.GROUP or PLURAL/SUBRESOURCE [default: "
            "all but "
            "leases and events]."
        },
        "--subresource": {"help": "Only calls for this subresource, such as status; * is any."},
        "--namespace": {"help": "Only calls for objects of this namespace."},
        "--name": {"help": "Only calls for objects of this name."},
        "--user": {
            "help": "For a fault of the API server: only requests of this user. For one of the controller "
            "manager: "
            "only calls of this controller."
        },
        "--event": {
            "help": "Fail at an event of a watch instead of at a call: ADDED, MODIFIED, DELETED, BOOKMARK "
            "or * "
            "for any."
        },
        "--nth": {
            "type": int,
            "help": "Fire at the N-th of these calls; at that one only, unless --times or --for is given.",
        },
        "--every": {"type": int, "help": "Fire at every N-th of these calls."},
        "--probability": {"type": float, "help": "Fire at some of these calls, with this probability."},
        "--seed": {"type": int, "help": "With --probability: the same seed chooses the same calls."},
        "--times": {"type": int, "help": "Fire this often at most."},
        "--for": {"help": "Stop this long after it has first fired, such as 5s."},
    }
    for flag, settings in options.items():
        command = click.option(flag, **settings)(command)
    return command


def _effects(command: Command) -> Command:
    options: dict[str, dict[str, Any]] = {
        "--answer": {
            "type": int,
            "help": f"Answer the call with this error: {', '.join(map(str, CODES))}.",
        },
        "--message": {"help": "With --answer: the error's message, instead of the usual one."},
        "--retry-after": {
            "type": int,
            "help": "With --answer: the seconds of the header Retry-After [default for 429: 1].",
        },
        "--drop": {
            "help": "Lose the request (the call is not done), the answer (it is done, and the component "
            "cannot know), "
            "or the connection of a watch: request, answer or connection."
        },
        "--delay": {"help": "Delay the call, by 200ms for example, or by a random time: 10ms..2s."},
        "--stale": {"help": "Hold back the events of a watch, for 5s for example; true: until cleared."},
        "--crash": {
            "help": "Crash before or after the write: before or after. An API server crashes before or "
            "after it "
            "commits the write."
        },
        "--outage": {
            "help": "Cut the component off from the API server, or take the API server itself away, for "
            "5s for "
            "example; true: until cleared; hang: the API server takes requests and does not answer."
        },
        "--lost-lease": {
            "is_flag": True,
            "default": None,
            "help": "The component cannot renew its lease, so that it loses leadership.",
        },
        "--id": {"help": "A name for the fault, for `await` and `clear` [default: one is made]."},
    }
    for flag, settings in options.items():
        command = click.option(flag, **settings)(command)
    return command


@fault.command(_SET)
@state_dir_option
@click.argument("component", shell_complete=completion.components)
@_selecting
@_effects
def set_fault(directory: StateDir, component: str, **given: Any) -> None:
    """Set a fault of a component, and print its id.

    `kubeskew fault COMPONENT …` is short for it. One option says what goes wrong: --answer, --drop, --delay,
    --stale, --crash, --outage or --lost-lease. The others choose calls, and how often the fault fires.

    \b
    kubeskew fault scheduler --verb patch --resource pods/status --probability 0.1 --seed 7 --answer 500
    kubeskew fault controller-manager --verb watch --resource resourceclaims --event '*' --answer 410 --nth 1
    kubeskew fault scheduler --lost-lease --for 12s
    """
    from kubeskew.cluster.faults import ClusterFaults

    body = {"component": component, **_body(given)}
    (name,) = change(directory, lambda cluster: ClusterFaults(cluster).set(body))
    click.echo(name)


def _body(given: dict[str, Any]) -> dict[str, Any]:
    """Keys and values are those of a scenario's `fault`."""
    body = {name: value for name, value in given.items() if value not in (None, ())}
    if "verb" in body:
        body["verb"] = list(body["verb"])
    for flag, key in {"retry_after": "retryAfter", "lost_lease": "lostLease"}.items():
        if flag in body:
            body[key] = body.pop(flag)
    for key in ("stale", "outage"):
        if body.get(key) == "true":
            body[key] = True
    if ".." in str(body.get("delay")):
        low, _, high = body["delay"].partition("..")
        body["delay"] = {"min": low, "max": high}
    return body


@fault.command("list")
@state_dir_option
@output_option
def list_faults(directory: StateDir, output: str) -> None:
    """List the faults, the calls that each selected, and how often it fired.

    \b
    kubeskew fault list
    kubeskew fault list -o json
    """
    from kubeskew.cluster.faults import ClusterFaults

    _print(change(directory, lambda cluster: ClusterFaults(cluster).current()), output)


@fault.command("clear")
@state_dir_option
@output_option
@click.argument("name", metavar="ID|all")
def clear(directory: StateDir, output: str, name: str) -> None:
    """Clear a fault, or all of them; prints how often each selected calls and fired.

    \b
    kubeskew fault clear lost-binding
    kubeskew fault clear all -o json
    """
    from kubeskew.cluster.faults import ClusterFaults

    _print(change(directory, lambda cluster: ClusterFaults(cluster).clear(name)), output)


@fault.command("await")
@state_dir_option
@output_option
@click.option("--timeout", default="30s", show_default=True, help="Time to wait.")
@click.argument("name", metavar="ID")
def await_fault(directory: StateDir, output: str, timeout: str, name: str) -> None:
    """Wait until a fault has fired; exit 1 with the calls seen instead if it does not.

    \b
    kubeskew fault await lost-binding --timeout 10s
    """
    from kubeskew.cluster.faults import ClusterFaults

    if name == ALL:
        raise UserError("await: name one fault")
    try:
        seconds = parse_duration(timeout)
    except ValueError as error:
        raise UserError(f"--timeout: {error}") from error
    report = change(directory, lambda cluster: ClusterFaults(cluster).fired(name, seconds))
    if not report.fired:
        raise ClusterError(report.missing())
    _print([report], output)


def _print(reports: list[FaultReport], output: str) -> None:
    rows = [report.as_json() for report in reports]
    if output == "json":
        print_json(rows)
    else:
        print_table(COLUMNS, rows)
