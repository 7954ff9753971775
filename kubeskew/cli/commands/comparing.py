"""`kubeskew matrix compare`."""

from dataclasses import asdict
from pathlib import Path

import click

from kubeskew.cli.commands.options import output_option, print_json
from kubeskew.cli.terminal import echo
from kubeskew.cluster.failures import UserError
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.reporting.comparing import Difference, differences, read

_DIRECTORY = click.Path(path_type=Path, file_okay=False)


@click.command()
@output_option
@click.argument("old", metavar="OLD", type=_DIRECTORY)
@click.argument("new", metavar="NEW", type=_DIRECTORY)
def compare(output: str, old: Path, new: Path) -> int:
    """Compare two reports: which cells and steps came out otherwise.

    OLD and NEW are directories that --report wrote. Cells that only one of them has differ, too. Exits 0 if
    all came out alike, 1 if something differs.

    \b
    kubeskew matrix compare report-before report-after
    kubeskew matrix compare report-before report-after -o json
    """
    try:
        before, after = read(old), read(new)
        found = differences(before, after)
    except ScenarioError as error:
        raise UserError(str(error)) from error
    if output == "json":
        names = {"old_failure": "oldFailure", "new_failure": "newFailure"}
        print_json(
            {
                **{
                    key: {
                        "directory": str(path),
                        "title": report.get("title"),
                        "started": report.get("started"),
                    }
                    for key, path, report in (("old", old, before), ("new", new, after))
                },
                "differences": [
                    {names.get(key, key): value for key, value in asdict(each).items()} for each in found
                ],
            }
        )
        return 1 if found else 0
    for each in found:
        _print(each)
    counts = f"{len(before['cells'])} cells of {old}, {len(after['cells'])} of {new}"
    echo(f"{counts}: {f'{len(found)} differences' if found else 'all came out alike'}")
    return 1 if found else 0


def _print(difference: Difference) -> None:
    echo(str(difference))
    for name, failure in (("before", difference.old_failure), ("now", difference.new_failure)):
        if failure:
            echo(f"    {name}: {' '.join(failure.split())}")
