"""The base instructions, which a model gets before anything else.

Apart from ``models``: it reads files of the user's, and knows no provider.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from codex_framework.contract.permissions.links import home_expanded
from codex_framework.contract.roles.models import ModelInfo
from codex_framework.toolkit.regular_files import open_regular

if TYPE_CHECKING:
    from codex_framework.config import Config

__all__ = ["base_instructions", "default_instructions"]

_FILE_KEYS = ("model_instructions_file", "experimental_instructions_file")
_PERSONALITY = "{{ personality }}"


def base_instructions(config: Config, model: ModelInfo) -> str:
    """Return the base instructions of a new thread.

    The first of these that is set: the file named by ``model_instructions_file`` (older name:
    ``experimental_instructions_file``), the text ``base_instructions``, the model's own, and :func:`default_instructions`.

    Raises:
        ConfigError: The named file cannot be read, is not UTF-8 or is empty.
    """
    for key in _FILE_KEYS:
        path = config.get(key)
        if path:
            return _from_file(config, key, str(path))
    text = config.get("base_instructions")
    if isinstance(text, str) and text.strip():
        return text
    if model.base_instructions:
        return model.base_instructions.replace(_PERSONALITY, "").strip()
    return default_instructions()


@cache
def default_instructions() -> str:
    """Return the instructions for a model without its own: ``prompts/base.md``."""
    return Path(__file__).with_name("prompts").joinpath("base.md").read_text(encoding="utf-8").strip()


def _from_file(config: Config, key: str, path: str) -> str:
    file = config.codex_home / home_expanded(path)
    hint = f"Fix the file, or remove {key} from the configuration."
    try:
        with open(file, encoding="utf-8", opener=open_regular) as opened:
            text = opened.read().strip()
    except OSError as error:
        raise config.error(
            key, f"cannot read instructions from {file}: {error.strerror or error}", hint=hint
        ) from error
    except UnicodeDecodeError as error:
        raise config.error(key, f"the instructions in {file} are not UTF-8 (byte {error.start})", hint=hint) from error
    if not text:
        raise config.error(key, f"the instructions file {file} is empty", hint=hint)
    return text
