"""`surecall dev`: commands for work on surecall itself."""

import click

from surecall.cli.new_drift import command as new_drift


@click.group(invoke_without_command=True, no_args_is_help=False)
@click.pass_context
def command(context: click.Context) -> None:
    """Work on surecall itself, in a checkout of the project."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


command.add_command(new_drift, "new-drift")
