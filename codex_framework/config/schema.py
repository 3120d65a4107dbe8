"""The schema of ``config.toml``: the type and default of every key, and whether it has an effect here.

It consists of plain tuples, because it is imported at every start. ``*`` in a key matches any name. The types are ``str``,
``int``, ``int>=0``, ``float``, ``bool``, ``path``, ``"a"`` (exactly this string), ``list[T]``, ``map[T]`` (a table from any
name to ``T``), ``table`` (a table whose content is not checked) and ``T | T`` (either type).

A key is *used* if it has an effect in this distribution, and *refused* if it is an error where it would be used. Otherwise it is
*accepted*: Codex supports it, so it is not an error, but it has no effect here yet.
"""

from __future__ import annotations

from codex_framework.config.key import Key, limit_keys

__all__ = ["KEYS", "SECTIONS", "USED_FEATURES", "Key", "features", "is_name"]

_USED = True

SECTIONS: dict[str, dict[str, Key]] = {
    "Model": {
        "model": Key("str", "the model's name", '"gpt-5.5"', _USED),
        "review_model": Key("str", "the model for reviews; without it that of the thread", "", _USED),
        "model_provider": Key("str", "a built-in provider, or a table of [model_providers]", '"openai"', _USED),
        "model_context_window": Key(
            "int>=1", "context window in tokens; overrides the model's own, up to its largest", "", _USED
        ),
        "model_auto_compact_token_limit": Key(
            "int", "number of tokens at which history is compacted, if less than 90 % of the window", "", _USED
        ),
        "model_auto_compact_token_limit_scope": Key("str", "which tokens count towards that limit"),
        "model_reasoning_effort": Key(
            "str", "none, minimal, low, medium, high, xhigh or another value that the model supports", "", _USED
        ),
        "plan_mode_reasoning_effort": Key(
            "str", "reasoning effort in plan mode, unless the client sets one", "", _USED
        ),
        "model_reasoning_summary": Key(
            '"auto" | "concise" | "detailed" | "none"', "how reasoning is summarised", "", _USED
        ),
        "model_verbosity": Key('"low" | "medium" | "high"', "how long answers are", "", _USED),
        "model_supports_reasoning_summaries": Key("bool", "whether to treat the model as a reasoning model", "", _USED),
        "model_catalog_json": Key("path", "a file with a catalogue of models", "", _USED),
        "service_tier": Key("str", "fast, flex, default or another value that the provider supports", "", _USED),
        "personality": Key(
            '"none" | "friendly" | "pragmatic"',
            "the tone of answers, which is recorded and given to plugins",
            "",
            _USED,
        ),
        "tool_output_token_limit": Key("int>=0", "maximum number of tokens kept of a tool's output", "", _USED),
        "oss_provider": Key(
            "str", "the provider for --oss: ollama, lmstudio or a table of [model_providers]", used=_USED
        ),
        "openai_base_url": Key("str", "base URL of the provider openai", "", _USED),
        "chatgpt_base_url": Key("str", "base URL of ChatGPT's backend"),
    },
    "Instructions and context": {
        "instructions": Key("str", "ignored, as in Codex"),
        "developer_instructions": Key("str", "added to the developer message", "", _USED),
        "base_instructions": Key("str", "replaces the built-in base instructions", "", _USED),
        "model_instructions_file": Key("path", "a file that replaces the built-in base instructions", "", _USED),
        "experimental_instructions_file": Key("path", "older name of model_instructions_file", "", _USED),
        "include_permissions_instructions": Key("bool", "describe its permissions to the model", "true", _USED),
        "include_apps_instructions": Key("bool", "describe apps to the model", "true"),
        "include_collaboration_mode_instructions": Key(
            "bool", "describe collaboration modes to the model", "true", _USED
        ),
        "include_environment_context": Key("bool", "give the model the folder, shell and date", "true", _USED),
        "compact_prompt": Key("str", "the prompt that asks for a summary", "", _USED),
        "experimental_compact_prompt_file": Key("path", "a file with that prompt", "", _USED),
        "project_doc_max_bytes": Key("int>=0", "maximum number of bytes read from AGENTS.md files", "32768", _USED),
        "project_doc_fallback_filenames": Key(
            "list[str]", "file names to try in folders without AGENTS.md", "[]", _USED
        ),
        "project_root_markers": Key(
            "list[str]", "names of files or folders that mark a project root", '[".git"]', _USED
        ),
        "hide_agent_reasoning": Key("bool", "do not show reasoning", "false", _USED),
        "show_raw_agent_reasoning": Key("bool", "also show raw reasoning", "false", _USED),
    },
    "Permissions": {
        "approval_policy": Key(
            '"untrusted" | "on-failure" | "on-request" | "never" | table',
            "when the user is asked for approval",
            "by trust",
            _USED,
        ),
        "approval_policy.granular": Key("table", "which kinds of questions may be asked", "", _USED),
        **{
            f"approval_policy.granular.{name}": Key(
                "bool", "whether this kind of question may be asked", default, _USED
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
            '"user" | "auto_review" | "guardian_subagent"', "who approves: the user or a model", '"user"', _USED
        ),
        "auto_review.policy": Key("str", "additional rules for the reviewing model", "", _USED),
        "sandbox_mode": Key(
            '"read-only" | "workspace-write" | "danger-full-access"', "what commands may do", "by trust", _USED
        ),
        "sandbox_workspace_write.writable_roots": Key("list[path]", "additional writable folders", "[]", _USED),
        "sandbox_workspace_write.network_access": Key("bool", "let commands use the network", "false", _USED),
        "sandbox_workspace_write.exclude_tmpdir_env_var": Key(
            "bool", "the folder $TMPDIR is not writable", "false", _USED
        ),
        "sandbox_workspace_write.exclude_slash_tmp": Key("bool", "the folder /tmp is not writable", "false", _USED),
        "default_permissions": Key(
            "str",
            "a profile: :read-only, :workspace, :workspace-no-secrets, :danger-full-access or one of [permissions]",
            "",
            _USED,
        ),
        "sandbox_permissions": Key(
            "list[str]", "the oldest notation, with values such as disk-full-read-access", "", _USED
        ),
        "permissions.*.description": Key("str", "the purpose of the profile", "", _USED),
        "permissions.*.extends": Key("str", "the profile that it extends", "", _USED),
        "permissions.*.workspace_roots": Key("map[bool]", "folders that belong to the workspace", "", _USED),
        "permissions.*.filesystem": Key("map[str | int | table]", "read, write or deny for each path", "", _USED),
        "permissions.*.network": Key("table", "whether and how the network can be used", "", _USED),
        "projects.*.trust_level": Key(
            '"trusted" | "untrusted"', "whether a project may have its own settings", "", _USED
        ),
        "shell_environment_policy.inherit": Key(
            '"all" | "core" | "none"', "environment variables that commands inherit", '"all"', _USED
        ),
        "shell_environment_policy.ignore_default_excludes": Key(
            "bool",
            "unset: drop variables that look like a key or password; true: drop nothing (Codex's default); false: drop *KEY*,"
            " *SECRET* and *TOKEN*",
            "",
            _USED,
        ),
        "shell_environment_policy.exclude": Key("list[str]", "patterns of variables to drop", "[]", _USED),
        "shell_environment_policy.set": Key("map[str]", "variables to set", "{}", _USED),
        "shell_environment_policy.include_only": Key(
            "list[str]", "patterns of the only variables to keep", "[]", _USED
        ),
        "shell_environment_policy.experimental_use_profile": Key("bool", "start shells with the user's profile"),
        "allow_login_shell": Key("bool", "the model may ask for a login shell", "true", _USED),
        "windows": Key("table", "Windows sandbox"),
    },
    "Model providers": {
        "model_providers.*.name": Key("str", "the name shown to users", "the id", _USED),
        "model_providers.*.base_url": Key("str", "the URL of the API", "", _USED),
        "model_providers.*.wire_api": Key("str", "the API, which selects the plugin", '"responses"', _USED),
        "model_providers.*.env_key": Key("str", "the environment variable with the API key", "", _USED),
        "model_providers.*.env_key_instructions": Key(
            "str", "the message shown if that variable is missing", "", _USED
        ),
        "model_providers.*.experimental_bearer_token": Key("str", "the key itself; prefer env_key", "", _USED),
        "model_providers.*.query_params": Key("map[str]", "added to URLs", "{}", _USED),
        "model_providers.*.http_headers": Key("map[str]", "sent with requests", "{}", _USED),
        "model_providers.*.env_http_headers": Key("map[str]", "header to environment variable", "{}", _USED),
        "model_providers.*.request_max_retries": Key(
            "int>=0", "number of retries of a request, at most 100", "4", _USED
        ),
        "model_providers.*.stream_max_retries": Key(
            "int>=0", "number of retries of a broken stream, at most 100", "5", _USED
        ),
        "model_providers.*.stream_idle_timeout_ms": Key(
            "int>=0", "time limit for silence in a stream, in milliseconds", "300000", _USED
        ),
        "model_providers.*.response_timeout_ms": Key(
            "int>=1", "time limit for the head of a response, in milliseconds", "120000", _USED
        ),
        "model_providers.*.websocket_connect_timeout_ms": Key(
            "int>=0", "timeout for WebSocket connections, in milliseconds", "15000", _USED
        ),
        "model_providers.*.remote_compaction": Key("bool", "the server compacts; unset: OpenAI, Azure", "", _USED),
        "model_providers.*.request_compression": Key(
            '"zstd" | "none"', "compression of requests; unset: for OpenAI with a login of ChatGPT", "", _USED
        ),
        "model_providers.*.requires_openai_auth": Key("bool", "use the OpenAI login", "false", _USED),
        "model_providers.*.supports_websockets": Key("bool", "WebSockets may be used", "false", _USED),
        "model_providers.*.auth.command": Key("str", "a program that prints a token", "", _USED),
        "model_providers.*.auth.args": Key("list[str]", "its arguments", "[]", _USED),
        "model_providers.*.auth.timeout_ms": Key("int>=1", "its time limit in milliseconds", "5000", _USED),
        "model_providers.*.auth.refresh_interval_ms": Key(
            "int>=0", "milliseconds after which a token is replaced; 0: only when it is refused", "300000", _USED
        ),
        "model_providers.*.auth.cwd": Key("str", "its working folder", "", _USED),
        "model_providers.*.aws.profile": Key("str", "AWS profile", refused=True),
        "model_providers.*.aws.region": Key("str", "AWS region", refused=True),
        "model_providers.*.*": Key("any", "an option of the plugin that serves wire_api", "", _USED),
    },
    "Tools": {
        "web_search": Key('"disabled" | "cached" | "live"', "the provider's web search", '"disabled"', _USED),
        "tools.web_search": Key(
            "bool | table",
            "options: context_size, allowed_domains, location; true: older form of web_search",
            "",
            _USED,
        ),
        "tools.web_search_request": Key("bool", "oldest form of web_search", "", _USED),
        "tools.update_plan": Key(
            "bool | table", "offer update_plan: false or {enabled = false} leaves it out", "true", _USED
        ),
        "tools.view_image": Key("bool", "offer view_image", "true", _USED),
        "tools.experimental_request_user_input": Key("table", "offer request_user_input", "", _USED),
        "experimental_use_unified_exec_tool": Key("bool", "older form of features.unified_exec"),
        "background_terminal_max_timeout": Key("int>=0", "maximum wait for a session in milliseconds", "", _USED),
        "tool_suggest": Key("table", "suggested tools"),
        "mcp_servers.*.command": Key("str", "the server's program", "", _USED),
        "mcp_servers.*.args": Key("list[str]", "its arguments", "[]", _USED),
        "mcp_servers.*.env": Key("map[str]", "environment variables for it", "{}", _USED),
        "mcp_servers.*.env_vars": Key("list[str | table]", "names of variables that it inherits", "[]", _USED),
        "mcp_servers.*.cwd": Key("str", "its working folder; by default that of the session", "", _USED),
        "mcp_servers.*.sandbox": Key("str", "the permission profile that confines the program", "", _USED),
        "mcp_servers.*.url": Key("str", "the URL of a server that is reached over HTTP", "", _USED),
        "mcp_servers.*.bearer_token_env_var": Key("str", "the environment variable with its token", "", _USED),
        "mcp_servers.*.http_headers": Key("map[str]", "sent with requests", "{}", _USED),
        "mcp_servers.*.env_http_headers": Key("map[str]", "header to environment variable", "{}", _USED),
        "mcp_servers.*.http_headers_helper": Key("any", "a program that prints headers", refused=True),
        "mcp_servers.*.enabled": Key("bool", "whether to start it", "true", _USED),
        "mcp_servers.*.required": Key("bool", "whether a session fails without it", "false", _USED),
        "mcp_servers.*.startup_timeout_sec": Key("float", "time limit for its start in seconds", "30", _USED),
        "mcp_servers.*.startup_timeout_ms": Key("int>=0", "the same in milliseconds", "", _USED),
        "mcp_servers.*.tool_timeout_sec": Key("float", "time limit for a call in seconds", "120", _USED),
        "mcp_servers.*.enabled_tools": Key("list[str]", "the only tools to offer; by default all", "", _USED),
        "mcp_servers.*.disabled_tools": Key("list[str]", "tools not to offer", "[]", _USED),
        "mcp_servers.*.supports_parallel_tool_calls": Key("bool", "calls may overlap", "false", _USED),
        "mcp_servers.*.default_tools_approval_mode": Key(
            '"auto" | "prompt" | "approve"', "ask as the tool's annotations say, always, or never", '"auto"', _USED
        ),
        "mcp_servers.*.tools": Key("map[table]", 'by tool: {approval_mode = "..."}', "{}", _USED),
        "mcp_servers.*.scopes": Key("list[str]", "OAuth scopes to request", "", _USED),
        "mcp_servers.*.oauth": Key("table", "OAuth client: client_id, client_secret, callback_url", "{}", _USED),
        "mcp_servers.*.oauth_resource": Key("str", "OAuth resource", "", _USED),
        "mcp_servers.*.environment_id": Key("str", "where it runs: only local", '"local"', _USED),
        "mcp_servers.*.name": Key("str", "the name shown to users", "", _USED),
        "mcp_oauth_credentials_store": Key(
            '"auto" | "file" | "keyring"', "where tokens of logins are stored", '"auto"', _USED
        ),
        "mcp_oauth_callback_port": Key("int>=0", "port for the browser's answer to a login", "", _USED),
        "mcp_oauth_callback_url": Key("str", "address of that answer, if it is not this machine", "", _USED),
        "agents.max_threads": Key("int>=1", "maximum number of sub-agents at once", "6", _USED),
        "agents.max_depth": Key("int>=0", "how deep sub-agents may be nested", "1", _USED),
        "agents.enabled": Key("bool", "offer the tools for sub-agents", "true", _USED),
        "agents.max_concurrent_threads_per_session": Key("int>=1", "newer name of agents.max_threads", "", _USED),
        "agents.job_max_runtime_seconds": Key("int>=1", "time limit for an agent job in seconds"),
        "agents.interrupt_message": Key("bool", "tell the model that a turn was interrupted", "true", _USED),
        "agents.*.description": Key("str", "what the agent is for", "", _USED),
        "agents.*.instructions": Key("str", "its base instructions", "", _USED),
        "agents.*.model": Key("str", "its model; without it that of the thread", "", _USED),
        "agents.*.model_reasoning_effort": Key("str", "its reasoning effort; without it that of the thread", "", _USED),
        "agents.*.permissions": Key(
            "str", "its permission profile; it can only narrow those of the session", "", _USED
        ),
        "agents.*.approval_policy": Key(
            '"untrusted" | "on-failure" | "on-request" | "never"',
            "its approval policy: that of the session or a stricter one",
            "",
            _USED,
        ),
        "agents.*.allowed_tools": Key("list[str]", "patterns of the only tools to offer", "", _USED),
        "agents.*.disallowed_tools": Key("list[str]", "patterns of tools not to offer", "[]", _USED),
        "agents.*.context": Key("list[str]", "the only context sources to ask", "", _USED),
        **limit_keys("agents.*"),
        "agents.*.config_file": Key("str", "a file with further settings of the agent", "", _USED),
        "agents.*.nickname_candidates": Key("list[str]", "names to show users"),
        "skills": Key("table", "skills"),
        "skills.include_instructions": Key("bool", "list the skills for the model", "true", _USED),
        "skills.max_context_tokens": Key("int>=1", "tokens for that list; without it 2 % of the window", "", _USED),
        "skills.bundled.enabled": Key("bool", "use the skills that come with the program", "true", _USED),
        "skills.config": Key("list[table]", "skills to switch on or off: `{name or path, enabled}`", "[]", _USED),
        "memories": Key("table", "memories; the plugin memory_mode reads two of its settings"),
        "apps": Key("table", "apps"),
        "plugins": Key("table", "Codex's plugins; those of this framework are under [framework]"),
        "marketplaces": Key("table", "sources of Codex's plugins"),
        "hooks": Key("table", "commands to run at events of a session"),
    },
    "Sessions, login and environment": {
        "profile": Key("str", "the profile to use", "", _USED),
        "profiles.*": Key("profile", "a named set of settings; it may contain any key of this page", "", _USED),
        "history.persistence": Key('"save-all" | "none"', "whether prompts are saved", '"save-all"'),
        "history.max_bytes": Key("int>=0", "size of the prompt history"),
        "notify": Key("list[str]", "a program to run when a turn ends; the plugin notify runs it"),
        "file_opener": Key(
            '"vscode" | "vscode-insiders" | "windsurf" | "cursor" | "none"', "the editor that opens links to files"
        ),
        "forced_login_method": Key('"chatgpt" | "api"', "the only way to log in", "", _USED),
        "forced_chatgpt_workspace_id": Key("str | list[str]", "the only workspaces to log in to", "", _USED),
        "cli_auth_credentials_store": Key('"file" | "keyring" | "auto" | "ephemeral"', "where logins are", used=_USED),
        "apps_mcp_product_sku": Key("str", "product id for apps"),
        "sqlite_home": Key("path", "the folder for databases"),
        "log_dir": Key("path", "the folder for logs"),
        "debug": Key("table", "debugging settings"),
        "analytics.enabled": Key("bool", "whether to send usage data"),
        "feedback.enabled": Key("bool", "whether to offer the feedback command"),
        "check_for_update_on_startup": Key("bool", "check for a newer version", "true"),
        "suppress_unstable_features_warning": Key("bool", "do not warn about unstable features"),
        "disable_paste_burst": Key("bool", "disable the detection of pasted text"),
        "tui": Key("table", "the terminal interface; only its notifications are used", "", _USED),
        "notice": Key("table", "notices that were already shown"),
        "desktop": Key("table", "the desktop app"),
        "audio": Key("table", "audio"),
        "realtime.version": Key('"v1" | "v2" | "v3"', "the realtime protocol; v3 is unsupported", '"v2"', _USED),
        "realtime.type": Key('"conversational" | "transcription"', "what voice models do", '"conversational"', _USED),
        "realtime.transport": Key('"webrtc" | "websocket"', "how an interface connects"),
        "realtime.voice": Key("str", "the voice; unset: cove for v1, marin for v2", "", _USED),
        "experimental_realtime_ws_base_url": Key("str", "the realtime server; unset: the provider's", "", _USED),
        "experimental_realtime_webrtc_call_base_url": Key("str", "the same for WebRTC offers", "", _USED),
        "experimental_realtime_ws_model": Key("str", "the voice model", '"gpt-realtime-1.5"', _USED),
        "experimental_realtime_ws_backend_prompt": Key("str", "the voice model's instructions", "", _USED),
        "experimental_realtime_ws_startup_context": Key("str", "added to them; unset: a summary", "", _USED),
        "experimental_realtime_start_instructions": Key("str", "for the thread's model meanwhile", "", _USED),
        "experimental_realtime_*": Key("any", "voice"),
        "experimental_thread_store": Key("any", "a different store for sessions"),
        "experimental_thread_config_endpoint": Key("str", "a different source of settings"),
        "otel.environment": Key("str", "a label", '"dev"', _USED),
        "otel.log_user_prompt": Key("bool", "include prompts in logs", "false", _USED),
        "otel.exporter": Key("str | table", "where logs go", "", _USED),
        "otel.trace_exporter": Key("str | table", "where spans go", "", _USED),
        "otel.metrics_exporter": Key("str | table", "where metrics go", "", _USED),
        "otel.span_attributes": Key("map[str]", "added to spans", "", _USED),
        "otel.tracestate": Key("table", "added to spans", "", _USED),
        "features.*": Key("bool | table", "whether a feature is on; see below", "", _USED),
    },
    "Removed from Codex": {
        name: Key("any", "no longer has an effect in Codex")
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
        "framework.plugins.disabled": Key("list[str]", "plugins that are not loaded", "[]", _USED),
        "framework.plugins.prefer": Key(
            "list[str]", "plugins that win if two plugins offer the same name", "[]", _USED
        ),
        "framework.plugins.paths": Key(
            "list[path]", "files that are loaded as plugins; a project's own file cannot set it", "[]", _USED
        ),
        "framework.plugins.*": Key("table", "a plugin's own settings", "", _USED),
        "framework.compactor": Key("str", "how conversations are shortened", "the first available", _USED),
        "framework.sandbox": Key("str", "the sandbox to use", "the first available", _USED),
        "framework.keep_variables": Key(
            "list[str]", "patterns of variables that commands inherit although they look like keys", "[]", _USED
        ),
        "framework.sandbox_floor": Key(
            "list[str]",
            "protections that the sandbox must enforce, or no command is run; `sandbox doctor` lists the values",
            "[]",
            _USED,
        ),
        "framework.sandbox_limits.processes": Key(
            "int>=0", "maximum number of concurrent processes and threads of a command; 0: no limit", "4096", _USED
        ),
        "framework.sandbox_limits.memory_mb": Key(
            "int>=0", "address space of each process in MB; 0: no limit", "0", _USED
        ),
        "framework.sandbox_limits.file_size_mb": Key(
            "int>=0", "size of each written file in MB; 0: no limit", "0", _USED
        ),
        "framework.sandbox_private_tmp": Key("bool", "give commands a private /tmp", "false", _USED),
        "framework.sandbox_loopback": Key(
            "bool", "allow the loopback address even if the network is off", "false", _USED
        ),
        **limit_keys("framework"),
        "framework.thread_store": Key("str", "where sessions are stored", '"rollout"', _USED),
        "framework.unknown_keys": Key(
            '"error" | "warn"', "how to treat keys that are not on this page", '"error"', _USED
        ),
    },
}
"""The keys by topic, in the order of the reference page."""

KEYS: dict[str, Key] = {name: key for section in SECTIONS.values() for name, key in section.items()}

_FEATURES = """
    agent_message_board analytics_plan_history api_key_cyber_access_programs api_key_model_discovery apply_patch_freeform
    apply_patch_preserve_line_endings apply_patch_streaming_events apps apps_mcp_path_override artifact async_compaction
    auth_elicitation background_paginated_rollout_migration bedrock_setup_wizard browser_annotation_api browser_use
    browser_use_external browser_use_full_cdp_access child_agents_md chronicle cli_daybreak code_mode code_mode_buffered_exec
    code_mode_host code_mode_host_grpc code_mode_interrupt code_mode_only code_mode_only_strict_3p_tools code_mode_prewarm
    code_mode_tool_description_first code_mode_tool_search codex_apps_mcp_2026_07_28 codex_git_commit codex_hooks collab
    collaboration_modes compaction_image_budget computer_use concurrent_reasoning_summaries content_item_kinds context_management
    credential_masking current_time_reminder cwd_relative_turn_diffs daemon_auto_start default_mode_request_user_input
    defer_mailbox_preemption deferred_executor deferred_tool_world_state elevated_windows_sandbox
    enable_experimental_windows_sandbox enable_fanout enable_mcp_apps enable_request_compression exec_permission_approvals
    exec_policy executed_tool_call_metadata executor_capability_discovery experimental_use_rmcp_client experimental_windows_sandbox
    external_agent_memory_import external_migration fast_mode ghost_commit goals guardian_approval
    guardian_conversation_history_tools guardian_enhanced_node_repl_transcripts guardian_ext guardian_node_repl_transcript_images
    guardian_reuse_parent_compaction guardian_root_handoff_context guardian_trust_orchestrator_connectors guardianv2
    guardianv2_decisions_comparison hooks image_detail_original image_generation image_generation_animation image_resize_notice
    imagegenext in_app_browser in_app_chat in_app_dictation in_app_local_automation in_app_updates in_app_voice incremental_tools
    instant_interrupt item_ids js_repl js_repl_tools_only local_thread_store_compression local_thread_store_shared_compression
    login_shell_package_path mcp_2026_07_28 mcp_oauth_refresh_coordination memories mentions_v2 model_catalog_in_context multi_agent
    multi_agent_mode multi_agent_v2 multi_agent_v2_dynamic_tools network_proxy non_prefixed_mcp_tool_names
    nonfatal_clock_read_errors omit_app_server_notification_media output_token_replay parallel personality plugin_hooks
    plugin_sharing plugins powershell_shell_version prefer_mxc prevent_idle_sleep psp realtime_conversation
    reasoning_effort_override recommended_plugins remote_compaction remote_compaction_v2 remote_control remote_models remote_plugin
    request_permissions_tool request_rule resize_all_images respect_system_proxy responses_websockets responses_websockets_v2
    retain_client_developer_messages retain_client_tool_outputs rmcp_client rollout_budget runtime_metrics search_tool
    secret_auth_storage send_async_message send_message_to_user_async shell_snapshot shell_snapshot_v2 shell_tool shell_zsh_fork
    skill_env_var_dependency_prompt skill_mcp_dependency_install skill_search skills skip_host_skill_discovery sleep_tool sqlite
    stable_environment_tools standalone_web_search steer step_model_switching subagent_default_context_limits system_proxy_fallback
    terminal_resize_reflow terminal_visualization_instructions token_budget tool_call_mcp_elicitation tool_search
    tool_search_always_defer_mcp_tools tool_suggest transcript_v2 tui_app_server ultrafast_mode unavailable_dummy_tools
    unbounded_connection_retries undo unified_exec unified_exec_tty unified_exec_zsh_fork unified_image_budget use_agent_identity
    use_legacy_landlock use_linux_sandbox_bwrap use_xaa view_image view_image_tool web_search web_search_cached web_search_request
    windows_sandbox_service workspace_dependencies workspace_owner_usage_nudge worktrees write_stdin_approval
"""


_USED_FEATURES = """
    code_mode code_mode_only codex_hooks default_mode_request_user_input enable_request_compression exec_permission_approvals
    fast_mode ghost_commit goals hooks image_generation image_generation_animation mcp_2026_07_28 multi_agent multi_agent_v2
    non_prefixed_mcp_tool_names realtime_conversation remote_compaction_v2 request_permissions_tool responses_websockets
    shell_snapshot shell_tool tool_search_always_defer_mcp_tools unified_exec web_search web_search_cached web_search_request
"""

USED_FEATURES = tuple(_USED_FEATURES.split())
"""Features that have an effect here."""


def is_name(dotted: str) -> bool:
    """Return whether a dotted name is that of a setting or of a table of settings."""
    return dotted in KEYS or any(name.startswith(f"{dotted}.") for name in KEYS)


def features() -> frozenset[str]:
    """Return the names allowed in ``[features]``: Codex's stable, experimental, deprecated and removed features."""
    return frozenset(_FEATURES.split())
