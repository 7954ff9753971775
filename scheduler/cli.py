"""`kubeskew scheduler`: the scheduler as a process."""

import click

from apimachinery.client.leader import LeaderElector
from apimachinery.component import ComponentContext, ComponentOptions, common_options, run_component

_LEASE_NAME, _LEASE_NAMESPACE = "kube-scheduler", "kube-system"


@click.command()
@common_options
def scheduler(options: ComponentOptions) -> None:
    """Assign pods to nodes, and devices to pods.

    \b
    kubeskew scheduler --kubeconfig .kubeskew/kubeconfig --feature-gates DRAExtendedResource=true
    """
    run_component("scheduler", options, main)


async def main(ctx: ComponentContext) -> None:
    """Schedule while leading, until `ctx.stop` is set."""
    from scheduler.service import SchedulerService

    service = SchedulerService(ctx.world, ctx.client, ctx.health.registry, ctx.identity.partition("_")[0])
    ctx.health.add_check("leading and informers synced", service.readiness)
    service.start()
    try:
        if ctx.options.leader_elect:
            elector = LeaderElector(ctx.client, ctx.world.clock, _LEASE_NAME, _LEASE_NAMESPACE, ctx.identity)
            await elector.run_again(ctx.stop, service.lead)
        else:
            await service.lead(ctx.stop)
    finally:
        await service.stop()
