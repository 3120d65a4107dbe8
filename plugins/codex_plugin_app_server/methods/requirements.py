"""The requirements of the machine's administrator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from codex_plugin_app_server.items import camel, camel_keys
from codex_plugin_app_server.schema import MismatchError, protocol
from codex_plugin_app_server.server import Call
from codex_plugin_app_server.table import Json, MethodTable

table = MethodTable()

_TYPE = "ConfigRequirements"


@table.method("configRequirements/read", None, "ConfigRequirementsReadResponse", concurrent=True)
async def read_requirements(call: Call) -> Json:
    """Return the administrator's requirements, or null without requirements."""
    found = await call.server.ask("read_requirements", "requirements_response")
    required = (found or {}).get("requirements")
    shown = None if required is None else dict.fromkeys(_properties()) | dict(_members(required))
    return {"supportsIndependentSpeedModes": True, "requirements": shown}


def _properties() -> Json:
    properties: Json = protocol().definitions[_TYPE]["properties"]
    return properties


def _members(required: Json) -> Iterator[tuple[str, Any]]:
    searches = required.get("searches")
    yield "allowedApprovalPolicies", required.get("approvals")
    yield "allowedApprovalsReviewers", required.get("reviewers")
    yield "allowedLoginMethods", required.get("logins") or ["api", "chatgpt"]
    yield "allowedWebSearchModes", None if searches is None else list(dict.fromkeys((*searches, "disabled")))
    modes = required.get("sandboxes")
    yield "allowedSandboxModes", None if modes is None else [mode for mode in modes if mode != "external-sandbox"]
    yield "allowManagedHooksOnly", required.get("managed_hooks_only") or None
    yield "additionalDeveloperInstructions", required.get("instructions") or None
    yield "featureRequirements", required.get("features") or None
    for key, value in required.get("others", {}).items():  # for programs besides the agent
        name, shown = camel(key), camel_keys(value)
        if name in _properties() and _fits({name: shown}):
            yield name, shown


def _fits(members: Json) -> bool:
    try:
        protocol().check(members, _TYPE)
    except MismatchError:
        return False
    return True
