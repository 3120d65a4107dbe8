"""The administrator's requirements in threads: at their start, when settings change, and for children."""

from __future__ import annotations

import asyncio

import pytest

from codex_framework import Agent, ApprovalPolicy, CodexError, ConfigError, ThreadError, ToolContext, tool
from codex_framework.contract.permissions.profile import permissions_of
from codex_framework.contract.protocol.events import ErrorEvent, WarningEvent
from codex_framework.contract.protocol.ops import ReloadUserConfig, ThreadSettings, ThreadSettingsOverrides
from codex_framework.contract.protocol.policies import DangerFullAccess, ReadOnly, WorkspaceWrite
from codex_framework.testing import call, check_constraint, say

POLICIES = 'allowed_approval_policies = ["on-request", "untrusted"]\n'
MODES = 'allowed_sandbox_modes = ["read-only", "workspace-write"]\n'
REVIEWERS = 'allowed_approvals_reviewers = ["user"]\n'


@pytest.fixture
def play(make_kernel):
    """Return a function that runs a story with a kernel."""

    def played(story, config="", replies=(), tools=()):
        async def main():
            async with make_kernel(replies, config=config, tools=tools) as kernel, asyncio.timeout(30):
                return await story(kernel)

        return asyncio.run(main())

    return played


def warnings(thread):
    heard = thread.events(answers=False)
    heard.end()

    async def read():
        return [event.msg.message async for event in heard if isinstance(event.msg, WarningEvent)]

    return read()


async def errors(thread, op):
    heard = thread.events(answers=False)
    await thread.submit(op)
    heard.end()
    return [event.msg.message async for event in heard if isinstance(event.msg, ErrorEvent)]


def override(**fields):
    return ThreadSettings(ThreadSettingsOverrides(**fields))


def allowed(key, word, names, path):
    return f"invalid value for `{key}`: `{word}` is not in the allowed set [{names}] (set by {path})"


def test_start_values_that_are_not_allowed_are_replaced_and_told(require, play):
    path = require(POLICIES + MODES + REVIEWERS)
    config = 'approval_policy = "never"\nsandbox_mode = "danger-full-access"\napprovals_reviewer = "auto_review"'

    async def story(kernel):
        thread = await kernel.start_thread()
        given = await kernel.start_thread(
            approval_policy="never", sandbox_policy=DangerFullAccess(), approvals_reviewer="auto_review"
        )
        found = [
            (one.settings.approval_policy, one.settings.sandbox_policy, one.settings.approvals_reviewer)
            for one in (thread, given)
        ]
        return found, await warnings(thread), await warnings(given), inside(thread).config["approvals_reviewer"]

    found, told, given_told, reviewer = play(story, config)
    assert found[0] == (ApprovalPolicy.ON_REQUEST, ReadOnly(), None)
    assert found[1] == (ApprovalPolicy.ON_REQUEST, ReadOnly(), "user")
    assert reviewer == "user"
    start = "Configured value for `{}` is disallowed by requirements; falling back to required value {}. Details: "
    policy = start.format("approval_policy", "OnRequest")
    policy += allowed("approval_policy", "Never", "OnRequest, UnlessTrusted", path)
    mode = start.format("permission_profile", "ReadOnly")
    mode += allowed("sandbox_mode", "DangerFullAccess", "ReadOnly, WorkspaceWrite", path)
    person = start.format("approvals_reviewer", "User") + allowed("approvals_reviewer", "AutoReview", "User", path)
    assert [line for line in told if line.startswith("Configured")] == [person, policy, mode]
    assert [line for line in given_told if line.startswith("Configured")] == [person, policy, mode, person]


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"approval_policy": ApprovalPolicy.NEVER}, "approval_policy"),
        ({"sandbox_policy": DangerFullAccess()}, "sandbox_mode"),
        ({"approvals_reviewer": "auto_review"}, "approvals_reviewer"),
        ({"approvals_reviewer": "guardian_subagent"}, "approvals_reviewer"),
    ],
)
def test_changes_that_are_not_allowed_are_refused(require, play, fields, key):
    require(POLICIES + MODES + REVIEWERS)

    async def story(kernel):
        thread = await kernel.start_thread(approval_policy="on-request", sandbox_policy=ReadOnly())
        before = thread.settings
        found = await errors(thread, override(model="other", **fields))
        unchanged = thread.settings == before
        fine = await errors(thread, override(approval_policy=ApprovalPolicy.UNTRUSTED))
        return found, unchanged, fine, thread.settings.approval_policy

    found, unchanged, fine, policy = play(story)
    assert len(found) == 1
    assert f"invalid value for `{key}`" in found[0]
    assert unchanged
    assert (fine, policy) == ([], ApprovalPolicy.UNTRUSTED)


