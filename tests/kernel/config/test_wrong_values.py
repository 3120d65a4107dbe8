from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("text", "line", "fact"),
    [
        ("model = 5", 1, "`model` is the number 5, but must be a string"),
        ("model = true", 1, "`model` is true, but must be a string"),
        ('model = ["a"]', 1, "`model` is a list, but must be a string"),
        ("[model]", 1, "`model` is a table, but must be a string"),
        ("model = 2026-01-01", 1, "`model` is the date or time 2026-01-01, but must be a string"),
        ("model = 1.5", 1, "`model` is the number 1.5, but must be a string"),
        ('hide_agent_reasoning = "true"', 1, '`hide_agent_reasoning` is the string "true", but must be true or false'),
        ("hide_agent_reasoning = 1", 1, "`hide_agent_reasoning` is the number 1, but must be true or false"),
        (
            'tool_output_token_limit = "10"',
            1,
            '`tool_output_token_limit` is the string "10", but must be an integer of at least 0',
        ),
        (
            "tool_output_token_limit = -1",
            1,
            "`tool_output_token_limit` is the number -1, but must be an integer of at least 0",
        ),
        (
            "tool_output_token_limit = true",
            1,
            "`tool_output_token_limit` is true, but must be an integer of at least 0",
        ),
        (
            "tool_output_token_limit = 1.0",
            1,
            "`tool_output_token_limit` is the number 1.0, but must be an integer of at least 0",
        ),
        (
            'model_verbosity = "loud"',
            1,
            '`model_verbosity` is the string "loud", but must be "low", "medium" or "high"',
        ),
        (
            'approval_policy = "on_request"',
            1,
            '`approval_policy` is the string "on_request", but must be "untrusted", "on-failure", "on-request", "never" or a table',
        ),
        (
            'sandbox_mode = "none"',
            1,
            '`sandbox_mode` is the string "none", but must be "read-only", "workspace-write" or "danger-full-access"',
        ),
        ('notify = "bell"', 1, '`notify` is the string "bell", but must be a list of strings'),
        ('notify = [\n  "a",\n  2,\n]', 3, "`notify[1]` is the number 2, but must be a string"),
        (
            "sandbox_workspace_write = true",
            1,
            "`sandbox_workspace_write` is true, but must be a table",
        ),
        (
            '\n\n[sandbox_workspace_write]\nwritable_roots = "/a"',
            4,
            '`sandbox_workspace_write.writable_roots` is the string "/a", but must be a list of paths (strings)',
        ),
        (
            "[shell_environment_policy]\nset = { A = 1 }",
            2,
            "`shell_environment_policy.set.A` is the number 1, but must be a string",
        ),
        (
            "[shell_environment_policy.set]\n'A.B' = 1",
            2,
            '`shell_environment_policy.set."A.B"` is the number 1, but must be a string',
        ),
        ('mcp_servers.docs.args = "x"', 1, '`mcp_servers.docs.args` is the string "x", but must be a list of strings'),
        (
            '[mcp_servers.docs]\ncommand = "x"\nenv_vars = [1]',
            3,
            "`mcp_servers.docs.env_vars[0]` is the number 1, but must be a string or a table",
        ),
        (
            '[mcp_servers.docs]\ncommand = "x"\nstartup_timeout_sec = "9"',
            3,
            '`mcp_servers.docs.startup_timeout_sec` is the string "9", but must be a number',
        ),
        ('[mcp_servers]\ndocs = "x"', 2, '`mcp_servers.docs` is the string "x", but must be a table'),
        ("[model_providers.p]\nbase_url = 1", 2, "`model_providers.p.base_url` is the number 1, but must be a string"),
        (
            '[projects."/a"]\ntrust_level = "yes"',
            2,
            '`projects."/a".trust_level` is the string "yes", but must be "trusted" or "untrusted"',
        ),
        ("[profiles.p]\nmodel = 1", 2, "`profiles.p.model` is the number 1, but must be a string"),
        ("[profiles]\np = 1", 2, "`profiles.p` is the number 1, but must be a table"),
        ('[features]\nhooks = "on"', 2, '`features.hooks` is the string "on", but must be true or false or a table'),
        (
            "[framework.plugins]\ndisabled = 'x'",
            2,
            '`framework.plugins.disabled` is the string "x", but must be a list of strings',
        ),
        ("[framework.plugins]\nwords = 1", 2, "`framework.plugins.words` is the number 1, but must be a table"),
        (
            '[framework]\nunknown_keys = "ignore"',
            2,
            '`framework.unknown_keys` is the string "ignore", but must be "error" or "warn"',
        ),
        (
            '[approval_policy.granular]\nrules = "no"',
            2,
            '`approval_policy.granular.rules` is the string "no", but must be true or false',
        ),
        ("profile = 1", 1, "`profile` is the number 1, but must be a string"),
        ('model = "ok"\nprojects = "x"', 2, '`projects` is the string "x", but must be a table'),
        (
            "project_root_markers = '.git'",
            1,
            '`project_root_markers` is the string ".git", but must be a list of strings',
        ),
    ],
)
def test_a_mistyped_value_is_an_error_with_file_line_and_key(place, text, line, fact):
    path = place.write(text)
    error = place.error()
    assert str(error) == f"{path}:{line}: {fact}"
    assert (error.path, error.line, error.slug) == (str(path), line, "config-type")
    assert f"`{error.key}`" == fact.split(" ")[0]
    assert error.hint


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("model = 5", 'Put it in quotes: "5".'),
        ("model = true", 'Put it in quotes: "true".'),
        ('hide_agent_reasoning = "true"', "Write true or false without quotes."),
        ('tool_output_token_limit = "10"', "Write the number without quotes."),
        ('notify = "bell"', "Put it in brackets: [...]."),
        ('approval_policy = "on_request"', "Did you mean `on-request`?"),
        ('sandbox_mode = "zzz"', "Write one of these values."),
        ("sandbox_workspace_write = true", "Fix the value."),
    ],
)
def test_the_hint_says_how_to_write_it(place, text, hint):
    place.write(text)
    assert place.error().hint == hint


