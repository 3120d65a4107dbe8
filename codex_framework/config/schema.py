"""The table of settings of ``config.toml``.

Everything that is known of a key is in its row: a row without one of these facts cannot be made.

``*`` in a key matches any name. The types are ``str``, ``secret`` (a string that is never shown), ``path`` (relative to the
folder of the file), ``folder`` (such a path; empty means that folder itself), ``int``, ``int>=0``, ``float``, ``bool``, ``"a"``
(exactly this string), ``list[T]``, ``map[T]`` (a table from any name to ``T``), ``table`` (a table whose content is not
checked) and ``T | T`` (either type).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, TypeAlias

from codex_framework.config.key import AtMost, Effect, Key, Lifetime, Projects
from codex_framework.contract.value import Value

__all__ = [
    "KEYS",
    "SECTIONS",
    "USED_FEATURES",
    "Facts",
    "Feature",
    "Key",
    "child_pattern",
    "features",
    "find_keys",
    "is_name",
    "keys_of",
    "limits_on_projects",
    "table_patterns",
]

USED, ACCEPTED, INTERFACE, REFUSED = Effect.USED, Effect.ACCEPTED, Effect.INTERFACE, Effect.REFUSED
NEVER, TRUSTED, ANY = Projects.NEVER, Projects.TRUSTED, Projects.ANY
KERNEL, THREAD, TURN = Lifetime.KERNEL, Lifetime.THREAD, Lifetime.TURN


class Feature(Value):
    """A feature that has an effect.

    Attributes:
        limits: Limits in its table that a project can only lower.
    """

    projects: Projects
    lasts: Lifetime
    limits: Mapping[str, AtMost] = MappingProxyType({})


def _limit_keys(table: str, projects: Projects) -> dict[str, Key]:
    """Return the keys ``TABLE.limits.*``."""
    return {
        f"{table}.limits.{name}": Key(kind, USED, projects, THREAD, f"maximum {meaning}")
        for name, kind, meaning in (
            ("requests", "int>=1", "number of requests to a model"),
            ("turns", "int>=1", "number of turns"),
            ("tokens", "int>=1", "number of tokens"),
            ("tool_calls", "int>=1", "number of calls of tools"),
            ("seconds", "float", "time of running turns in seconds"),
            ("cost", "float", "cost, in the currency of the prices"),
        )
    }


SECTIONS: dict[str, dict[str, Key]] = {
    "Model": {
        "model": Key("str", USED, ANY, THREAD, "the model's name", '"gpt-6.2-sol"'),
        "review_model": Key("str", USED, ANY, TURN, "the model for reviews (default: the thread's model)"),
        "model_provider": Key(
            "str", USED, NEVER, THREAD, "a built-in provider, or a table of [model_providers]", '"openai"'
        ),
        "model_context_window": Key(
            "int>=1", USED, ANY, THREAD, "context window in tokens; overrides the model's own, up to its largest"
        ),
        "model_auto_compact_token_limit": Key(
            "int", USED, ANY, TURN, "number of tokens at which history is compacted, if less than 90 % of the window"
        ),
        "model_auto_compact_token_limit_scope": Key(
            "str", ACCEPTED, ANY, THREAD, "which tokens count towards that limit"
        ),
        "model_post_turn_compact_threshold_percent": Key(
            "int>=0", ACCEPTED, ANY, THREAD, "share of the window above which history is compacted after a turn"
        ),
        "model_reasoning_effort": Key(
            "str", USED, ANY, THREAD, "none, minimal, low, medium, high, xhigh or another value that the model supports"
        ),
        "plan_mode_reasoning_effort": Key(
            "str", USED, ANY, THREAD, "reasoning effort in plan mode, unless the client sets one"
        ),
        "model_reasoning_summary": Key(
            '"auto" | "concise" | "detailed" | "none"', USED, ANY, THREAD, "how reasoning is summarised"
        ),
        "model_verbosity": Key('"low" | "medium" | "high"', USED, ANY, THREAD, "how long answers are"),
        "model_supports_reasoning_summaries": Key(
            "bool", USED, ANY, THREAD, "whether to treat the model as a reasoning model"
        ),
        "model_catalog_json": Key("path", USED, TRUSTED, THREAD, "a file with a catalogue of models"),
        "service_tier": Key(
            "str", USED, ANY, THREAD, "fast, flex, default or another value that the provider supports"
        ),
        "personality": Key(
            '"none" | "friendly" | "pragmatic"',
            USED,
            ANY,
            THREAD,
            "the tone of answers, which is recorded and given to plugins",
        ),
        "tool_output_token_limit": Key("int>=0", USED, ANY, THREAD, "maximum number of tokens kept of a tool's output"),
        "oss_provider": Key(
            "str", USED, NEVER, THREAD, "the provider for --oss: ollama, lmstudio or a table of [model_providers]"
        ),
        "openai_base_url": Key("str", USED, NEVER, THREAD, "base URL of the provider openai"),
        "chatgpt_base_url": Key("str", USED, NEVER, THREAD, "base URL of ChatGPT's backend, for `apply`"),
        "responses_api_metadata": Key(
            "map[str]", USED, NEVER, KERNEL, "what x-codex-turn-metadata of requests says besides the turn"
        ),
        "responses.process_mode": Key(
            '"streaming" | "after_complete_response"', ACCEPTED, ANY, THREAD, "when calls of a response are run"
        ),
    },
    "Instructions and context": {
        "instructions": Key("str", ACCEPTED, TRUSTED, THREAD, "ignored, as in Codex"),
        "developer_instructions": Key("str", USED, TRUSTED, TURN, "added to the developer message"),
        "base_instructions": Key("str", USED, TRUSTED, THREAD, "replaces the built-in base instructions"),
        "model_instructions_file": Key(
            "path", USED, TRUSTED, THREAD, "a file that replaces the built-in base instructions"
        ),
        "experimental_instructions_file": Key("path", USED, TRUSTED, THREAD, "older name of model_instructions_file"),
        "include_permissions_instructions": Key(
            "bool", USED, TRUSTED, TURN, "describe its permissions to the model", "true"
        ),
        "include_apps_instructions": Key("bool", ACCEPTED, TRUSTED, THREAD, "describe apps to the model", "true"),
        "include_collaboration_mode_instructions": Key(
            "bool", USED, TRUSTED, TURN, "describe collaboration modes to the model", "true"
        ),
        "include_environment_context": Key(
            "bool", USED, ANY, TURN, "give the model the folder, shell and date", "true"
        ),
        "compact_prompt": Key("str", USED, ANY, TURN, "the prompt that asks for a summary"),
        "experimental_compact_prompt_file": Key("path", USED, TRUSTED, THREAD, "a file with that prompt"),
        "project_doc_max_bytes": Key(
            "int>=0", USED, ANY, TURN, "maximum number of bytes read from AGENTS.md files", "32768"
        ),
        "project_doc_fallback_filenames": Key(
            "list[str]", USED, ANY, TURN, "file names to try in folders without AGENTS.md", "[]"
        ),
        "project_root_markers": Key(
            "list[str]", USED, TRUSTED, THREAD, "names of files or folders that mark a project root", '[".git"]'
        ),
        "hide_agent_reasoning": Key("bool", USED, ANY, THREAD, "do not show reasoning", "false"),
        "show_raw_agent_reasoning": Key("bool", USED, ANY, THREAD, "also show raw reasoning", "false"),
    },
    "Permissions": {
        "approval_policy": Key(
            '"untrusted" | "on-failure" | "on-request" | "never" | table',
            USED,
            TRUSTED,
            THREAD,
            "when the user is asked for approval",
            "by trust",
        ),
        "approval_policy.granular": Key("table", USED, TRUSTED, THREAD, "which kinds of questions may be asked"),
        **{
            f"approval_policy.granular.{name}": Key(
                "bool", USED, TRUSTED, THREAD, "whether this kind of question may be asked", default
            )
            for name, default in (
                ("sandbox_approval", ""),
                ("rules", ""),
                ("mcp_elicitations", ""),
                ("skill_approval", "false"),
                ("request_permissions", "false"),
            )
        },
        "approvals_reviewer": Key(
            '"user" | "auto_review" | "guardian_subagent"',
            USED,
            TRUSTED,
            THREAD,
            "who approves: the user or a model",
            '"user"',
        ),
        "auto_review.policy": Key("str", USED, TRUSTED, THREAD, "additional rules for the reviewing model"),
        "auto_review.timeout_ms": Key(
            "int>=0", USED, TRUSTED, THREAD, "time limit for a review in milliseconds, at most 88,000", "88000"
        ),
        "auto_review.circuit_break_action": Key(
            '"default" | "strict"', ACCEPTED, TRUSTED, THREAD, "what happens after too many refusals"
        ),
        "auto_review.experimental_conversation_history_prompt": Key(
            "str", ACCEPTED, TRUSTED, THREAD, "how the conversation is introduced to the reviewing model"
        ),
        "auto_review.conversation_history_max_output_tokens": Key(
            "int>=1", ACCEPTED, TRUSTED, THREAD, "tokens of the conversation that the reviewing model gets"
        ),
        "sandbox_mode": Key(
            '"read-only" | "workspace-write" | "danger-full-access"',
            USED,
            TRUSTED,
            THREAD,
            "what commands may do",
            "by trust",
        ),
        "sandbox_workspace_write.writable_roots": Key(
            "list[path]", USED, TRUSTED, THREAD, "additional writable folders", "[]"
        ),
        "sandbox_workspace_write.network_access": Key(
            "bool", USED, TRUSTED, THREAD, "let commands use the network", "false"
        ),
        "sandbox_workspace_write.exclude_tmpdir_env_var": Key(
            "bool", USED, TRUSTED, THREAD, "the folder $TMPDIR is not writable", "false"
        ),
        "sandbox_workspace_write.exclude_slash_tmp": Key(
            "bool", USED, TRUSTED, THREAD, "the folder /tmp is not writable", "false"
        ),
        "default_permissions": Key(
            "str",
            USED,
            TRUSTED,
            THREAD,
            "a profile: :read-only, :workspace, :workspace-no-secrets, :danger-full-access or one of [permissions]",
        ),
        "sandbox_permissions": Key(
            "list[str]", USED, TRUSTED, THREAD, "the oldest notation, with values such as disk-full-read-access"
        ),
        "permissions.*.description": Key("str", USED, TRUSTED, THREAD, "the purpose of the profile"),
        "permissions.*.extends": Key("str", USED, TRUSTED, THREAD, "the profile that it extends"),
        "permissions.*.workspace_roots": Key(
            "map[bool]", USED, TRUSTED, THREAD, "folders that belong to the workspace"
        ),
        "permissions.*.filesystem": Key(
            "map[str | int | table]", USED, TRUSTED, THREAD, "read, write or deny for each path"
        ),
        "permissions.*.network": Key("table", USED, TRUSTED, THREAD, "whether and how the network can be used"),
        "projects.*.trust_level": Key(
            '"trusted" | "untrusted"', USED, TRUSTED, THREAD, "whether a project may have its own settings"
        ),
        "shell_environment_policy.inherit": Key(
            '"all" | "core" | "none"', USED, TRUSTED, THREAD, "environment variables that commands inherit", '"all"'
        ),
        "shell_environment_policy.ignore_default_excludes": Key(
            "bool",
            USED,
            TRUSTED,
            THREAD,
            "unset: drop variables that look like a key or password; true: drop nothing (Codex's default); false: drop *KEY*,"
            " *SECRET* and *TOKEN*",
        ),
        "shell_environment_policy.exclude": Key(
            "list[str]", USED, TRUSTED, THREAD, "patterns of variables to drop", "[]"
        ),
        "shell_environment_policy.set": Key("map[secret]", USED, TRUSTED, THREAD, "variables to set", "{}"),
        "shell_environment_policy.include_only": Key(
            "list[str]", USED, TRUSTED, THREAD, "patterns of the only variables to keep", "[]"
        ),
        "shell_environment_policy.filters": Key(
            'map["include" | "exclude"]', USED, TRUSTED, THREAD, "patterns of variables to keep or drop", "{}"
        ),
        "shell_environment_policy.experimental_use_profile": Key(
            "bool",
            USED,
            TRUSTED,
            THREAD,
            "run commands of `shell` and `local_shell` in a login shell of the user",
            "false",
        ),
        "allow_login_shell": Key("bool", USED, TRUSTED, THREAD, "the model may ask for a login shell", "true"),
        "windows": Key("table", INTERFACE, TRUSTED, THREAD, "Windows sandbox"),
    },
    "Model providers": {
        "model_providers.*.name": Key("str", USED, NEVER, THREAD, "the name shown to users", "the id"),
        "model_providers.*.base_url": Key("str", USED, NEVER, THREAD, "the URL of the API"),
        "model_providers.*.wire_api": Key(
            "str", USED, NEVER, THREAD, "the API, which selects the plugin", '"responses"'
        ),
        "model_providers.*.env_key": Key("str", USED, NEVER, THREAD, "the environment variable with the API key"),
        "model_providers.*.env_key_instructions": Key(
            "str", USED, NEVER, THREAD, "the message shown if that variable is missing"
        ),
        "model_providers.*.experimental_bearer_token": Key(
            "secret", USED, NEVER, THREAD, "the key itself; prefer env_key"
        ),
        "model_providers.*.query_params": Key("map[secret]", USED, NEVER, THREAD, "added to URLs", "{}"),
        "model_providers.*.http_headers": Key("map[secret]", USED, NEVER, THREAD, "sent with requests", "{}"),
        "model_providers.*.env_http_headers": Key(
            "map[str]", USED, NEVER, THREAD, "header to environment variable", "{}"
        ),
        "model_providers.*.request_max_retries": Key(
            "int>=0", USED, NEVER, THREAD, "number of retries of a request, at most 100", "4"
        ),
        "model_providers.*.stream_max_retries": Key(
            "int>=0", USED, NEVER, THREAD, "number of retries of a broken stream, at most 100", "5"
        ),
        "model_providers.*.stream_idle_timeout_ms": Key(
            "int>=0", USED, NEVER, THREAD, "time limit for silence in a stream, in milliseconds", "300000"
        ),
        "model_providers.*.response_timeout_ms": Key(
            "int>=1", USED, NEVER, THREAD, "time limit for the head of a response, in milliseconds", "120000"
        ),
        "model_providers.*.websocket_connect_timeout_ms": Key(
            "int>=0", USED, NEVER, THREAD, "timeout for WebSocket connections, in milliseconds", "15000"
        ),
        "model_providers.*.remote_compaction": Key(
            "bool", USED, NEVER, THREAD, "the server compacts; unset: OpenAI, Azure"
        ),
        "model_providers.*.request_compression": Key(
            '"zstd" | "none"', USED, NEVER, THREAD, "compression of requests; unset: for OpenAI with a login of ChatGPT"
        ),
        "model_providers.*.requires_openai_auth": Key("bool", USED, NEVER, THREAD, "use the OpenAI login", "false"),
        "model_providers.*.supports_websockets": Key("bool", USED, NEVER, THREAD, "WebSockets may be used", "false"),
        "model_providers.*.auth.command": Key("str", USED, NEVER, THREAD, "a program that prints a token"),
        "model_providers.*.auth.args": Key("list[str]", USED, NEVER, THREAD, "its arguments", "[]"),
        "model_providers.*.auth.timeout_ms": Key(
            "int>=1", USED, NEVER, THREAD, "its time limit in milliseconds", "5000"
        ),
        "model_providers.*.auth.refresh_interval_ms": Key(
            "int>=0",
            USED,
            NEVER,
            THREAD,
            "milliseconds after which a token is replaced; 0: only when it is refused",
            "300000",
        ),
        "model_providers.*.auth.cwd": Key("folder", USED, NEVER, THREAD, "its working folder"),
        "model_providers.*.aws.profile": Key("str", REFUSED, NEVER, THREAD, "AWS profile"),
        "model_providers.*.aws.region": Key("str", REFUSED, NEVER, THREAD, "AWS region"),
        "model_providers.*.*": Key("any", USED, NEVER, THREAD, "an option of the plugin that serves wire_api"),
    },
    "Tools": {
        "web_search": Key(
            '"disabled" | "cached" | "live"', USED, NEVER, TURN, "the provider's web search", '"disabled"'
        ),
        "tools.web_search": Key(
            "bool | table",
            USED,
            NEVER,
            TURN,
            "options: context_size, allowed_domains, location; true: older form of web_search",
        ),
        "tools.web_search_request": Key("bool", USED, NEVER, TURN, "oldest form of web_search"),
        "tools.client_search_provider": Key(
            '"standalone" | "search_mcp"', ACCEPTED, TRUSTED, TURN, "which search the client runs"
        ),
        "tools.update_plan": Key(
            "bool | table", USED, TRUSTED, TURN, "offer update_plan: {enabled = true}, or true", "false"
        ),
        "tools.view_image": Key("bool", USED, TRUSTED, TURN, "offer view_image", "true"),
        "tools.experimental_request_user_input": Key("table", USED, TRUSTED, TURN, "offer request_user_input"),
        "experimental_use_unified_exec_tool": Key(
            "bool", ACCEPTED, TRUSTED, THREAD, "older form of features.unified_exec"
        ),
        "background_terminal_max_timeout": Key(
            "int>=0", USED, TRUSTED, THREAD, "maximum wait for a session in milliseconds"
        ),
        "tool_suggest": Key("table", ACCEPTED, TRUSTED, THREAD, "suggested tools"),
        "code_mode.heartbeat_interval_s": Key(
            "int>=0", ACCEPTED, TRUSTED, THREAD, "seconds between signs of life of a program"
        ),
        "goals.max_goal_token_budget": Key(
            "int>=1", USED, NEVER, THREAD, "largest budget of a goal, and the default one"
        ),
        "mcp_servers.*.command": Key("str", USED, TRUSTED, TURN, "the server's program"),
        "mcp_servers.*.args": Key("list[str]", USED, TRUSTED, TURN, "its arguments", "[]"),
        "mcp_servers.*.env": Key("map[secret]", USED, TRUSTED, TURN, "environment variables for it", "{}"),
        "mcp_servers.*.env_vars": Key(
            "list[str | table]", USED, TRUSTED, TURN, "names of variables that it inherits", "[]"
        ),
        "mcp_servers.*.cwd": Key("str", USED, TRUSTED, TURN, "its working folder (default: the session's)"),
        "mcp_servers.*.sandbox": Key("str", USED, TRUSTED, TURN, "the permission profile that confines the program"),
        "mcp_servers.*.url": Key("str", USED, TRUSTED, TURN, "the URL of a server that is reached over HTTP"),
        "mcp_servers.*.bearer_token_env_var": Key(
            "str", USED, TRUSTED, TURN, "the environment variable with its token"
        ),
        "mcp_servers.*.http_headers": Key("map[secret]", USED, TRUSTED, TURN, "sent with requests", "{}"),
        "mcp_servers.*.env_http_headers": Key("map[str]", USED, TRUSTED, TURN, "header to environment variable", "{}"),
        "mcp_servers.*.http_headers_helper": Key("any", REFUSED, TRUSTED, TURN, "a program that prints headers"),
        "mcp_servers.*.enabled": Key("bool", USED, TRUSTED, TURN, "whether to start it", "true"),
        "mcp_servers.*.required": Key("bool", USED, TRUSTED, TURN, "whether a session fails without it", "false"),
        "mcp_servers.*.startup_timeout_sec": Key(
            "float", USED, TRUSTED, TURN, "time limit for its start in seconds", "30"
        ),
        "mcp_servers.*.startup_timeout_ms": Key("int>=0", USED, TRUSTED, TURN, "the same in milliseconds"),
        "mcp_servers.*.tool_timeout_sec": Key("float", USED, TRUSTED, TURN, "time limit for a call in seconds", "120"),
        "mcp_servers.*.enabled_tools": Key("list[str]", USED, TRUSTED, TURN, "the only tools to offer; by default all"),
        "mcp_servers.*.disabled_tools": Key("list[str]", USED, TRUSTED, TURN, "tools not to offer", "[]"),
        "mcp_servers.*.supports_parallel_tool_calls": Key("bool", USED, TRUSTED, TURN, "calls may overlap", "false"),
        "mcp_servers.*.default_tools_approval_mode": Key(
            '"auto" | "prompt" | "writes" | "approve"',
            USED,
            TRUSTED,
            TURN,
            "ask as the tool's annotations say, always, unless it only reads, or never",
            '"auto"',
        ),
        "mcp_servers.*.tools": Key("map[table]", USED, TRUSTED, TURN, 'by tool: {approval_mode = "..."}', "{}"),
        "mcp_servers.*.scopes": Key("list[str]", USED, TRUSTED, TURN, "OAuth scopes to request"),
        "mcp_servers.*.oauth": Key(
            "table", USED, TRUSTED, TURN, "OAuth client: client_id, client_secret, callback_url", "{}"
        ),
        "mcp_servers.*.oauth_resource": Key("str", USED, TRUSTED, TURN, "OAuth resource"),
        "mcp_servers.*.auth": Key(
            '"oauth" | "chatgpt" | "ema_auth"', USED, TRUSTED, TURN, "which login a server over HTTP gets"
        ),
        "mcp_servers.*.environment_id": Key("str", USED, TRUSTED, TURN, "where it runs: only local", '"local"'),
        "mcp_servers.*.name": Key("str", USED, TRUSTED, TURN, "the name shown to users"),
        "mcp_oauth_credentials_store": Key(
            '"auto" | "file" | "keyring"', USED, TRUSTED, TURN, "where tokens of logins are stored", '"auto"'
        ),
        "mcp_oauth_callback_port": Key("int>=0", USED, TRUSTED, TURN, "port for the browser's answer to a login"),
        "mcp_oauth_callback_url": Key("str", USED, TRUSTED, TURN, "address of that answer, if it is not this machine"),
        "mcp_optional_startup_grace_ms": Key(
            "int>=0",
            USED,
            TRUSTED,
            TURN,
            "how long the first request waits for servers that are not required, in milliseconds; 0: their own time limit",
            "1000",
        ),
        "mcp_enterprise_managed_auth.idp": Key(
            "table",
            ACCEPTED,
            NEVER,
            TURN,
            'the identity provider of `auth = "ema_auth"`: issuer, client_id, client_secret, token_endpoint_auth_method',
        ),
        "agents.max_threads": Key("int>=1", USED, AtMost(6), THREAD, "maximum number of parallel sub-agents", "6"),
        "agents.max_depth": Key("int>=0", USED, AtMost(1), THREAD, "how deep sub-agents may be nested", "1"),
        "agents.enabled": Key("bool", USED, TRUSTED, THREAD, "offer the tools for sub-agents", "true"),
        "agents.max_concurrent_threads_per_session": Key(
            "int>=1", USED, AtMost(3), THREAD, "newer name of agents.max_threads"
        ),
        "agents.job_max_runtime_seconds": Key(
            "int>=1", ACCEPTED, TRUSTED, THREAD, "time limit for an agent job in seconds"
        ),
        "agents.interrupt_message": Key(
            "bool", USED, TRUSTED, THREAD, "tell the model that a turn was interrupted", "true"
        ),
        "agents.default_subagent_model": Key(
            "str", USED, TRUSTED, THREAD, "the model of sub-agents (default: the thread's model)"
        ),
        "agents.default_subagent_reasoning_effort": Key(
            "str", USED, TRUSTED, THREAD, "the reasoning effort of sub-agents (default: the thread's reasoning effort)"
        ),
        "agents.*.description": Key("str", USED, TRUSTED, THREAD, "the agent's purpose"),
        "agents.*.instructions": Key("str", USED, TRUSTED, THREAD, "its base instructions"),
        "agents.*.model": Key("str", USED, TRUSTED, THREAD, "its model (default: the thread's model)"),
        "agents.*.model_reasoning_effort": Key(
            "str", USED, TRUSTED, THREAD, "its reasoning effort (default: the thread's reasoning effort)"
        ),
        "agents.*.permissions": Key(
            "str", USED, TRUSTED, THREAD, "its permission profile; it can only narrow the session's permissions"
        ),
        "agents.*.approval_policy": Key(
            '"untrusted" | "on-failure" | "on-request" | "never"',
            USED,
            TRUSTED,
            THREAD,
            "its approval policy: the session's policy or a stricter one",
        ),
        "agents.*.allowed_tools": Key("list[str]", USED, TRUSTED, THREAD, "patterns of the only tools to offer"),
        "agents.*.disallowed_tools": Key("list[str]", USED, TRUSTED, THREAD, "patterns of tools not to offer", "[]"),
        "agents.*.context": Key("list[str]", USED, TRUSTED, THREAD, "the only context sources to ask"),
        **_limit_keys("agents.*", TRUSTED),
        "agents.*.config_file": Key("str", USED, TRUSTED, THREAD, "a file with further settings of the agent"),
        "agents.*.nickname_candidates": Key("list[str]", ACCEPTED, TRUSTED, THREAD, "names to show users"),
        "agents.*.skills": Key("any", ACCEPTED, TRUSTED, THREAD, "its skills"),
        "agents.*.mcp": Key("any", ACCEPTED, TRUSTED, THREAD, "its MCP servers"),
        "skills": Key("table", ACCEPTED, TRUSTED, TURN, "skills"),
        "skills.include_instructions": Key("bool", USED, TRUSTED, TURN, "list the skills for the model", "true"),
        "skills.max_context_tokens": Key(
            "int>=1", USED, TRUSTED, TURN, "tokens for that list; without it 2 % of the window"
        ),
        "skills.bundled.enabled": Key("bool", USED, TRUSTED, TURN, "use the skills that come with the program", "true"),
        "skills.config": Key(
            "list[table]", USED, TRUSTED, TURN, "skills to switch on or off: `{name or path, enabled}`", "[]"
        ),
        "memories": Key(
            "table", ACCEPTED, TRUSTED, KERNEL, "memories; the plugin memory_mode reads two of its settings"
        ),
        "apps": Key("table", ACCEPTED, TRUSTED, THREAD, "apps"),
        "orchestrator.skills.enabled": Key("bool", ACCEPTED, TRUSTED, THREAD, "skills of an orchestrator"),
        "orchestrator.mcp.enabled": Key("bool", ACCEPTED, TRUSTED, THREAD, "MCP servers of an orchestrator"),
        "cloud.skills.enabled": Key("bool", ACCEPTED, TRUSTED, THREAD, "skills of the cloud"),
        "browser_use": Key("table", INTERFACE, NEVER, THREAD, "the browser of the desktop app"),
        "computer_use": Key("table", INTERFACE, NEVER, THREAD, "the desktop app's use of other programs"),
        "plugins": Key("table", ACCEPTED, TRUSTED, THREAD, "plugins of Codex (see [framework] for this framework's)"),
        "marketplaces": Key("table", ACCEPTED, TRUSTED, THREAD, "sources of Codex's plugins"),
        "hooks": Key("table", ACCEPTED, TRUSTED, KERNEL, "commands to run at events of a session"),
    },
    "Sessions, login and environment": {
        "profile": Key("str", USED, NEVER, THREAD, "the profile to use"),
        "profiles.*": Key(
            "profile", USED, NEVER, THREAD, "a named set of settings; it may contain any key of this page"
        ),
        "history.persistence": Key(
            '"save-all" | "none"', INTERFACE, TRUSTED, TURN, "whether prompts are saved", '"save-all"'
        ),
        "history.max_bytes": Key("int>=0", INTERFACE, TRUSTED, TURN, "size of the prompt history"),
        "notify": Key(
            "list[str]", ACCEPTED, NEVER, THREAD, "a program to run when a turn ends; the plugin notify runs it"
        ),
        "file_opener": Key(
            '"vscode" | "vscode-insiders" | "windsurf" | "cursor" | "none"',
            INTERFACE,
            ANY,
            THREAD,
            "the editor that opens links to files",
        ),
        "forced_login_method": Key('"chatgpt" | "api"', USED, NEVER, THREAD, "the only way to log in"),
        "forced_chatgpt_workspace_id": Key("str | list[str]", USED, NEVER, THREAD, "the only workspaces to log in to"),
        "cli_auth_credentials_store": Key(
            '"file" | "keyring" | "auto" | "ephemeral"', USED, NEVER, THREAD, "where logins are"
        ),
        "apps_mcp_product_sku": Key("str", INTERFACE, NEVER, THREAD, "product id for apps"),
        "sqlite_home": Key("path", INTERFACE, TRUSTED, THREAD, "the folder for databases"),
        "log_dir": Key("path", INTERFACE, TRUSTED, THREAD, "the folder for logs"),
        "rollout_trace": Key("table", INTERFACE, TRUSTED, THREAD, "traces of rollouts"),
        "allow_symlinked_codex_home": Key(
            "bool", INTERFACE, NEVER, KERNEL, "$CODEX_HOME may be a symlink, as it may here"
        ),
        "thread_unload_delay_secs": Key("int>=0", USED, TRUSTED, THREAD, "when the app server unloads a thread"),
        "debug": Key("table", INTERFACE, TRUSTED, THREAD, "debugging settings"),
        "analytics.enabled": Key("bool", INTERFACE, TRUSTED, THREAD, "whether to send usage data"),
        "feedback.enabled": Key("bool", INTERFACE, TRUSTED, THREAD, "whether to offer the feedback command"),
        "check_for_update_on_startup": Key("bool", INTERFACE, TRUSTED, THREAD, "check for a newer version", "true"),
        "suppress_unstable_features_warning": Key(
            "bool", INTERFACE, TRUSTED, THREAD, "do not warn about unstable features"
        ),
        "disable_paste_burst": Key("bool", INTERFACE, TRUSTED, THREAD, "disable the detection of pasted text"),
        "tui": Key("table", USED, ANY, THREAD, "the terminal: `theme`, `alternate_screen`, and notifications"),
        "notice": Key("table", INTERFACE, TRUSTED, THREAD, "notices that were already shown"),
        "desktop": Key("table", INTERFACE, TRUSTED, THREAD, "the desktop app"),
        "audio": Key("table", INTERFACE, TRUSTED, THREAD, "audio"),
        "realtime.version": Key(
            '"v1" | "v2" | "v3"', USED, TRUSTED, THREAD, "the realtime protocol; v3 is unsupported", '"v2"'
        ),
        "realtime.type": Key(
            '"conversational" | "transcription"', USED, TRUSTED, THREAD, "what voice models do", '"conversational"'
        ),
        "realtime.transport": Key('"webrtc" | "websocket"', INTERFACE, TRUSTED, THREAD, "how an interface connects"),
        "realtime.voice": Key("str", USED, TRUSTED, THREAD, "the voice; unset: cove for v1, marin for v2"),
        "experimental_realtime_ws_base_url": Key(
            "str", USED, NEVER, THREAD, "the realtime server; unset: the provider's"
        ),
        "experimental_realtime_webrtc_call_base_url": Key("str", USED, NEVER, THREAD, "the same for WebRTC offers"),
        "experimental_realtime_ws_model": Key("str", USED, TRUSTED, THREAD, "the voice model", '"gpt-realtime-1.5"'),
        "experimental_realtime_ws_backend_prompt": Key("str", USED, TRUSTED, THREAD, "the voice model's instructions"),
        "experimental_realtime_ws_startup_context": Key(
            "str", USED, TRUSTED, THREAD, "added to them; unset: a summary"
        ),
        "experimental_realtime_start_instructions": Key(
            "str", USED, TRUSTED, THREAD, "for the thread's model meanwhile"
        ),
        "experimental_realtime_*": Key("any", INTERFACE, TRUSTED, THREAD, "voice"),
        "experimental_thread_store": Key("any", ACCEPTED, TRUSTED, THREAD, "a different store for sessions"),
        "experimental_thread_config_endpoint": Key("str", ACCEPTED, TRUSTED, THREAD, "a different source of settings"),
        "otel.environment": Key("str", USED, NEVER, THREAD, "a label", '"dev"'),
        "otel.log_user_prompt": Key("bool", USED, NEVER, THREAD, "include prompts in logs", "false"),
        "otel.log_agent_responses": Key("bool", ACCEPTED, NEVER, THREAD, "include answers in logs"),
        "otel.log_guardian_assessments": Key("bool", ACCEPTED, NEVER, THREAD, "include assessments in logs"),
        "otel.log_sse_deltas": Key("bool", ACCEPTED, NEVER, THREAD, "log each delta of a stream"),
        "otel.tool_result.max_bytes": Key("int>=0", USED, NEVER, THREAD, "bytes of a tool's result in logs", "2048"),
        "otel.headers_helper": Key("path", ACCEPTED, NEVER, THREAD, "a program that prints headers"),
        "otel.headers_helper_refresh_interval_ms": Key(
            "int>=1", ACCEPTED, NEVER, THREAD, "milliseconds after which it is asked again"
        ),
        "otel.exporter": Key("str | table", USED, NEVER, THREAD, "where logs go"),
        "otel.trace_exporter": Key("str | table", USED, NEVER, THREAD, "where spans go"),
        "otel.metrics_exporter": Key("str | table", USED, NEVER, THREAD, "where metrics go"),
        "otel.span_attributes": Key("map[str]", USED, NEVER, THREAD, "added to spans"),
        "otel.tracestate": Key("table", USED, NEVER, THREAD, "added to spans"),
        "features.*": Key("bool | table", USED, TRUSTED, THREAD, "whether a feature is on; see below"),
    },
    "Removed from Codex": {
        name: Key("any", ACCEPTED, TRUSTED, THREAD, "no longer has an effect in Codex")
        for name in (
            "commit_attribution",
            "disable_response_storage",
            "experimental_sandbox_command_assessment",
            "experimental_use_exec_command_tool",
            "experimental_use_freeform_apply_patch",
            "experimental_use_rmcp_client",
            "ghost_snapshot",
            "hide_full_access_warning",
            "include_apply_patch_tool",
            "include_plan_tool",
            "include_view_image_tool",
            "js_repl_node_module_dirs",
            "js_repl_node_path",
            "model_max_output_tokens",
            "model_reasoning_summary_format",
            "preferred_auth_method",
            "responses_originator_header_internal_override",
            "use_experimental_reasoning_summary",
            "windows_wsl_setup_acknowledged",
            "zsh_path",
        )
    },
    "This framework": {
        "framework.plugins.disabled": Key("list[str]", USED, NEVER, KERNEL, "plugins that are not loaded", "[]"),
        "framework.plugins.prefer": Key(
            "list[str]", USED, NEVER, KERNEL, "plugins that win if two plugins offer the same name", "[]"
        ),
        "framework.plugins.paths": Key(
            "list[path]",
            USED,
            NEVER,
            KERNEL,
            "files that are loaded as plugins; a project's own file cannot set it",
            "[]",
        ),
        "framework.plugins.*": Key("table", USED, TRUSTED, THREAD, "a plugin's own settings"),
        "framework.compactor": Key(
            "str", USED, TRUSTED, TURN, "how conversations are shortened", "the first available"
        ),
        "framework.sandbox": Key("str", USED, NEVER, KERNEL, "the sandbox to use", "the first available"),
        "framework.keep_variables": Key(
            "list[str]",
            USED,
            NEVER,
            THREAD,
            "patterns of variables that commands inherit although they look like keys",
            "[]",
        ),
        "framework.sandbox_floor": Key(
            "list[str]",
            USED,
            NEVER,
            THREAD,
            "protections that the sandbox must enforce, or no command is run; `sandbox doctor` lists the values",
            "[]",
        ),
        "framework.sandbox_limits.processes": Key(
            "int>=0",
            USED,
            NEVER,
            THREAD,
            "maximum number of concurrent processes and threads of a command; 0: no limit",
            "4096",
        ),
        "framework.sandbox_limits.memory_mb": Key(
            "int>=0", USED, NEVER, THREAD, "address space of each process in MB; 0: no limit", "0"
        ),
        "framework.sandbox_limits.file_size_mb": Key(
            "int>=0", USED, NEVER, THREAD, "size of each written file in MB; 0: no limit", "0"
        ),
        "framework.sandbox_private_tmp": Key("bool", USED, NEVER, THREAD, "give commands a private /tmp", "false"),
        "framework.sandbox_loopback": Key(
            "bool", USED, NEVER, THREAD, "allow the loopback address even if the network is off", "false"
        ),
        **_limit_keys("framework", NEVER),
        "framework.thread_store": Key("str", USED, NEVER, THREAD, "where sessions are stored", '"rollout"'),
        "framework.unknown_keys": Key(
            '"error" | "warn"',
            USED,
            NEVER,
            THREAD,
            "keys that are not on this page; unset: a warning, and an error for a likely mistake or in a table of permissions",
        ),
    },
}
"""The keys by topic, in the order of the reference page."""

KEYS: dict[str, Key] = {name: key for section in SECTIONS.values() for name, key in section.items()}

_FEATURES = """
    agent_message_board agent_message_board_mcp analytics_plan_history api_key_cyber_access_programs api_key_model_discovery
    app_server_websocket_compression apply_patch_freeform apply_patch_preserve_line_endings apply_patch_streaming_events apps
    apps_early_resource_discovery apps_mcp_path_override artifact async_compaction async_compaction_root_only auth_elicitation
    background_paginated_rollout_migration bedrock_setup_wizard browser_annotation_api browser_use browser_use_external
    browser_use_full_cdp_access catalog_apps_instructions child_agents_md chronicle cli_daybreak cli_resume_account_check
    code_mode code_mode_buffered_exec code_mode_host code_mode_host_grpc code_mode_host_output_truncation code_mode_interrupt
    code_mode_only code_mode_only_strict_3p_tools code_mode_prewarm code_mode_tool_description_first code_mode_tool_search
    codex_apps_mcp_2026_07_28 codex_git_commit codex_hooks collab collaboration_modes command_sessions_world_state
    compaction_image_budget computer_use concurrent_reasoning_summaries content_item_kinds context_management credential_masking
    critical_path_timing current_time_reminder cwd_relative_turn_diffs daemon_auto_start daybreak_program_propagation
    default_mode_request_user_input defer_mailbox_preemption deferred_executor deferred_tool_world_state
    elevated_windows_sandbox enable_experimental_windows_sandbox enable_fanout enable_mcp_apps enable_request_compression
    exec_permission_approvals exec_policy executed_tool_call_metadata executor_capability_discovery
    executor_capability_discovery_v2 experimental_use_rmcp_client experimental_windows_sandbox external_agent_memory_import
    external_migration fast_mode file_backed_tool_audio gateway_setup_wizard gcp_setup_wizard ghost_commit goals
    guardian_approval guardian_conversation_history_tools guardian_denial_reconsideration
    guardian_enhanced_node_repl_transcripts guardian_ext guardian_include_additional_context guardian_native_multi_agent_history
    guardian_nested_approval_context guardian_node_repl_transcript_images guardian_recorded_items
    guardian_reuse_parent_compaction guardian_root_handoff_context guardian_trust_orchestrator_connectors guardianv2
    guardianv2_decisions_comparison guardianv3 hooks hosted_search_policy image_detail_original image_generation
    image_generation_animation image_resize_notice imagegenext in_app_browser in_app_chat in_app_dictation
    in_app_local_automation in_app_updates in_app_voice incremental_exec_tools incremental_tools incremental_tools_legacy
    incremental_tools_legacy_gcp instant_interrupt interrupt_on_cancel item_ids js_repl js_repl_tools_only
    local_thread_store_compression local_thread_store_shared_compression login_shell_package_path mcp_2026_07_28
    mcp_connection_sharing mcp_lazy_stdio_startup mcp_oauth_refresh_coordination mcp_shared_repl_cwd mcp_tool_list_changed
    memories mentions_v2 model_catalog_in_context multi_agent multi_agent_mode multi_agent_v2 multi_agent_v2_dynamic_tools
    multi_env_copy_file multi_environment_mcp network_proxy non_prefixed_mcp_tool_names nonfatal_clock_read_errors
    omit_app_server_notification_media omit_skill_descriptions output_token_replay parallel per_environment_context personality
    plugin_discovery_prefetch plugin_hooks plugin_sharing plugins powershell_shell_version prediction_preserve_parent_tools
    prefer_mxc prevent_idle_sleep psp realtime_conversation reasoning_effort_override recommended_plugins remote_compaction
    remote_compaction_v2 remote_control remote_models remote_plugin request_permissions_tool request_rule resize_all_images
    respect_system_proxy responses_websockets responses_websockets_v2 restored_history_prewarm retain_client_developer_messages
    retain_client_tool_outputs rmcp_client rollout_budget runtime_agent_instances runtime_metrics safe_image_decoder search_tool
    secret_auth_storage send_async_message send_message_to_user_async shell_snapshot shell_snapshot_v2 shell_tool shell_zsh_fork
    simplified_selection_hints skill_catalog_deltas skill_env_var_dependency_prompt skill_mcp_dependency_install skill_search
    skills skip_host_skill_discovery sleep_tool sqlite stable_environment_tools standalone_web_search steer step_model_switching
    subagent_default_context_limits subagent_thread_environments suppress_model_change_announcements system_proxy_fallback
    terminal_resize_reflow terminal_visualization_instructions token_budget tool_call_mcp_elicitation tool_search
    tool_search_always_defer_mcp_tools tool_suggest transcript_v2 tui_app_server tui_extensions_statusline tui_multi_backend
    tui_workspace ultrafast_mode unavailable_dummy_tools unbounded_connection_retries undo unified_exec unified_exec_tty
    unified_exec_zsh_fork unified_image_budget untrusted_as_tool_output use_agent_identity use_legacy_landlock
    use_linux_sandbox_bwrap use_xaa utc_environment_date view_image view_image_tool wake_on_agent_messages web_search
    web_search_cached web_search_request windows_sandbox_service workspace_dependencies workspace_owner_usage_nudge worktrees
    write_stdin_approval