def test_resumed_threads_forks_and_children_are_held_as_well(require, play, make_kernel):
    config = 'approval_policy = "never"\nsandbox_mode = "workspace-write"'

    async def before(kernel):
        thread = await kernel.start_thread()
        await thread.run("Hello!")
        return thread.id

    stored = play(before, config, [say("Hi.")])
    require('allowed_approval_policies = ["on-request"]\nallowed_sandbox_modes = ["read-only"]')

    async def story(kernel):
        fork = await kernel.resume_thread(kernel.fork_thread(stored))
        thread = await kernel.resume_thread(stored)
        for one in (fork, thread):
            assert (one.settings.approval_policy, one.settings.sandbox_policy) == (
                ApprovalPolicy.ON_REQUEST,
                ReadOnly(),
            )
        context = thread.conversation.context("test")
        with pytest.raises(ThreadError, match="invalid value for `approval_policy`"):
            await context.spawn(Agent(name="worker", instructions="Work.", approval_policy="untrusted"))
        child = await context.spawn(Agent(name="worker", instructions="Work."))
        return child.settings.sandbox_policy

    assert play(story, config) == ReadOnly()


def test_full_access_without_questions_does_not_become_a_sandbox_that_nobody_lifts(require, play):
    require(MODES)

    async def story(kernel):
        with pytest.raises(ThreadError, match='`approval_policy = "never"` cannot be used') as caught:
            await kernel.start_thread()
        return caught.value.hint

    assert "on-request" in play(story, 'approval_policy = "never"\nsandbox_mode = "danger-full-access"')


@pytest.mark.parametrize(
    ("profile", "mode"),
    [
        ('":root" = "read"\n"/tmp" = "write"', "WorkspaceWrite"),
        ('":root" = "write"', "DangerFullAccess"),
        ('"/" = "write"', "DangerFullAccess"),
        ('"//" = "write"', "DangerFullAccess"),
        ('"/srv/.." = "write"', "DangerFullAccess"),
        ('"/usr" = "write"\n"/etc" = "write"\n"/home" = "write"\n"/var" = "write"', "DangerFullAccess"),
        ('"/etc/" = "write"', "DangerFullAccess"),
        ('"/usr/local/share/x" = "write"', "WorkspaceWrite"),
        ('":root" = "read"', None),
    ],
)
def test_a_profile_counts_as_the_mode_that_it_amounts_to(require, play, profile, mode):
    require('allowed_sandbox_modes = ["read-only"]')
    config = f'default_permissions = "mine"\n[permissions.mine.filesystem]\n{profile}\n'
    told = play(lambda kernel: _started(kernel, permissions=kernel.settings().permissions), config)
    assert [f"`{mode}`" in line for line in told] == ([] if mode is None else [True])


@pytest.mark.parametrize(
    "fields",
    [{"cwd": "/"}, {"roots": ("//",)}, {"roots": ("/etc",)}, {"roots": ("/srv/../usr",)}]
    + [
        {"roots": (folder,)}
        for folder in (
            *(
                "/boot",
                "/boot/grub",
                "/dev",
                "/etc/cron.d",
                "/lib/systemd",
                "/lib64",
                "/opt",
                "/proc/sys",
                "/root",
                "/run",
            ),
            *(
                "/srv",
                "/sys/fs",
                "/usr/bin",
                "/usr/local",
                "/usr/local/bin/",
                "/usr/lib/x",
                "/var/lib",
                "/var/spool/cron/x",
            ),
            *("/bin", "/sbin", "/home", "/mnt", "/media", "/tmp/../root", "/usr/local/lib/python3.11"),
        )
    ],
)
def test_a_workspace_that_contains_the_system_is_no_workspace(require, play, fields):
    require('allowed_sandbox_modes = ["read-only", "workspace-write"]')
    policy = WorkspaceWrite(writable_roots=fields.pop("roots", ()))
    (told,) = play(lambda kernel: _started(kernel, sandbox_policy=policy, **fields))
    assert "`DangerFullAccess` is not in the allowed set" in told