@pytest.mark.parametrize(
    ("text", "line", "fact"),
    [
        ('mdoel = "x"', 1, "unknown key `mdoel`. Did you mean `model`?"),
        ("[history]\npersistance = 'none'", 2, "unknown key `history.persistance`. Did you mean `persistence`?"),
        ("[histroy]\npersistence = 'none'", 1, "unknown key `histroy`. Did you mean `history`?"),
        ("[sandbox_workspace_write]\nnetwork = true", 2, "unknown key `sandbox_workspace_write.network`"),
        ("[framework]\nsandboxes = 'x'", 2, "unknown key `framework.sandboxes`. Did you mean `sandbox`?"),
        ("[profiles.p]\nmodell = 'x'", 2, "unknown key `profiles.p.modell`. Did you mean `model`?"),
        ("features = {}\nframework = { a.b = 1 }", 2, "unknown key `framework.a`"),
        ("approvalPolicy = 'never'", 1, "unknown key `approvalPolicy`. Did you mean `approval_policy`?"),
        ("sandbox-mode = 'read-only'", 1, "unknown key `sandbox-mode`. Did you mean `sandbox_mode`?"),
        ("approval_polices = 'never'", 1, "unknown key `approval_polices`. Did you mean `approval_policy`?"),
        ("[tools]\napproval_policy = 'never'", 2, "unknown key `tools.approval_policy`"),
        (
            "[mcp_servers.a]\ncommand = 'x'\ndisable_tools = []",
            3,
            "unknown key `mcp_servers.a.disable_tools`. Did you mean `disabled_tools`?",
        ),
        (
            "[model_providers.other]\nbase_ur = 'x'",
            2,
            "unknown key `model_providers.other.base_ur`. Did you mean `base_url`?",
        ),
        ("[permissions.p]\nnew_in_codex = 1", 2, "unknown key `permissions.p.new_in_codex`"),
        ("[shell_environment_policy]\nzzz = 1", 2, "unknown key `shell_environment_policy.zzz`"),
        ("[projects.'/a']\nzzz = 1", 2, 'unknown key `projects."/a".zzz`'),
    ],
)
def test_an_unknown_key_that_is_probably_a_mistake_is_an_error_that_offers_the_nearest_one(place, text, line, fact):
    path = place.write(text)
    error = place.error()
    assert str(error) == f"{path}:{line}: {fact}"
    assert (error.path, error.line, error.slug) == (str(path), line, "config-unknown")
    assert (
        error.hint == 'Fix or remove it. To get warnings instead of errors, set `unknown_keys = "warn"` in [framework].'
    )


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        ("zzzzzz = 1", 1, "zzzzzz"),
        ("[zzzzzz]\na = 1", 1, "zzzzzz"),
        ("[mcp_servers.docs]\ncommand = 'x'\nretention = 3", 3, "mcp_servers.docs.retention"),
        ("history = { x = 1 }", 1, "history.x"),
        ('"history.persistence" = "none"', 1, '"history.persistence"'),
        ('"*" = 1', 1, '"*"'),
        ("[otel]\nlog_everything_else = true", 2, "otel.log_everything_else"),
        ("model_pre_turn_compact_threshold = 5", 1, "model_pre_turn_compact_threshold"),
        ("include_tools_instructions = true", 1, "include_tools_instructions"),
        ("[agents.helper]\ncolour = 'red'", 2, "agents.helper.colour"),
    ],
)
def test_an_unknown_key_that_a_newer_codex_may_have_is_a_warning(place, text, line, key):
    path = place.write(text)
    (warning,) = place.load().warnings
    assert warning.startswith(f"{path}:{line}: unknown key `{key}`, which has no effect.")
    error = place.error("framework.unknown_keys=error")
    assert str(error).startswith(f"{path}:{line}: unknown key `{key}`")


