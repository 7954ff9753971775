"""The `kubeskew` command: every command is a module of its own, imported only when it is called."""

import gc
import importlib
import os
import sys
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from kubeskew.apimachinery.known_names import did_you_mean
from kubeskew.apimachinery.versions import VersionError
from kubeskew.cli import terminal
from kubeskew.cli.terminal import echo
from kubeskew.cluster.failures import ClusterError, EndedEarlyError, UserError

INTERRUPTED = 130  # the exit status of shells after SIGINT

# name → module:attribute; the order is that of the help text
COMMANDS = {
    "up": "kubeskew.cli.commands.lifecycle:up",
    "down": "kubeskew.cli.commands.lifecycle:down",
    "status": "kubeskew.cli.commands.status:status",
    "kubeconfig": "kubeskew.cli.commands.status:kubeconfig",
    "logs": "kubeskew.cli.commands.status:logs",
    "upgrade": "kubeskew.cli.commands.lifecycle:upgrade",
    "downgrade": "kubeskew.cli.commands.lifecycle:downgrade",
    "gates": "kubeskew.cli.commands.lifecycle:gates",
    "restart": "kubeskew.cli.commands.lifecycle:restart",
    "kill": "kubeskew.cli.commands.lifecycle:kill",
    "fault": "kubeskew.cli.commands.faults:fault",
    "events": "kubeskew.cli.commands.events:events",
    "history": "kubeskew.cli.commands.history:history",
    "diff": "kubeskew.cli.commands.history:diff",
    "why": "kubeskew.cli.commands.history:why",
    "ui": "kubeskew.cli.commands.ui:ui",
    "fork": "kubeskew.cli.commands.lifecycle:fork",
    "rewind": "kubeskew.cli.commands.lifecycle:rewind",
    "storage": "kubeskew.cli.commands.storage:storage",
    "replay": "kubeskew.cli.commands.integrity:replay",
    "repair": "kubeskew.cli.commands.integrity:repair",
    "check": "kubeskew.cli.commands.check:check",
    "bugs": "kubeskew.cli.commands.bugs:bugs",
    "features": "kubeskew.cli.commands.features:features",
    "release": "kubeskew.cli.commands.release:release",
    "allocate": "kubeskew.cli.commands.allocate:allocate",
    "simulate": "kubeskew.cli.commands.simulate:simulate",
    "run": "kubeskew.cli.commands.scenarios:run",
    "matrix": "kubeskew.cli.commands.scenarios:matrix",
    "explore": "kubeskew.cli.commands.explore:explore",
    "help": "kubeskew.cli.commands.manual:show_help",
    "completion": "kubeskew.cli.commands.shells:completion_command",
    "schema": "kubeskew.cli.commands.shells:schema",
    "man": "kubeskew.cli.commands.manual:man",
    "apiserver": "kubeskew.apiserver.cli:apiserver",
    "controller-manager": "kubeskew.controllers.cli:controller_manager",
    "scheduler": "kubeskew.scheduler.cli:scheduler",
    "kubelet": "kubeskew.kubelet.cli:kubelet",
    "driver": "kubeskew.kubelet.drivers.cli:driver",
    "driver-controller": "kubeskew.kubelet.drivers.cli:driver_controller",
    "metrics-server": "kubeskew.metricsserver.cli:metrics_server",
    "network": "kubeskew.kubelet.containers.host.network.cli:network",
    "shim": "kubeskew.shim.cli:shim",
    "etcd": "kubeskew.apiserver.storage.etcd.cli:etcd",
    "cri": "kubeskew.kubelet.cri_cli:cri",
}

