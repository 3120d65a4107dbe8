"""``agents/openai.yaml`` of a skill: its display in interfaces, its requirements, and whether the model may choose it on its own."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from codex_framework import Value
from codex_plugin_skills.events import SkillDependencies, SkillInterface, SkillToolDependency
from codex_plugin_skills.frontmatter import one_line
from codex_plugin_skills.yaml_tree import Tree, YamlError, read_mapping

__all__ = ["FILE", "Manifest", "read_manifest"]

FILE = "agents/openai.yaml"

_PRODUCT = "codex"
_MAX_TITLE = 64
_MAX_TEXT = 1024
_COLOR = re.compile("#[0-9a-fA-F]{6}")
_ASSETS = "assets"
_NEED_TEXTS = ("description", "transport", "command", "url")


class Manifest(Value, kw_only=True):
    """The content of the file.

    Attributes:
        implicit: Whether the model may choose the skill on its own.
        suitable: Whether the skill is meant for this product, too.
        problems: The unused parts, for the user.
    """

    interface: SkillInterface | None = None
    dependencies: SkillDependencies | None = None
    implicit: bool = True
    suitable: bool = True
    problems: Sequence[str] = ()


def read_manifest(text: str, folder: str) -> Manifest:
    """Return the content of the file of the skill in ``folder``. Invalid parts are left out."""
    try:
        tree = read_mapping(text)
    except YamlError as error:
        return Manifest(problems=(f"it is {error}",))
    reader = _Reader(folder)
    policy = reader.mapping(tree, "policy")
    return Manifest(
        interface=reader.interface(reader.mapping(tree, "interface")),
        dependencies=reader.dependencies(reader.mapping(tree, "dependencies")),
        implicit=reader.implicit(policy),
        suitable=reader.suitable(policy),
        problems=tuple(reader.problems),
    )


class _Reader:
    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.problems: list[str] = []

    def mapping(self, tree: Mapping[str, Tree], key: str) -> Mapping[str, Tree]:
        value = tree.get(key) or {}
        if isinstance(value, Mapping):
            return value
        self.problems.append(f"its `{key}` is not a mapping")
        return {}

    def interface(self, table: Mapping[str, Tree]) -> SkillInterface | None:
        color = self._text(table, "brand_color", _MAX_TEXT)
        if color is not None and not _COLOR.fullmatch(color):
            self.problems.append("its `brand_color` is not #RRGGBB")
            color = None
        given: dict[str, Any] = {
            "display_name": self._text(table, "display_name", _MAX_TITLE),
            "short_description": self._text(table, "short_description", _MAX_TEXT),
            "icon_small": self._icon(table, "icon_small"),
            "icon_large": self._icon(table, "icon_large"),
            "brand_color": color,
            "default_prompt": self._text(table, "default_prompt", _MAX_TEXT),
        }
        return SkillInterface(**given) if any(given.values()) else None

    def dependencies(self, table: Mapping[str, Tree]) -> SkillDependencies | None:
        tools = table.get("tools") or []
        if isinstance(tools, (str, Mapping)):
            self.problems.append("its `dependencies.tools` is not a list")
            return None
        needs = tuple(need for need in map(self._need, tools) if need is not None)
        return SkillDependencies(needs) if needs else None

    def _need(self, tool: Tree) -> SkillToolDependency | None:
        table = tool if isinstance(tool, Mapping) else {}
        kind, value = self._text(table, "type", _MAX_TITLE), self._text(table, "value", _MAX_TEXT)
        if not kind or not value:
            self.problems.append("one of its `dependencies.tools` has no `type` or no `value`")
            return None
        return SkillToolDependency(
            type=kind, value=value, **{key: self._text(table, key, _MAX_TEXT) for key in _NEED_TEXTS}
        )

    def implicit(self, policy: Mapping[str, Tree]) -> bool:
        value = policy.get("allow_implicit_invocation", "true")
        if value not in ("true", "false"):
            self.problems.append("its `policy.allow_implicit_invocation` is neither true nor false")
        return value != "false"

    def suitable(self, policy: Mapping[str, Tree]) -> bool:
        products = policy.get("products") or []
        if isinstance(products, (str, Mapping)):
            self.problems.append("its `policy.products` is not a list")
            return True
        return not products or any(isinstance(name, str) and name.lower() == _PRODUCT for name in products)

    def _text(self, table: Mapping[str, Tree], key: str, limit: int) -> str | None:
        value = table.get(key, "")
        if not isinstance(value, str):
            self.problems.append(f"its `{key}` is not text")
            return None
        text = one_line(value)
        if len(text) > limit:
            self.problems.append(f"its `{key}` has {len(text)} characters; at most {limit} are allowed")
            return None
        return text or None

    def _icon(self, table: Mapping[str, Tree], key: str) -> str | None:
        """Return the path of an icon, which is in the folder of the skill's assets."""
        given = self._text(table, key, _MAX_TEXT)
        if given is None:
            return None
        parts = [part for part in given.split("/") if part != "."]
        if given.startswith("/") or ".." in parts or parts[0] != _ASSETS:
            self.problems.append(f"its `{key}` is not below {_ASSETS}/")
            return None
        return os.path.join(self._folder, *parts)  # noqa: PTH118
