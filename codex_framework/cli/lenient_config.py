"""The configuration for commands that must work even if it is invalid, so that it can be repaired."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from codex_framework.config import Config, find_codex_home, load_config
from codex_framework.contract.errors import ConfigError

__all__ = ["with_any_config"]

T = TypeVar("T")


def with_any_config(use: Callable[[Config], T]) -> T:
    """Return the result of a function for the configuration. If it is invalid, report that, and use the defaults."""
    try:
        return use(load_config(cwd=Path.cwd(), environ=os.environ))
    except ConfigError as error:
        click.echo(f"Error: {error}\n{error.hint}".rstrip(), err=True)
        click.echo("The configuration is not used: these are the results with the default settings.\n", err=True)
        return use(Config(tables={}, codex_home=_home(), cwd=Path.cwd()))


def _home() -> Path:
    try:
        return find_codex_home(os.environ)
    except ConfigError:
        return Path.home() / ".codex"