@pytest.mark.parametrize(
    "folder",
    [
        *(
            "/home/me/work",
            "/root/work",
            "/usr/src/app",
            "/srv/app",
            "/opt/app",
            "/var/www",
            "/var/lib/ci/work",
            "/mnt/d",
        ),
        *("/tmp", "/dev/shm/x", "/run/user/1000/x", "/usr/local/share/x", "/usr/local/src/x", "/etcetera", "/library"),
    ],
)
def test_a_folder_of_a_workspace_is_one(require, play, folder):
    require('allowed_sandbox_modes = ["read-only", "workspace-write"]')
    policy = WorkspaceWrite(writable_roots=(folder,))
    assert play(lambda kernel: _started(kernel, sandbox_policy=policy)) == []


async def _started(kernel, **fields):
    thread = await kernel.start_thread(approval_policy="on-request", **fields)
    return [line for line in await warnings(thread) if line.startswith("Configured")]


def test_host_names_can_have_modes_of_their_own(require, play):
    require(
        'allowed_sandbox_modes = ["read-only", "workspace-write"]\n'
        '[[remote_sandbox_config]]\nhostname_patterns = ["no-such-host-?"]\nallowed_sandbox_modes = ["read-only"]\n'
        '[[remote_sandbox_config]]\nhostname_patterns = ["nobody", "*"]\nallowed_sandbox_modes = ["read-only"]\n'
    )
    (told,) = play(lambda kernel: _started(kernel, sandbox_policy=WorkspaceWrite()))
    assert "`WorkspaceWrite` is not in the allowed set [ReadOnly]" in told


def test_what_nothing_may_read_is_denied_whatever_permits_it(require, play, tmp_path, workspace):
    secret, deep = tmp_path / "secret", workspace / "keys" / "deep"
    for folder in (secret, deep):
        folder.mkdir(parents=True)
        (folder / "a.txt").write_text("hidden")
    (secret / "inner").mkdir()
    (secret / "inner" / "a.txt").write_text("hidden")
    (workspace / "link").symlink_to(secret / "inner")
    (workspace / "x.env").write_text("hidden")
    (workspace / "open.txt").write_text("open")
    require(f'[permissions.filesystem]\ndeny_read = ["{secret}", "{workspace}/keys", "{workspace}/**/*.env"]')
    config = (
        f'default_permissions = "mine"\n[permissions.mine.filesystem]\n":root" = "read"\n"{deep}" = "write"\n'
        f'"{workspace}/link" = "read"\n'
    )
    places = [secret / "a.txt", deep / "a.txt", workspace / "link" / "a.txt", workspace / "x.env"]

    seen = []

    @tool
    def look(context: ToolContext) -> str:
        """Note what the call may read."""
        seen.append(context.access)
        return "seen"

    async def story(kernel):
        found = []
        permissions = kernel.settings().permissions
        for fields in (
            {"permissions": permissions},
            {"sandbox_policy": DangerFullAccess()},
            {"sandbox_policy": WorkspaceWrite(), "cwd": secret},
            {"permissions": permissions_of(WorkspaceWrite()).evolve(workspace_roots=(str(secret), str(deep)))},
        ):
            thread = await kernel.start_thread(approval_policy="on-request", **fields)
            kernel.model.add(call("look"), say("done"))
            await thread.run("Hello!")
            for access in (inside(thread).access, seen[-1]):
                found.append([access.may_read(place) for place in (*places, workspace / "open.txt")])
        return found

    assert play(story, config, tools=[look]) == [[False, False, False, False, True]] * 8
    assert len(seen) == 4


def inside(thread):
    return thread.conversation.context("test")


