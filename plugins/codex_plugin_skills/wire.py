"""The answer to ``list_skills`` as JSON data, in the words of Codex's app server."""

from __future__ import annotations

from typing import Any

from codex_plugin_skills.events import SkillInterface, SkillMetadata, SkillsListEntry, SkillToolDependency

__all__ = ["entry_wire"]


def entry_wire(entry: SkillsListEntry) -> dict[str, Any]:
    """Return an entry as in ``skills/list``."""
    return {
        "cwd": entry.cwd,
        "skills": [_skill(skill) for skill in entry.skills],
        "errors": [{"path": error.path, "message": error.message} for error in entry.errors],
    }


def _skill(skill: SkillMetadata) -> dict[str, Any]:
    optional: dict[str, Any] = {
        "shortDescription": skill.short_description,
        "interface": None if skill.interface is None else _interface(skill.interface),
        "dependencies": None
        if skill.dependencies is None
        else {"tools": [_need(need) for need in skill.dependencies.tools]},
    }
    return {
        "name": skill.name,
        "description": skill.description,
        **{key: value for key, value in optional.items() if value is not None},
        "path": skill.path,
        "scope": skill.scope,
        "enabled": skill.enabled,
        "pluginId": None,
    }


def _interface(interface: SkillInterface) -> dict[str, Any]:
    return {
        "displayName": interface.display_name,
        "shortDescription": interface.short_description,
        "iconSmall": interface.icon_small,
        "iconLarge": interface.icon_large,
        "iconSmallUrl": None,
        "iconLargeUrl": None,
        "brandColor": interface.brand_color,
        "defaultPrompt": interface.default_prompt,
    }


def _need(need: SkillToolDependency) -> dict[str, Any]:
    values = {
        "type": need.type,
        "value": need.value,
        "description": need.description,
        "transport": need.transport,
        "command": need.command,
        "url": need.url,
    }
    return {key: value for key, value in values.items() if value is not None}
