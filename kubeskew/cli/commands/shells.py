"""`kubeskew completion` and `kubeskew schema`, which shells and editors read."""

import click
from click.shell_completion import get_completion_class

from kubeskew.cluster.failures import UserError

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_KUBESKEW_COMPLETE"  # which click looks for, from the name of the program


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion_command(ctx: click.Context, shell: str) -> None:
    """Print the script with which a shell completes kubeskew's commands.

    It completes options, components, feature gates, versions and the names of scenarios, too.

    \b
    source <(kubeskew completion bash)                                         # in ~/.bashrc
    source <(kubeskew completion zsh)                                          # in ~/.zshrc, after compinit
    kubeskew completion fish > ~/.config/fish/completions/kubeskew.fish
    """
    made = get_completion_class(shell)
    if made is None:
        raise UserError(f"there is no completion for {shell}")
    root = ctx.find_root()
    click.echo(made(root.command, {}, "kubeskew", VARIABLE).source())


@click.command()
@click.argument("kind", type=click.Choice(("cluster", "scenario")))
def schema(kind: str) -> None:
    """Print the JSON Schema of cluster files or of scenarios, for editors.

    An editor with a YAML language server checks and completes a file whose first line names the schema:

    \b
    # yaml-language-server: $schema=cluster.schema.json

    \b
    kubeskew schema cluster > cluster.schema.json
    kubeskew schema scenario > scenario.schema.json
    """
    from kubeskew.cli.schemas import as_text  # which imports all operations of scenarios

    click.echo(as_text(kind), nl=False)