def test_searches_features_and_servers_of_the_configuration(require, play):
    path = require(
        'allowed_web_search_modes = ["cached"]\nadditional_developer_instructions = "Be kind."\n'
        'guardian_policy_config = "Be strict."\nallowed_login_methods = ["api"]\nallowed_chatgpt_workspaces = ["w-1"]\n'
        '[features]\nunified_exec = false\n[mcp_servers.good.identity]\ncommand = "true"\n'
        '[mcp_servers.site]\nidentity = { url = "http://127.0.0.1:9/mcp" }\n'
    )
    config = (
        'web_search = "live"\ndeveloper_instructions = "Be quick."\nforced_chatgpt_workspace_id = "w-2"\n'
        '[auto_review]\npolicy = "Be lax."\n[features]\nunified_exec = true\n'
        '[mcp_servers.good]\ncommand = "false"\n[mcp_servers.other]\ncommand = "true"\n'
        '[mcp_servers.site]\nurl = "http://127.0.0.1:9/mcp"\nenabled = false\n'
    )

    async def story(kernel):
        thread = await kernel.start_thread()
        own = await kernel.start_thread(config={"web_search": "live", "features.unified_exec": True})
        return dict(inside(thread).config), dict(inside(own).config), await warnings(thread)

    tables, own, told = play(story, config)
    for found in (tables, own):
        assert (found["web_search"], found["features"]["unified_exec"]) == ("cached", False)
    assert tables["developer_instructions"] == "Be quick.\n\nBe kind."
    assert (tables["auto_review"]["policy"], tables["forced_login_method"]) == ("Be strict.", "api")
    assert tables["forced_chatgpt_workspace_id"] == ["w-1"]
    servers = {name: table.get("enabled", True) for name, table in tables["mcp_servers"].items()}
    assert servers == {"good": False, "other": False, "site": False}
    search = allowed("web_search_mode", "Live", "Disabled, Cached", path)
    assert any(line.endswith(search) and "required value Cached" in line for line in told)
    assert f"the MCP server `other` is disabled by requirements (set by {path})" in told
    assert not any("`site`" in line for line in told)


@pytest.mark.parametrize("older", ["features.web_search_request = true", "tools.web_search = true"])
def test_a_search_that_is_set_in_an_older_form_is_limited_as_well(require, play, older):
    require('allowed_web_search_modes = ["cached"]\n')

    async def story(kernel):
        return inside(await kernel.start_thread()).config["web_search"]

    assert play(story, older) == "cached"


def test_a_reload_loosens_nothing(require, play, codex_home):
    require('allowed_web_search_modes = ["disabled"]\n[mcp_servers]\n')

    async def story(kernel):
        thread = await kernel.start_thread()
        file = codex_home / "config.toml"
        file.write_text(file.read_text() + 'web_search = "live"\n[mcp_servers.new]\ncommand = "true"\n')
        heard = thread.events(answers=False)
        failed = await errors(thread, ReloadUserConfig())
        kernel.model.add(say("done"))
        await thread.run("Hello!")
        heard.end()
        told = [event.msg.message async for event in heard if isinstance(event.msg, WarningEvent)]
        await kernel.reload_user_config()
        later = await kernel.start_thread()
        return failed, [dict(inside(one).config) for one in (thread, later)], told

    failed, configs, told = play(story)
    assert failed == []
    for config in configs:
        assert config["web_search"] == "disabled"
        assert config["mcp_servers"]["new"]["enabled"] is False
    assert any("MCP server `new` is disabled" in line for line in told)


def test_hooks_of_users_do_not_run_if_only_those_of_the_administrator_may(require, play):
    require("allow_managed_hooks_only = true")
    config = '[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = "command"\ncommand = "true"\n'

    async def story(kernel):
        thread = await kernel.start_thread()
        return inside(thread).config["features"]["hooks"], await warnings(thread)

    hooks, told = play(story, config)
    assert hooks is False
    assert any("hooks are not run" in line for line in told)


def test_keys_that_nobody_knows_are_told_and_those_of_other_programs_are_not(require, play):
    path = require('allowed_things = ["x"]\nallow_appshots = false\n[windows]\nallow_mxc = false\n')
    told = play(lambda kernel: _all_warnings(kernel))
    assert [line for line in told if "unknown" in line] == [
        f"{path}: these keys are unknown and have no effect: `allowed_things`"
    ]


