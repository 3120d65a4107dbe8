"""The configuration as the constraints of plugins leave it.

Apart from ``registry``: it runs before the other hooks are asked, and changes what they see.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from codex_framework.config.config import Config, Layer
from codex_framework.config.keys import merge
from codex_framework.contract.errors import CodexError, PluginError
from codex_framework.contract.roles.constraints import Constraint
from codex_framework.loader.offers import Offer
from codex_framework.toolkit.faults import error_text
from codex_framework.toolkit.roles import overrides

__all__ = ["combine_constraints"]

_NAME = "constraint"


def combine_constraints(offers: Sequence[Offer[Constraint]]) -> Callable[[Config], Config] | None:
    """Return a function that applies the constraints to a configuration, or None if none of them concerns it.

    It raises CodexError if a constraint refuses the configuration, or fails.
    """
    own = [offer for offer in offers if overrides(offer.item, Constraint, "configure")]
    if not own:
        return None

    def constrain(config: Config) -> Config:
        config = config.evolve(
            layers=tuple(layer for layer in config.layers if layer.name != _NAME), constrain=constrain
        )
        for offer in own:
            config = _apply(config, offer)
        return config

    return constrain


def _apply(config: Config, offer: Offer[Constraint]) -> Config:
    warnings: list[str] = []
    try:
        table = offer.item.configure(config.tables, warnings.append)
        if not isinstance(table, Mapping):
            raise TypeError(f"it returned {type(table).__name__}, not a table")  # reported as its other mistakes
        tables = merge(config.tables, table)
    except CodexError:
        raise
    except (Exception, SystemExit) as error:  # a broken constraint must not let anything through
        fact = f"constraint {offer.item.name!r}: configure() failed: {error_text(error)}"
        raise PluginError(offer.plugin, fact, hint="Fix the plugin, or disable it.") from error
    if table:
        layer = Layer(_NAME, f"constraint {offer.item.name!r}", table)
        config = config.evolve(tables=tables, layers=(*config.layers, layer))
    if warnings:
        config = config.evolve(warnings=tuple(dict.fromkeys((*config.warnings, *warnings))))
    return config
