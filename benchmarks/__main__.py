"""`python -m benchmarks`: measure the API server on this machine and print the table."""

import asyncio

import uvloop

from benchmarks.apiserver import Row, all_rows
from benchmarks.server import running_server


async def main() -> list[Row]:
    async with running_server() as server:
        return await all_rows(server)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        rows = runner.run(main())
    print("| what | real | goal | measured |\n| --- | --- | --- | --- |")
    for row in rows:
        print(f"| {row.what} | {row.real} | {row.goal} | {row.measured} |")