async def _all_warnings(kernel):
    return await warnings(await kernel.start_thread())


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("allowed_approval_policies = [", "it is not TOML"),
        (b"\xff\xfe = 1", "it is not UTF-8"),
        ("allowed_approval_policies = []", "`allowed_approval_policies` is empty"),
        ('allowed_approval_policies = ["sometimes"]', "contains 'sometimes'"),
        ('allowed_approval_policies = ["granular"]', "contains 'granular'"),
        ('allowed_approval_policies = "never"', "`allowed_approval_policies` is not a list"),
        ('allowed_sandbox_modes = ["workspace-write"]', "does not contain `read-only`"),
        ("allowed_web_search_modes = [3]", "is not a list of strings"),
        ("features = 3", "`features` is not a table"),
        ('features = { a = "yes" }', "`features.a` is 'yes'"),
        ('mcp_servers.a = { command = "x" }', "`mcp_servers.a` has no identity"),
        ('mcp_servers.a.identity = { command = "x", url = "y" }', "`mcp_servers.a` has no identity"),
        ('permissions.filesystem.deny_read = ["**/*.env"]', "relative path"),
        ('permissions.filesystem.deny_read = ["/**/*.env"]', "begins at the root"),
        ('permissions.filesystem.deny_read = ["/a/*/{b"]', "has the pattern"),
        ('permissions.filesystem.deny_read = ["/a/{b,c}"]', "braces"),
        ("permissions.filesystem.deny_write = []", "cannot enforce"),
        ("permissions.filesystem = []", "cannot enforce"),
        ('permissions.mine.extends = ":read-only"', "cannot enforce"),
        ('remote_sandbox_config = [{ hostname_patterns = ["*"] }]', "remote_sandbox_config[0]"),
        ('allow_managed_hooks_only = "yes"', "is not true or false"),
        ('enforce_residency = "us"', "`enforce_residency` requires something that this program cannot enforce"),
        ("experimental_network.enabled = true", "cannot enforce"),
        ('allowed_permission_profiles.":read-only" = true', "cannot enforce"),
        ("x = " + "1" * 1_000_001, "it has 1000005 bytes"),
    ],
)
def test_a_file_that_cannot_be_enforced_lets_no_kernel_start(require, play, text, fact):
    path = require(text)
    with pytest.raises(ConfigError) as caught:
        play(_all_warnings)
    assert fact in str(caught.value)
    assert str(path) in str(caught.value)
    assert (caught.value.slug, "administrator" in caught.value.hint) == ("requirements", True)


def test_a_folder_or_a_dead_link_in_place_of_the_file_lets_no_kernel_start(require, play):
    path = require("")
    path.unlink()
    path.mkdir()
    with pytest.raises(ConfigError, match="it is not a file"):
        play(_all_warnings)
    path.rmdir()
    path.symlink_to("nowhere")
    with pytest.raises(ConfigError, match="it cannot be read"):
        play(_all_warnings)


def test_the_plugin_cannot_be_disabled_while_there_is_a_file(require, play):
    disabled = '[framework]\nplugins.disabled = ["requirements"]'
    play(_all_warnings, disabled)
    path = require(POLICIES)
    with pytest.raises(ConfigError, match="no plugin enforces") as caught:
        play(_all_warnings, disabled)
    assert str(path) in str(caught.value)
    require("[rules]\nprefix_rules = []")
    with pytest.raises(ConfigError, match="'execpolicy' is disabled"):
        play(_all_warnings, '[framework]\nplugins.disabled = ["execpolicy"]')


def test_the_file_cannot_be_written_by_what_it_decides_about(require, play, tmp_path):
    path = require("[features]\nunified_exec = true")

    async def story(kernel):
        policy = WorkspaceWrite(writable_roots=(str(tmp_path),))
        thread = await kernel.start_thread(approval_policy="never", sandbox_policy=policy)
        kernel.model.add(call("exec_command", cmd=f"echo > {path}"), say("done"))
        await thread.run("Go!")

    play(story)
    assert path.read_text() == "[features]\nunified_exec = true"


def test_the_constraint_fulfils_its_role(require):
    from codex_plugin_requirements.constraint import RequirementsConstraint

    path = require("")
    path.rename(path := path.with_name("other.toml"))  # the kernel of the check has no plugin for the file
    path.write_text(
        POLICIES + MODES + REVIEWERS + 'allowed_web_search_modes = []\nadditional_developer_instructions = "Hi."\n'
        '[permissions.filesystem]\ndeny_read = ["/secret"]\n'
    )
    check_constraint(RequirementsConstraint(str(path)))


