"""`kubeskew scheduler`: the scheduler as a process."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from kubeskew.apimachinery.client.leader import LeaderElector, LeaseTiming
from kubeskew.apimachinery.process.component import (
    ComponentContext,
    ComponentOptions,
    common_options,
    leader_election_option,
    run_component,
)
from kubeskew.scheduler.settings import ConfigurationError, LeaderElection, SchedulerSettings, parse_duration

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


def _duration(_context: click.Context, _parameter: click.Parameter, value: str | None) -> float | None:
    try:
        return None if value is None else parse_duration(value)
    except ConfigurationError as error:
        raise click.BadParameter(str(error)) from error


def _lease_options(command: Callable[..., Any]) -> Callable[..., Any]:
    seconds = {
        "lease-duration": "Time after which others may take a lease that was not renewed, such as 15s.",
        "renew-deadline": "Time after which a holder that cannot renew its lease stops, such as 10s.",
        "retry-period": "Time between two tries to take or renew the lease, such as 2s.",
    }
    for name, text in seconds.items():
        option = click.option(f"--leader-elect-{name}", callback=_duration, metavar="DURATION", help=text)
        command = option(command)
    for name, text in {"name": "The name of the lease.", "namespace": "The namespace of the lease."}.items():
        command = click.option(f"--leader-elect-resource-{name}", help=text)(command)
    locks = click.Choice(["leases"])
    return click.option(
        "--leader-elect-resource-lock",
        type=locks,
        help="The resource that is the lock; leases is the only one.",
    )(command)


@click.command()
@common_options
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A file with a KubeSchedulerConfiguration: profiles, plugins, leader election.",
)
@leader_election_option
@_lease_options
@click.pass_context
def scheduler(
    context: click.Context, /, options: ComponentOptions, config: Path | None, **flags: Any
) -> None:
    """Run a scheduler in the foreground.

    \b
    kubeskew scheduler --kubeconfig .kubeskew/kubeconfig --feature-gates DRAExtendedResource=true
    kubeskew scheduler --kubeconfig .kubeskew/kubeconfig --config second-scheduler.yaml
    """
    settings = _read(config) if config is not None else SchedulerSettings()
    if context.get_parameter_source("leader_elect") is ParameterSource.DEFAULT:
        elect = settings.leader_election.elect
        options = replace(options, leader_elect=options.leader_elect if elect is None else elect)
    election = _with_flags(settings.leader_election, flags)
    run_component("scheduler", options, partial(main, replace(settings, leader_election=election)))


def _read(config: Path) -> SchedulerSettings:
    from kubeskew.scheduler.configuration import read_file  # only a file needs YAML

    try:
        return read_file(config)
    except ConfigurationError as error:
        raise click.UsageError(f"--config: {error}") from error


def _with_flags(election: LeaderElection, flags: dict[str, Any]) -> LeaderElection:
    """Overrides the file's settings with the command line's."""
    timing = election.timing
    return replace(
        election,
        resource_name=flags["leader_elect_resource_name"] or election.resource_name,
        resource_namespace=flags["leader_elect_resource_namespace"] or election.resource_namespace,
        timing=LeaseTiming(
            flags["leader_elect_lease_duration"] or timing.lease_duration,
            flags["leader_elect_renew_deadline"] or timing.renew_deadline,
            flags["leader_elect_retry_period"] or timing.retry_period,
        ),
    )


async def main(settings: SchedulerSettings, ctx: ComponentContext) -> None:
    """Schedules while leading, until `ctx.stop` is set."""
    from kubeskew.scheduler.framework.profile import ProfileError
    from kubeskew.scheduler.resource_metrics import PATH, resource_registry
    from kubeskew.scheduler.scheduler import SchedulerService, Terms

    host = ctx.identity.partition("_")[0]

    def scheduler_in(registry: "CollectorRegistry") -> SchedulerService:
        return SchedulerService(ctx.environment, ctx.client, registry, host, settings, panic=ctx.panic)

    try:
        terms = Terms(scheduler_in, ctx.stop)
    except ProfileError as error:
        raise click.UsageError(f"--config: {error}") from error
    ctx.health.registry.register(terms)
    ctx.health.more_metrics[PATH] = resource_registry(lambda: terms.service.pods())
    ctx.health.add_check("informers", lambda: terms.service.synced_informers())
    ctx.health.add_check("leading", lambda: terms.service.leading or "not leading")
    terms.service.start()
    try:
        if ctx.options.leader_elect:
            election = settings.leader_election
            elector = LeaderElector(
                ctx.client,
                ctx.environment.clock,
                election.resource_name,
                election.resource_namespace,
                ctx.identity,
                timing=election.timing,
                component=settings.profiles[0].scheduler_name,
                periods=ctx.environment.periods,
            )
            await elector.run_again(ctx.stop, terms.lead)
        else:
            await terms.service.lead(ctx.stop)
    finally:
        await terms.service.stop()
