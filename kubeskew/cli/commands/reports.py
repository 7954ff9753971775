"""`kubeskew matrix compare` and `kubeskew matrix merge`."""

import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from kubeskew.cli.commands.cell_runs import checked, write_to
from kubeskew.cli.commands.options import output_option, print_json, report_output_option
from kubeskew.cli.commands.results import (
    ReviewFlags,
    all_cells,
    check_record,
    compare_options,
    compared,
    read_outcomes,
    review_options,
    show_results,
)
from kubeskew.cli.commands.run_flags import RunFlags, asked_for, check_report
from kubeskew.cli.commands.scenarios import assigned, cells_of, matrix, selected
from kubeskew.cli.terminal import echo
from kubeskew.cluster.failures import UserError
from kubeskew.conformance.dealing.merged_report import check_same, merged, restored_cells
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.matrix import Selection
from kubeskew.conformance.report import Part, Run, subsets_of, write_report
from kubeskew.conformance.reporting import comparison
from kubeskew.conformance.reporting.comparison import Difference, differences, read

_DIRECTORY = click.Path(path_type=Path, file_okay=False)


@click.command()
@output_option
@click.argument("old", metavar="OLD", type=_DIRECTORY)
@click.argument("new", metavar="NEW", type=_DIRECTORY)
def compare(output: str, old: Path, new: Path) -> int:
    """Compare two reports: which cells and steps have other outcomes.

    OLD and NEW are directories that --report wrote. Cells that only one of them has differ, too. Exits 0 if
    all outcomes are the same, 1 if one differs.

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
        _print_difference(each)
    counts = f"{len(before['cells'])} cells of {old}, {len(after['cells'])} of {new}"
    echo(f"{counts}: {f'{len(found)} differences' if found else 'all came out alike'}")
    return 1 if found else 0


def _print_difference(difference: Difference) -> None:
    echo(str(difference))
    for name, failure in (("before", difference.old_failure), ("now", difference.new_failure)):
        if failure:
            echo(f"    {name}: {' '.join(failure.split())}")


@click.command()
@click.argument("reports", nargs=-1, required=True, metavar="REPORT...", type=_DIRECTORY)
@click.option(
    "--report", required=True, type=_DIRECTORY, help="Write index.html, report.json, junit.xml here."
)
@compare_options
@review_options
@report_output_option
def merge(
    reports: tuple[Path, ...],
    report: Path,
    compare: bool,
    recorded: Path,
    prr: Path | None,
    prr_gates: tuple[str, ...],
    output: str,
) -> int:
    """Merge the reports of all shards into one, as if one run had written it.

    REPORTs are directories that --shard and --report wrote, of all N shards, in any order. Exits 0 if every
    cell passed, 1 if one did not, 2 if these are not the shards of one run; then nothing is written.

    --compare and --prr are those of `kubeskew matrix`, and read the scenarios again: run them where the
    command of the shards finds the files that it found there.

    \b
    kubeskew matrix mine.yaml --shard 1/2 --report report-1
    kubeskew matrix mine.yaml --shard 2/2 --report report-2
    kubeskew matrix merge report-1 report-2 --report report
    kubeskew matrix merge reports/* --report report -o json
    kubeskew matrix merge reports/* --report report -o github
    kubeskew matrix merge reports/* --report report --compare --prr evidence.md
    """
    check_report(report)
    review = ReviewFlags(prr, prr_gates)
    review.check()
    if report.resolve() in {path.resolve() for path in reports}:
        raise UserError(f"--report {report}: this is the report of a shard: name another directory")
    parts = checked(lambda: [(path, comparison.read(path)) for path in reports])
    whole = checked(lambda: merged(parts))
    differences = None
    again = _again(parts[0][1], whole, compare=compare) if compare or prr else None
    before = read_outcomes(recorded) if compare else {}
    write_to(report, lambda: write_report(whole, report))
    if again:
        review.write(again.run, again.selection)
        if compare:
            differences = compared(before, again.run, all_cells(again.selection, again.profile, again.asked))
    code = show_results(whole, output, report, differences)
    return code or int(any(not cell["passed"] for cell in whole["cells"]))  # a shard that was interrupted


@dataclass(frozen=True, slots=True)
class _Again:
    run: Run
    selection: Selection
    profile: str | None
    asked: RunFlags


def _again(shard: Mapping[str, Any], whole: Mapping[str, Any], *, compare: bool) -> _Again:
    """Selects the cells of the shards' command again. Raises UserError if the selection differs now."""
    program, name, *words = shlex.split(shard["shard"]["command"])
    if name != "matrix":
        raise UserError(f"--compare and --prr are of `matrix`; these are shards of `{program} {name}`")
    given = matrix.make_context(name, words).params
    asked = asked_for({field.name: given[field.name] for field in fields(RunFlags)})
    check_record(asked, compare)
    selection = selected(given["scenarios"], given["profile"])
    cells = cells_of(selection, asked)
    part = {key: value for key, value in shard["shard"].items() if key != "subsets"}
    checked(lambda: check_same(Part(**part), cells))
    assignment = assigned(selection, cells, asked, given["scenarios"], given["profile"])
    run = Run(
        whole["title"],
        datetime.fromisoformat(whole["started"]),
        checked(lambda: restored_cells(cells, whole["cells"])),
        subsets_of(selection.scenarios),
        assignment.again,
    )
    return _Again(run, selection, given["profile"], asked)