@pytest.mark.parametrize("named", ["folder", "pattern"])
@pytest.mark.parametrize(
    "place",
    [
        "AGENTS.md",
        "AGENTS.override.md",
        "skills/mine",
        "skills",
        "prompts/mine.md",
        "agents/mine.toml",
        "project/AGENTS.md",
    ],
)
def test_denied_files_reach_the_model_through_no_link(require, play, tmp_path, codex_home, workspace, place, named):
    secret = tmp_path / "secret"
    text = "---\nname: mine\ndescription: xyzzy\n---\nxyzzy\n"
    toml = 'name = "mine"\ndescription = "xyzzy"\ndeveloper_instructions = "xyzzy"\n'
    for name in ("a.md", "SKILL.md", "mine/SKILL.md", "a.toml"):
        (secret / name).parent.mkdir(parents=True, exist_ok=True)
        (secret / name).write_text(toml if name.endswith("toml") else text)
    link = workspace / "AGENTS.md" if place == "project/AGENTS.md" else codex_home / place
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(secret / ("a.toml" if "toml" in place else "a.md") if "." in place else secret)

    async def story(kernel):
        thread = await kernel.start_thread()
        kernel.model.add(say("done"))
        await thread.run("/prompts:mine $mine")
        return str(kernel.model.requests)

    assert ("xyzzy" in play(story)) or place.startswith("agents")
    require(f'[permissions.filesystem]\ndeny_read = ["{secret}{"" if named == "folder" else "/**/*.*"}"]')
    assert "xyzzy" not in play(story)


@pytest.mark.parametrize("key", ["model_instructions_file", "experimental_instructions_file"])
@pytest.mark.parametrize("linked", [False, True])
def test_denied_files_cannot_be_instructions(require, play, tmp_path, key, linked):
    secret = tmp_path / "secret.md"
    secret.write_text("xyzzy")
    (tmp_path / "link.md").symlink_to(secret)
    config = f'{key} = "{tmp_path / "link.md" if linked else secret}"'

    async def story(kernel):
        thread = await kernel.start_thread()
        kernel.model.add(say("done"))
        await thread.run("Hello!")
        return str(kernel.model.requests)

    assert "xyzzy" in play(story, config)
    require(f'[permissions.filesystem]\ndeny_read = ["{secret}"]')
    with pytest.raises(CodexError, match="may not be read"):
        play(story, config)


def test_a_denied_file_cannot_be_a_prompt_for_compactions(require, play, tmp_path):
    from codex_plugin_compaction.prompt import compact_prompt

    (tmp_path / "secret.md").write_text("xyzzy")
    (tmp_path / "link.md").symlink_to(tmp_path / "secret.md")
    config = {"experimental_compact_prompt_file": str(tmp_path / "link.md")}
    assert compact_prompt(config) == "xyzzy"
    require(f'[permissions.filesystem]\ndeny_read = ["{tmp_path}/secret.*"]')
    play(lambda kernel: kernel.start_thread())
    with pytest.raises(ConfigError, match="may not be read"):
        compact_prompt(config)


def test_only_workspace_roots_stand_for_the_folders_of_a_turn():
    from codex_framework.contract.protocol.permissions import Special, SpecialPath
    from codex_plugin_requirements.constraint import _folders

    paths = [SpecialPath(kind) for kind in Special if kind is not Special.WORKSPACE_ROOTS]
    assert list(_folders(paths, ("/usr",))) == []
    assert list(_folders([SpecialPath(Special.WORKSPACE_ROOTS, "lib")], ("/usr",))) == ["/usr/lib"]


def test_requirements_are_read_again_for_whoever_asks(play, require):
    require(POLICIES + "allow_appshots = false\n")

    async def story(kernel):
        thread = await kernel.start_thread()
        answers = []
        for text in (None, MODES, "", "modes = 1 = 2"):
            if text is not None:
                require(text)
            heard = thread.events(answers=False)
            submission = await thread.submit(kernel.op("read_requirements"))
            heard.end()
            answers += [event.msg async for event in heard if event.id == submission]
        return answers

    first, second, none, broken = play(story)
    assert {first.type, second.type, none.type} == {"requirements_response"}
    assert first.requirements.approvals == ("on-request", "untrusted")
    assert first.requirements.others == {"allow_appshots": False}
    assert second.requirements.sandboxes == ("read-only", "workspace-write")
    assert none.requirements is None
    assert isinstance(broken, ErrorEvent)