def test_unknown_keys_can_be_warnings(place):
    path = place.write('mdoel = "x"\n[framework]\nunknown_keys = "warn"\n[history]\nx = 1\n')
    assert place.load().warnings == (
        f"{path}:1: unknown key `mdoel`, which has no effect. Did you mean `model`?",
        f"{path}:5: unknown key `history.x`, which has no effect.",
    )


def test_unknown_keys_can_be_warnings_for_one_start(place):
    place.write("zzzzzz = 1\n")
    assert len(place.load("framework.unknown_keys=warn").warnings) == 1


def test_mistyped_values_are_errors_even_if_unknown_keys_are_not(place):
    place.write("model = 1\n[framework]\nunknown_keys = 'warn'\n")
    assert "`model` is the number 1" in str(place.error())


def test_an_unknown_feature_is_a_warning(place):
    path = place.write("[features]\nunified_exec = true\nunifed_exec = true\nfoo = false\n")
    assert place.load().warnings == (
        f"{path}:3: unknown feature `unifed_exec`, which has no effect. Did you mean `unified_exec`?",
        f"{path}:4: unknown feature `foo`, which has no effect.",
    )


@pytest.mark.parametrize(
    ("text", "where", "fact"),
    [
        ("model = ", ":1:9", "invalid value in `model =`"),
        ("model = o3", ":1:9", "invalid value in `model = o3`"),
        ('model = "a', ":1:11", None),
        ('a = 1\nmodel = "a"\nmodel = "b"\n', ":3:12", 'cannot overwrite a value in `model = "b"`'),
        ("[history]\n[history]\n", ":2:9", None),
        ("model", ":1:6", None),
        ("[history", ":1:9", None),
        ('x = """\nabc\n', ":3:1", None),
    ],
)
def test_broken_toml_is_an_error_with_line_and_column(place, text, where, fact):
    path = place.write(text)
    error = place.error()
    assert str(error).startswith(f"{path}:{where.split(':')[1]}")
    assert ": not valid TOML: " in str(error)
    if fact is not None:
        assert str(error) == f"{path}{where}: not valid TOML: {fact}"
    assert (error.path, error.slug) == (str(path), "config-syntax")
    assert error.line == int(where.split(":")[1])
    assert error.hint.startswith("Fix this line.")


