"""`kubeskew matrix merge`."""

from pathlib import Path

import click

from kubeskew.cli.commands.cell_running import checked, write_to
from kubeskew.cli.commands.options import report_output_option
from kubeskew.cli.commands.run_flags import check_report
from kubeskew.cli.commands.scenario_results import show
from kubeskew.cluster.failures import UserError
from kubeskew.conformance.dealing.merging import merged
from kubeskew.conformance.report import write_report
from kubeskew.conformance.reporting import comparing

_DIRECTORY = click.Path(path_type=Path, file_okay=False)


@click.command()
@click.argument("reports", nargs=-1, required=True, metavar="REPORT...", type=_DIRECTORY)
@click.option(
    "--report", required=True, type=_DIRECTORY, help="Write index.html, report.json, junit.xml here."
)
@report_output_option
def merge(reports: tuple[Path, ...], report: Path, output: str) -> int:
    """Make one report of those of all shards, as if one run had made it.

    REPORTs are directories that --shard and --report wrote, of all N shards, in any order. Exits 0 if every
    cell passed, 1 if one did not, 2 if these are not the shards of one run; then nothing is written.

    \b
    kubeskew matrix mine.yaml --shard 1/2 --report report-1
    kubeskew matrix mine.yaml --shard 2/2 --report report-2
    kubeskew matrix merge report-1 report-2 --report report
    kubeskew matrix merge reports/* --report report -o json
    kubeskew matrix merge reports/* --report report -o github
    """
    check_report(report)
    if report.resolve() in {path.resolve() for path in reports}:
        raise UserError(f"--report {report}: this is the report of a shard: name another directory")
    whole = checked(lambda: merged([(path, comparing.read(path)) for path in reports]))
    write_to(report, lambda: write_report(whole, report))
    code = show(whole, output, report, None)
    return code or int(any(not cell["passed"] for cell in whole["cells"]))  # a shard that was interrupted
