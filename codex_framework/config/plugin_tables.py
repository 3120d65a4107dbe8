"""A plugin's own settings: the table ``[framework.plugins.<name>]`` as an instance of the plugin's class."""

from __future__ import annotations

from typing import TypeVar

from codex_framework.config.config import Config
from codex_framework.config.keys import dotted

__all__ = ["plugin_settings"]

T = TypeVar("T")


def plugin_settings(config: Config, name: str, kind: type[T]) -> T:
    """Return the settings of a plugin.

    Args:
        config: The configuration.
        name: The plugin's entry-point name.
        kind: An attrs class. Every field without a default must be in the table.

    Raises:
        ConfigError: A key is unknown, missing or of the wrong type; the fact names file, line and key.
    """
    import attrs

    from codex_framework.contract.protocol.wire import WireError, read

    key = ("framework", "plugins", name)
    table = config.get(f'framework.plugins."{name}"', {})
    known = [field.name for field in attrs.fields(kind)]  # type: ignore[arg-type]  # attrs' own bound is stricter than T
    for word in table:
        if word not in known:
            raise config.error(
                (*key, word),
                f"the plugin {name!r} has no setting {word!r}; its settings: {', '.join(known) or 'none'}",
                hint="Fix or remove it.",
                slug="config-unknown",
            )
    try:
        return read(kind, table, where=dotted(key))
    except WireError as error:
        first, _, place = str(error).partition(";")[0].rpartition(" @ ")
        field = place.removeprefix(dotted(key)).lstrip(".").split(".")[0].split("[")[0]
        raise config.error(
            (*key, field) if field in known else key,
            f"invalid settings of the plugin {name!r}: `{place}`: {first}",
            hint="Fix the value.",
            slug="config-type",
        ) from error