"""


USED_FEATURES: dict[str, Feature] = {
    "code_mode": Feature(TRUSTED, THREAD),
    "code_mode_only": Feature(TRUSTED, THREAD),
    "codex_hooks": Feature(NEVER, THREAD),
    "default_mode_request_user_input": Feature(TRUSTED, TURN),
    "enable_request_compression": Feature(TRUSTED, THREAD),
    "exec_permission_approvals": Feature(TRUSTED, THREAD),
    "fast_mode": Feature(TRUSTED, THREAD),
    "ghost_commit": Feature(TRUSTED, THREAD),
    "goals": Feature(TRUSTED, THREAD),
    "hooks": Feature(NEVER, THREAD),
    "image_generation": Feature(NEVER, TURN),
    "image_generation_animation": Feature(TRUSTED, TURN),
    "mcp_2026_07_28": Feature(TRUSTED, THREAD),
    "multi_agent": Feature(TRUSTED, THREAD),
    "multi_agent_v2": Feature(TRUSTED, THREAD, {"max_concurrent_threads_per_session": AtMost(4)}),
    "non_prefixed_mcp_tool_names": Feature(TRUSTED, THREAD),
    "realtime_conversation": Feature(TRUSTED, THREAD),
    "remote_compaction_v2": Feature(TRUSTED, THREAD),
    "request_permissions_tool": Feature(TRUSTED, TURN),
    "responses_websockets": Feature(TRUSTED, THREAD),
    "send_message_to_user_async": Feature(TRUSTED, THREAD),
    "shell_snapshot": Feature(TRUSTED, THREAD),
    "shell_tool": Feature(TRUSTED, TURN),
    "sleep_tool": Feature(TRUSTED, THREAD),
    "tool_search_always_defer_mcp_tools": Feature(TRUSTED, THREAD),
    "unified_exec": Feature(TRUSTED, TURN),
    "web_search": Feature(NEVER, TURN),
    "web_search_cached": Feature(NEVER, TURN),
    "web_search_request": Feature(NEVER, TURN),
}
"""The features that have an effect here."""


Facts: TypeAlias = "Key | Feature"


def is_name(dotted: str) -> bool:
    """Return whether a dotted name is a setting or a table of settings."""
    return dotted in KEYS or dotted in table_patterns()


def features() -> frozenset[str]:
    """Return the names allowed in ``[features]``: Codex's stable, experimental, deprecated and removed features."""
    return frozenset(_FEATURES.split())


