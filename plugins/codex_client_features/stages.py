"""The features of Codex 0.171, by stage and by whether they are on by default, as its ``features list`` shows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING

from codex_framework.contract.value import Value

if TYPE_CHECKING:
    from codex_framework.config import Config

__all__ = ["Stage", "enabled_features", "stages"]


class Stage(Value):
    """The stage of a feature, and whether it is on by default."""

    name: str
    is_on: bool


_ON = {
    "deprecated": """
        multi_agent
    """,
    "removed": """
        collaboration_modes item_ids realtime_conversation resize_all_images sqlite steer terminal_resize_reflow
        tool_search_always_defer_mcp_tools tui_app_server worktrees
    """,
    "stable": """
        api_key_cyber_access_programs api_key_model_discovery apps auth_elicitation bedrock_setup_wizard
        browser_annotation_api browser_use browser_use_external browser_use_full_cdp_access cli_daybreak
        code_mode_host code_mode_host_grpc code_mode_host_output_truncation code_mode_interrupt
        compaction_image_budget computer_use content_item_kinds daemon_auto_start deferred_tool_world_state
        enable_request_compression fast_mode goals guardian_approval guardian_include_additional_context
        guardian_reuse_parent_compaction hooks image_generation in_app_browser in_app_chat in_app_dictation
        in_app_local_automation in_app_updates in_app_voice incremental_tools incremental_tools_legacy
        incremental_tools_legacy_gcp mcp_oauth_refresh_coordination mentions_v2 plugin_sharing plugins
        prediction_preserve_parent_tools reasoning_effort_override remote_plugin retain_client_tool_outputs
        shell_snapshot shell_tool skill_mcp_dependency_install skill_search sleep_tool system_proxy_fallback
        tool_call_mcp_elicitation tool_suggest tui_workspace ultrafast_mode unbounded_connection_retries
        unified_exec unified_exec_tty unified_image_budget untrusted_as_tool_output view_image
        workspace_dependencies write_stdin_approval
    """,
    "under development": """
        instant_interrupt
    """,
}
_OFF = {
    "deprecated": """
        use_legacy_landlock web_search_cached web_search_request
    """,
    "experimental": """
        analytics_plan_history login_shell_package_path network_proxy prevent_idle_sleep respect_system_proxy
        tui_extensions_statusline
    """,
    "removed": """
        apply_patch_freeform apply_patch_preserve_line_endings apps_mcp_path_override code_mode_buffered_exec
        code_mode_tool_description_first codex_git_commit elevated_windows_sandbox enable_fanout
        experimental_windows_sandbox external_migration guardian_ext guardianv2.thread_context image_detail_original
        js_repl js_repl_tools_only local_thread_store_shared_compression multi_agent_mode personality
        plugin_discovery_prefetch plugin_hooks remote_compaction_v2 remote_control remote_models request_rule
        responses_websockets responses_websockets_v2 search_tool send_async_message shell_zsh_fork
        skill_env_var_dependency_prompt stable_environment_tools tool_search transcript_v2 unavailable_dummy_tools
        undo unified_exec_zsh_fork use_linux_sandbox_bwrap workspace_owner_usage_nudge
    """,
    "stable": """
        gateway_setup_wizard gcp_setup_wizard memories multi_agent_v2 recommended_plugins secret_auth_storage
        suppress_model_change_announcements
    """,
    "under development": """
        agent_message_board agent_message_board_mcp app_server_websocket_compression apply_patch_streaming_events
        apps_early_resource_discovery artifact async_compaction async_compaction_root_only
        background_paginated_rollout_migration catalog_apps_instructions chronicle cli_resume_account_check
        code_mode code_mode_only code_mode_only_strict_3p_tools code_mode_prewarm code_mode_tool_search
        codex_apps_mcp_2026_07_28 command_sessions_world_state concurrent_reasoning_summaries context_management
        credential_masking critical_path_timing current_time_reminder cwd_relative_turn_diffs
        daybreak_program_propagation default_mode_request_user_input defer_mailbox_preemption deferred_executor
        enable_mcp_apps exec_permission_approvals executed_tool_call_metadata executor_capability_discovery
        executor_capability_discovery_v2 external_agent_memory_import file_backed_tool_audio
        guardian_conversation_history_tools guardian_denial_reconsideration guardian_enhanced_node_repl_transcripts
        guardian_native_multi_agent_history guardian_nested_approval_context guardian_node_repl_transcript_images
        guardian_recorded_items guardian_root_handoff_context guardian_trust_orchestrator_connectors guardianv2
        guardianv2_decisions_comparison guardianv3 hosted_search_policy image_generation_animation
        image_resize_notice incremental_exec_tools interrupt_on_cancel local_thread_store_compression mcp_2026_07_28
        mcp_connection_sharing mcp_lazy_stdio_startup mcp_shared_repl_cwd mcp_tool_list_changed
        model_catalog_in_context multi_agent_v2_dynamic_tools multi_env_copy_file multi_environment_mcp
        non_prefixed_mcp_tool_names nonfatal_clock_read_errors omit_app_server_notification_media
        omit_skill_descriptions output_token_replay per_environment_context powershell_shell_version prefer_mxc psp
        request_permissions_tool restored_history_prewarm retain_client_developer_messages rollout_budget
        runtime_agent_instances runtime_metrics safe_image_decoder send_message_to_user_async shell_snapshot_v2
        simplified_selection_hints skill_catalog_deltas skip_host_skill_discovery standalone_web_search
        step_model_switching subagent_default_context_limits subagent_thread_environments
        terminal_visualization_instructions token_budget tui_multi_backend use_agent_identity use_xaa
        utc_environment_date wake_on_agent_messages windows_sandbox_service
    """,
}


@cache
def stages() -> dict[str, Stage]:
    """Return the stage of each feature, in alphabetical order."""
    return dict(sorted([*_rows(_ON, is_on=True), *_rows(_OFF, is_on=False)]))


def enabled_features(config: Config) -> dict[str, bool]:
    """Return whether each feature is on. A feature may have a table, which has a key ``enabled``."""
    own = config.get("features", {})
    found = {}
    for name, stage in stages().items():
        value = own.get(name)
        value = value.get("enabled") if isinstance(value, Mapping) else value
        found[name] = value if isinstance(value, bool) else stage.is_on
    return found


def _rows(by_stage: dict[str, str], *, is_on: bool) -> Iterator[tuple[str, Stage]]:
    for name, features in by_stage.items():
        yield from ((feature, Stage(name, is_on)) for feature in features.split())
