"""Options that unrelated commands share. Imports nothing but click, as every command imports this module."""

import click

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