@cache
def table_patterns() -> frozenset[str]:
    """Return the patterns of the tables whose entries are in the schema."""
    patterns = set()
    for name in KEYS:
        while "." in name:
            name = name.rpartition(".")[0]  # noqa: PLW2901  # goes up one table
            patterns.add(name)
    return frozenset(patterns)


def child_pattern(parent: str, name: str) -> str | None:
    """Return the schema's pattern for an entry of a table, or None if the entry is unknown."""
    prefix = f"{parent}." if parent else ""
    exact = prefix + name
    if "." not in name and "*" not in name and (exact in KEYS or exact in table_patterns()):
        return exact
    star = f"{prefix}*"
    if star in KEYS or star in table_patterns():
        return star
    if not parent and name.startswith("experimental_realtime_"):
        return "experimental_realtime_*"
    return None


def keys_of(pattern: str) -> list[Key]:
    """Return the key with a pattern, and all keys that a table with this pattern can have."""
    return [key for name, key in KEYS.items() if name == pattern or name.startswith(f"{pattern}.")]


def find_keys(
    tables: Mapping[str, Any], wanted: Callable[[Facts], bool], path: tuple[str, ...] = (), pattern: str = ""
) -> Iterator[tuple[str, ...]]:
    """Yield the keys that are set and wanted. A table is yielded as a whole if all keys that it can have are wanted.

    Args:
        path: The place of ``tables``.
        pattern: The same place in the schema.
    """
    for name, value in tables.items():
        child = child_pattern(pattern, name)
        if child is None:
            continue
        feature = USED_FEATURES.get(name) if child == "features.*" else None
        if wanted(feature) if feature is not None else all(map(wanted, keys_of(child))):
            yield (*path, name)
        elif isinstance(value, Mapping) and child in table_patterns():
            yield from find_keys(value, wanted, (*path, name), child)


def limits_on_projects() -> Iterator[tuple[tuple[str, ...], AtMost]]:
    """Yield the keys that a project can only lower."""
    for name, key in KEYS.items():
        if isinstance(key.projects, AtMost):
            yield tuple(name.split(".")), key.projects
    for name, feature in USED_FEATURES.items():
        for limit, most in feature.limits.items():
            yield ("features", name, limit), most
