"""`kubeskew shim`: a real program as a component."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from kubeskew.apimachinery.process.component import ComponentOptions, common_options, run_component
from kubeskew.shim.program_file import ProgramFileError, read_program
from kubeskew.shim.programs import ProgramMachine, Programs


@click.command()
@click.option("--component", required=True, help="The component that the program is, such as scheduler.")
@click.option(
    "--program-file",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="The program and its processes, in JSON.",
)
@partial(common_options, any_gates=True)
def shim(options: ComponentOptions, component: str, program_file: Path) -> None:
    """Run a real program as a component, in the foreground.

    The program's requests to the API server go through a proxy, in which faults are injected.

    \b
    kubeskew shim --component scheduler --kubeconfig scheduler.kubeconfig --program-file scheduler.json
    """
    try:
        program = read_program(program_file)
    except ProgramFileError as error:
        raise click.UsageError(f"--program-file: {error}") from error
    programs = Programs(program)
    options = replace(options, machine=ProgramMachine(programs))
    if program.server is not None:
        from kubeskew.shim.api_server import main as serve

        serving = partial(serve, program, program.server, programs)
        return run_component(component, options, serving, announce=False)
    from kubeskew.shim.host import main

    agent = "kubelet" if program.node is not None else ""
    serving = partial(main, program, programs)
    return run_component(component, options, serving, agent=agent, detail=str(program))
