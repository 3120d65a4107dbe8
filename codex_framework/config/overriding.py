"""Checks of settings that a program passes as keyword arguments."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from codex_framework.config.checking import key_beside_filters
from codex_framework.config.schema import KEYS
from codex_framework.config.type_spec import find_mismatch
from codex_framework.contract.errors import ConfigError
from codex_framework.contract.permissions.profile import Permissions
from codex_framework.contract.protocol.policies import (
    ApprovalPolicy,
    CollaborationMode,
    GranularApproval,
    SandboxPolicy,
)
from codex_framework.contract.roles.models import ProviderInfo
from codex_framework.contract.roles.settings import Settings

__all__ = ["KINDS", "checked_override"]

_TEXT = (str, type(None))
_COUNT = (int, type(None))
KINDS: Mapping[str, tuple[type, ...]] = {
    "model": (str,),
    "provider": (ProviderInfo,),
    "approval_policy": (ApprovalPolicy, GranularApproval),
    "permissions": (Permissions,),
    "sandbox_policy": get_args(SandboxPolicy),
    "cwd": (Path,),
    "reasoning_effort": _TEXT,
    "reasoning_summary": _TEXT,
    "verbosity": _TEXT,
    "service_tier": _TEXT,
    "context_window": _COUNT,
    "tool_output_token_limit": _COUNT,
    "reasoning": (bool, type(None)),
    "shell_environment_policy": (Mapping,),
    "keep_variables": (tuple,),
    "hide_agent_reasoning": (bool,),
    "show_raw_agent_reasoning": (bool,),
    "ephemeral": (bool,),
    "collaboration_mode": (CollaborationMode, type(None)),
    "approvals_reviewer": _TEXT,
    "personality": _TEXT,
    "environments": (tuple, type(None)),
}
"""The permitted classes of each setting that a program can pass."""

_OTHERS = ("agent", "config", "source", "originator", "base_instructions", "extra", "services")
"""Further keyword arguments of ``Kernel.start_thread``."""

_KEYS = {"provider": "model_provider", "permissions": "default_permissions", "sandbox_policy": "sandbox_mode"}
"""Configuration keys that contain a name, where the program's setting is an object."""


def checked_override(settings: Settings, name: str, value: Any) -> Any:
    """Check a value for a field of the settings and return it.

    Raises:
        ConfigError: There is no such field, or the value has the wrong type.
    """
    kinds = KINDS.get(name)
    if kinds is None:
        raise _unknown(name)
    if name == "cwd" and isinstance(value, (str, Path)):
        return Path(os.path.normpath(settings.cwd / value))
    if name == "approval_policy" and isinstance(value, str) and value in set(ApprovalPolicy):
        return ApprovalPolicy(value)
    if name == "shell_environment_policy" and isinstance(value, Mapping):
        _check_filters(value)
    if isinstance(value, kinds) and not (bool not in kinds and isinstance(value, bool)):
        return value
    raise _type_error(name, value, kinds)


def _check_filters(variables: Mapping[str, Any]) -> None:
    older = key_beside_filters(variables)
    if older is not None:
        fact, hint = f"the setting 'shell_environment_policy' has both 'filters' and {older!r}", "Remove one of them."
    elif (
        mismatch := find_mismatch(KEYS["shell_environment_policy.filters"].type, variables.get("filters", {}))
    ) is None:
        return
    else:
        fact = f"'filters' of the setting 'shell_environment_policy' contains {mismatch.value!r:.80}"
        hint = "Write 'include' or 'exclude' for each pattern."
    raise ConfigError(fact, path="overrides", key="shell_environment_policy", slug="config-type", hint=hint)


def _unknown(name: str) -> ConfigError:
    import difflib

    known = (*KINDS, *_OTHERS)
    near = difflib.get_close_matches(name, known, n=1)
    if name in KEYS:
        hint = f"It is a key of the configuration: pass config={{{name!r}: ...}}."
    elif near:
        hint = f"Did you mean {near[0]}?"
    else:
        hint = f"The settings are {', '.join(KINDS)}."
    return ConfigError(f"there is no setting {name!r}", path="overrides", key=name, slug="config-unknown", hint=hint)


def _type_error(name: str, value: Any, kinds: tuple[type, ...]) -> ConfigError:
    fact = f"the setting {name!r} is {value!r:.80}, not {' or '.join(_type_name(kind) for kind in kinds)}"
    hint = "Correct the value."
    if isinstance(value, str) and name in _KEYS:
        hint = f"To choose one by its name, pass config={{{_KEYS[name]!r}: {value!r}}}."
    elif isinstance(value, str) and name == "approval_policy":
        hint = f"The words are {', '.join(ApprovalPolicy)}."
    return ConfigError(fact, path="overrides", key=name, slug="config-type", hint=hint)


def _type_name(kind: type) -> str:
    return {"NoneType": "None", "str": "a string", "int": "a number", "bool": "True or False"}.get(
        kind.__name__, kind.__name__
    )