def test_a_mistyped_value_that_may_be_a_secret_is_not_repeated(place):
    path = place.write('[model_providers.p]\nhttp_headers = "Authorization: Bearer sk-123"\n')
    assert (
        str(place.error()) == f"{path}:2: `model_providers.p.http_headers` is a string, but must be a table of strings"
    )


def test_a_broken_line_that_may_hold_a_secret_is_not_repeated(place):
    path = place.write("[model_providers.p]\nexperimental_bearer_token = sk-123\n")
    assert str(place.error()) == f"{path}:2:29: not valid TOML: invalid value"


def test_a_file_that_is_not_utf8_is_an_error_with_its_line(place):
    path = place.codex_home / "config.toml"
    path.write_bytes(b'model = "a"\n# caf\xe9\n')
    error = place.error()
    assert str(error) == f"{path}:2: byte 0xe9 is not UTF-8"
    assert error.hint == "Save the file as UTF-8."


@pytest.mark.parametrize("text", ["a = " + "[" * 5000 + "]" * 5000, "a = " + "9" * 5000, "a = \x00"])
def test_absurd_files_are_errors_too(place, text):
    path = place.write(text)
    assert str(place.error()).startswith(f"{path}")


@pytest.mark.parametrize(
    ("text", "line", "fact"),
    [
        ("[mcp_servers.docs]\nenabled = true", 1, "the MCP server 'docs' has neither `command` nor `url`"),
        (
            '[mcp_servers.docs]\ncommand = "a"\nurl = "b"',
            3,
            "the MCP server 'docs' has both `command` and `url`: url is not supported for stdio",
        ),
        (
            '[mcp_servers.docs]\nurl = "b"\nargs = []',
            3,
            "the MCP server 'docs': args is not supported for streamable_http",
        ),
        (
            '[mcp_servers.docs]\ncommand = "b"\nbearer_token_env_var = "T"',
            3,
            "the MCP server 'docs': bearer_token_env_var is not supported for stdio",
        ),
        (
            '[mcp_servers."a b"]\ncommand = "b"',
            1,
            "invalid MCP server name 'a b': it must consist of letters, digits, and the characters - _ : @ / .",
        ),
        (
            '[mcp_servers.docs]\nurl = "b"\nbearer_token = "secret"',
            3,
            "`mcp_servers.docs.bearer_token` is not allowed: this file must not contain a token",
        ),
    ],
)
def test_an_mcp_server_that_contradicts_itself_is_an_error(place, text, line, fact):
    path = place.write(text)
    error = place.error()
    assert str(error) == f"{path}:{line}: {fact}"
    assert error.hint


def test_an_mcp_server_may_be_completed_by_a_higher_layer(place):
    place.write('[mcp_servers.docs]\ncommand = "x"\n')
    assert place.load("mcp_servers.docs.enabled=false").get("mcp_servers.docs") == {"command": "x", "enabled": False}


@pytest.mark.parametrize(
    "text",
    [
        "include_plan_tool = true",
        "[ghost_snapshot]\nx = 1",
        "experimental_realtime_anything = 1",
        "disable_response_storage = true",
        "[tui]\ntheme = 'x'\n[tui.keymap.global]\nopen = 'ctrl-a'",
        "[model_providers.p]\nanything = { a = [1] }",
        "[framework.plugins.mine]\nanything = 1",
        "[tools.web_search]\ncontext_size = 'low'",
        "tools.web_search = true",
        "[features]\nundo = true\nmulti_agent_v2 = { enabled = true }",
        '[permissions.p.filesystem]\n":root" = "read"\n[permissions.p.filesystem.":workspace_roots"]\n"." = "write"',
        'forced_chatgpt_workspace_id = ["a", "b"]',
        "[otel]\nexporter = { otlp-http = { endpoint = 'http://x', protocol = 'binary' } }",
    ],
)
def test_what_codex_accepts_is_accepted(place, text):
    place.write(text)
    assert place.load().warnings == ()
