"""`python -m benchmarks [PART…]`: measure on this machine and print the table; without parts, all of it.

With `--server URL` an API server that runs already is measured, with `--against URL` next to another one.
"""

import argparse
import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import uvloop

from benchmarks import (
    any_server,
    apiserver,
    autoscaling,
    cells,
    clusters,
    mixed,
    scheduling,
    simulated,
    stalls,
    stores,
)
from benchmarks.real_servers import ETCD
from benchmarks.row import Row
from benchmarks.server import running_server

Part = Callable[[argparse.Namespace], AsyncIterator[Row]]


async def _apiserver(_options: argparse.Namespace) -> AsyncIterator[Row]:
    async with running_server() as server:
        for row in await apiserver.all_rows(server):
            yield row


async def _stalls(_options: argparse.Namespace) -> AsyncIterator[Row]:
    async with running_server() as server:
        yield await stalls.stalls(server)


async def _up(_options: argparse.Namespace) -> AsyncIterator[Row]:
    yield await clusters.up()


async def _cell(_options: argparse.Namespace) -> AsyncIterator[Row]:
    for row in await cells.rows():
        yield row


async def _mixed(options: argparse.Namespace) -> AsyncIterator[Row]:
    async for row in mixed.rows(options.nodes, options.pods // 5):
        yield row


async def _simulated(options: argparse.Namespace) -> AsyncIterator[Row]:
    async for row in simulated.rows(options.seeds):
        yield row


async def _autoscaling(options: argparse.Namespace) -> AsyncIterator[Row]:
    yield await autoscaling.scale_up_row(2 * options.nodes, 2 * options.pods)


def _load(load: scheduling.Load) -> Part:
    async def part(options: argparse.Namespace) -> AsyncIterator[Row]:
        chosen = replace(load, nodes=options.nodes, before=options.pods // 2, pods=options.pods // 2)
        yield await scheduling.schedule(chosen)

    return part


PARTS: dict[str, tuple[Part, ...]] = {
    "apiserver": (_apiserver,),
    "stalls": (_stalls,),
    "up": (_up,),
    "claims": (_load(scheduling.CLAIMS),),
    "extended": (_load(scheduling.EXTENDED),),
    "plain": (_load(scheduling.PLAIN),),
    "scheduler": (_load(scheduling.CLAIMS), _load(scheduling.EXTENDED)),
    "cell": (_cell,),
    "mixed": (_mixed,),
    "simulated": (_simulated,),
    "autoscaling": (_autoscaling,),
    "real": (stores.rows,),
}
_ALL = ("apiserver", "stalls", "up", "scheduler", "cell", "simulated", "mixed", "autoscaling")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument(
        "--nodes",
        type=int,
        default=500,
        help="of the rows of the scheduler and `mixed`; twice as many for `autoscaling`",
    )
    parser.add_argument(
        "--pods",
        type=int,
        default=5000,
        help="of the scheduler's rows, half of them measured; a fifth for `mixed`, twice for `autoscaling`",
    )
    parser.add_argument("--seeds", type=int, default=1000, help="of the exploration in `simulated`")
    real = parser.add_argument_group("real", "a real kube-apiserver above etcd (of $ETCD) and above ours")
    real.add_argument("--binaries", type=Path, help="the folder of programs, by version")
    real.add_argument("--minor", default="1.36", help="of the kube-apiserver")
    real.add_argument("--pairs", type=int, default=5, help="of turns of each load")
    real.add_argument("--loads", default=",".join(stores.LOADS), help=", ".join(stores.LOADS))
    server = parser.add_argument_group("server", "an API server that runs, alone or next to another one")
    server.add_argument("--server", metavar="URL", help="such as https://127.0.0.1:6443")
    server.add_argument("--token", default="", help="of a user who may do everything there")
    server.add_argument(
        "--cacert", type=Path, metavar="FILE", help="without it certificates are not verified"
    )
    server.add_argument("--against", metavar="URL", help="another one; ratios above 1 favour --server")
    server.add_argument("--against-token", default="", help="the same user's there [default: --token]")
    server.add_argument("--against-cacert", type=Path, metavar="FILE")
    options = parser.parse_args()
    if options.against and not options.server:
        parser.error("--against: name the first one by --server")
    if options.server and options.parts:
        parser.error("--server has loads of its own: leave out the parts")
    if "real" in options.parts and not (options.binaries and ETCD):
        parser.error("real: it needs --binaries and an etcd")
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    return options


async def main(options: argparse.Namespace) -> None:
    print("| what | real | goal | measured | set-up |\n| --- | --- | --- | --- | --- |")
    if options.server:
        target = any_server.Target(options.server, options.token, options.cacert)
        other = any_server.Target(
            options.against or "", options.against_token or options.token, options.against_cacert
        )
        async for row in any_server.rows(target, other if options.against else None, options.pairs):
            _show(row)
        return
    for part in options.parts or _ALL:
        for measure in PARTS[part]:
            async for row in measure(options):
                _show(row)


def _show(row: Row) -> None:
    print(f"| {row.what} | {row.real} | {row.goal} | {row.measured} | {row.set_up} |", flush=True)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(_options()))