SUMMARIES = {
    "up": "Start a cluster in the background, or pick up the existing one.",
    "down": "Stop the cluster.",
    "status": "Show every component with its version, gates and process.",
    "kubeconfig": "Print the administrator's kubeconfig.",
    "logs": "Print the log of a component.",
    "upgrade": "Bring components to a newer version, in upstream's order.",
    "downgrade": "Bring components to an older version, in the reverse order.",
    "gates": "Turn feature gates on or off.",
    "restart": "Stop a component gracefully and start it again.",
    "kill": "End a component with SIGKILL; it stays down until restarted.",
    "fault": "Inject faults into a component: errors, lost answers, delays, crashes, outages.",
    "events": "List every write to the API: what, when, by which component at which version.",
    "history": "Show every write of one object, and what it changed.",
    "diff": "Show what differs between two revisions.",
    "why": "Explain one object: which component changed it, and why.",
    "ui": "Serve a page that shows the cluster now and at any moment before.",
    "fork": "Make a second cluster from the state at a revision.",
    "rewind": "Take the cluster back to a revision.",
    "storage": "Check how another version would read the stored objects, or rewrite them.",
    "replay": "Check that the log and the stored objects agree.",
    "repair": "Rebuild a damaged database from its log, while the cluster is down.",
    "check": "Check what must never go wrong in a cluster, such as a device with two owners.",
    "bugs": "List the known bugs of Kubernetes on the way from one version to another.",
    "features": "Show what a component does at a version, and by which gate, release or bug.",
    "release": "Make releases of Kubernetes source trees, and compare releases.",
    "allocate": "Show which devices the scheduler would pick for claims, without a cluster.",
    "simulate": "Show what the cluster autoscaler would do, with the scheduler's plugins.",
    "run": "Run scenarios: tests of clusters, written in YAML.",
    "matrix": "Run many scenarios, with all their versions and gates, and report.",
    "explore": "Run scenarios many times with random faults, and report what went wrong.",
    "help": "Show the help of a command.",
    "completion": "Print the script with which bash, zsh or fish completes kubeskew's commands.",
    "schema": "Print the JSON Schema of cluster files or of scenarios, for editors.",
    "man": "Write a manual page for each command, for man.",
    "apiserver": "Run an API server in the foreground.",
    "controller-manager": "Run a controller manager in the foreground.",
    "scheduler": "Run a scheduler in the foreground.",
    "kubelet": "Run a kubelet for fake nodes in the foreground.",
    "driver": "Run an example DRA driver in the foreground.",
    "driver-controller": "Run the controller of an example DRA driver in the foreground.",
    "network": "Run the network of a cluster's pods in the foreground.",
    "metrics-server": "Run a metrics server in the foreground, for kubectl top and autoscalers.",
    "shim": "Run a real program as a component, in the foreground.",
    "etcd": "Serve etcd's API in the foreground, for a real API server.",
    "cri": "Serve a container runtime by CRI in the foreground, for a real kubelet.",
}


class LazyGroup(click.Group):
    """Modules of commands are imported when they are called, so that `kubeskew` starts fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:
            hint = did_you_mean(args[0], COMMANDS)
            raise click.UsageError(f"no such command '{args[0]}'{hint}", ctx) from error

    def invoke(self, ctx: click.Context) -> Any:
        """Handles errors here and not in `main`, because click treats a closed output as a failure."""
        try:
            return super().invoke(ctx)
        except (UserError, ClusterError) as error:
            error.args = (terminal.complete_commands(str(error)),)
            raise
        except BrokenPipeError:
            # the reader of the output has closed it (`kubeskew events | head`)
            _discard_output()
            return 0

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(SUMMARIES.items()))


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.option(
    "--state-dir",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="KUBESKEW_STATE_DIR",
    default=Path(".kubeskew"),
    show_default=True,
    help="Directory of the cluster's files.",
)
@click.version_option(package_name="kubeskew")
@click.pass_context
def cli(ctx: click.Context, state_dir: Path) -> None:
    """A Kubernetes control plane you can bend: every component at a version and gates of its own.

    \b
    kubeskew up --version 1.35 --nodes 2
    export KUBECONFIG=$PWD/.kubeskew/kubeconfig
    kubectl get nodes
    kubeskew upgrade --to 1.36
    kubeskew down
    """
    ctx.obj = state_dir
    if ctx.get_parameter_source("state_dir") is ParameterSource.COMMANDLINE:
        terminal.note_state_dir(ctx, state_dir)


def main(arguments: list[str] | None = None) -> None:
    """Exits 0 on success, 1 after a failed run, 2 after wrong usage."""
    gc.set_threshold(50_000, 20, 50)  # importing makes many objects and frees few
    code = _run(arguments)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
    sys.exit(code)


def _run(arguments: list[str] | None) -> int:
    try:
        result: Any = cli.main(args=arguments, prog_name="kubeskew", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        echo(error.format_message(), err=True)
        return error.exit_code
    except click.ClickException as error:
        return _failed(_wrong_usage(error), error.exit_code)
    except (click.exceptions.Abort, KeyboardInterrupt):
        return _failed("interrupted", INTERRUPTED)
    except (UserError, VersionError) as error:
        return _failed(str(error), 2)
    except EndedEarlyError as error:
        return _failed(str(error), INTERRUPTED)
    except ClusterError as error:
        return _failed(str(error), 1)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _failed(f"{where}{error.strerror or error}", 1)
    return result if isinstance(result, int) else 0


def _wrong_usage(error: click.ClickException) -> str:
    text = " ".join(error.format_message().split())
    text = text[:1].lower() + text[1:].removesuffix(".")
    context = error.ctx if isinstance(error, click.UsageError) else None
    return text if context is None else f"{text}; see `{context.command_path} --help`"


def _failed(text: str, code: int) -> int:
    echo(f"kubeskew: {text}", err=True)
    return code


def _discard_output() -> None:
    """Nobody reads the rest of standard output; writing it must not fail again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
