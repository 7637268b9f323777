"""Options of commands that otherwise have nothing in common. Imports nothing but click: start-up pays for it."""

import click

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
