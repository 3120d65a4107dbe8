"""``PermissionRequest``: hooks that answer requests for approval."""

from __future__ import annotations

import asyncio

import pytest

from codex_framework.testing import call, say
from tests.plugins.hooks.conftest import TRUSTED, group, prints, specific

ASK = ['approval_policy="untrusted"', 'sandbox_mode="danger-full-access"', TRUSTED]
WRITE = call("exec_command", cmd="touch made", login=False, justification="to make it")


def decision(behavior, **more):
    return specific("PermissionRequest", decision={"behavior": behavior, **more})


def outcome(make_kernel, workspace, replies=(WRITE,), plugins=(), **settings):
    """Run a turn whose client denies everything. Return whether the file exists, and what the model reads."""

    async def main():
        asked = []

        async def deny(request):
            asked.append(request)
            return request.unattended()

        async with make_kernel([*replies, say("Done.")], config=ASK, plugins=plugins) as kernel:
            thread = await kernel.start_thread(**settings)
            result = await thread.run("go", on_request=deny)
            outputs = [item.output for item in thread.history.items if item.type.endswith("_output")]
            warnings = [event.message for event in result.events if event.type == "warning"]
            return len(asked), (workspace / "made").exists(), outputs, warnings

    return asyncio.run(main())


def test_a_hook_approves_and_the_user_is_not_asked(hooks, make_kernel, workspace):
    hooks.write({"PermissionRequest": [group(hooks.says(decision("allow")), matcher="Bash")]})
    asked, made, outputs, _ = outcome(make_kernel, workspace)
    assert (asked, made) == (0, True)
    (given,) = hooks.inputs
    assert (given["tool_name"], given["tool_input"]["command"]) == ("Bash", "touch made")
    assert given["permission_mode"] == "default"
    assert "tool_use_id" not in given
    assert "code 0" in outputs[0]


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (prints(decision("deny", message="not this one")), "not this one"),
        (prints(decision("deny")), "PermissionRequest hook denied approval"),
        ("echo by rule >&2; exit 2", "by rule"),
    ],
)
def test_a_hook_denies(hooks, make_kernel, workspace, command, text):
    hooks.write({"PermissionRequest": [command]})
    asked, made, outputs, _ = outcome(make_kernel, workspace)
    assert (asked, made) == (0, False)
    assert text in outputs[0]


def test_a_denial_outweighs_an_approval(hooks, make_kernel, workspace):
    allow, deny = prints(decision("allow")), prints(decision("deny", message="no"))
    hooks.write({"PermissionRequest": [allow, deny, allow]})
    asked, made, *_ = outcome(make_kernel, workspace)
    assert (asked, made) == (0, False)


@pytest.mark.parametrize(
    "command",
    [
        "true",
        "exit 1",
        prints({}),
        prints(decision("allow", updatedInput={"command": "x"})),
        prints(decision("allow", updatedPermissions=[])),
        prints(decision("allow", interrupt=True)),
        prints({"continue": False, **decision("allow")}),
        prints("{broken"),
        prints(decision("perhaps")),
        prints(specific("PreToolUse", permissionDecision="allow")),
    ],
)
def test_without_a_valid_decision_the_user_is_asked(hooks, make_kernel, workspace, command):
    hooks.write({"PermissionRequest": [command]})
    asked, made, _, warnings = outcome(make_kernel, workspace)
    assert (asked, made) == (1, False)
    failed = command not in ("true", prints({}))
    assert any("PermissionRequest hook" in text for text in warnings) == failed


def test_a_hook_for_other_tools_decides_nothing(hooks, make_kernel, workspace):
    hooks.write({"PermissionRequest": [group(prints(decision("allow")), matcher="apply_patch")]})
    asked, made, *_ = outcome(make_kernel, workspace)
    assert (asked, made) == (1, False)


def test_a_patch_is_shown_as_a_patch(hooks, make_kernel, workspace):
    from codex_framework.testing import custom_call

    patch = "*** Begin Patch\n*** Add File: made\n+x\n*** End Patch"
    hooks.write({"PermissionRequest": [group(hooks.says(decision("allow")), matcher="Edit")]})
    asked, made, *_ = outcome(make_kernel, workspace, [custom_call("apply_patch", patch)], model="gpt-5-codex")
    assert (asked, made) == (0, True)
    (given,) = hooks.inputs
    assert (given["tool_name"], given["tool_input"]["command"]) == ("apply_patch", patch)


@pytest.mark.parametrize("by", ["hook", "interceptor"])
def test_a_hook_approves_what_is_run_and_not_what_the_model_has_asked(hooks, make_kernel, workspace, by):
    """A patch is changed after the model has made it; the request is about the other one."""
    from codex_framework import Interceptor, hookimpl
    from codex_framework.testing import custom_call

    asked, made = (f"*** Begin Patch\n*** Add File: {name}\n+x\n*** End Patch" for name in ("fine", "made"))

    class Changes(Interceptor):
        name = "changes"
        order = 200

        async def before_tool(self, call, turn):
            return call.evolve(arguments=made)

        @hookimpl
        def codex_interceptors(self):
            return [self]

    changed = specific("PreToolUse", permissionDecision="allow", updatedInput={"command": made})
    events = {"PermissionRequest": [hooks.says(decision("deny"))]}
    hooks.write({**events, **({"PreToolUse": [prints(changed)]} if by == "hook" else {})})
    plugins = [] if by == "hook" else [Changes()]
    count, exists, _, _ = outcome(
        make_kernel, workspace, [custom_call("apply_patch", asked)], plugins=plugins, model="gpt-5-codex"
    )
    assert (count, exists) == (0, False)
    (given,) = hooks.inputs
    assert given["tool_input"]["command"] == made


def test_a_changed_command_is_approved_as_it_is_run(hooks, make_kernel, workspace):
    changed = specific("PreToolUse", permissionDecision="allow", updatedInput={"command": "touch made"})
    hooks.write({"PreToolUse": [prints(changed)], "PermissionRequest": [hooks.says(decision("deny"))]})
    replies = [call("exec_command", cmd="ls", login=False)]
    assert outcome(make_kernel, workspace, replies)[:2] == (0, False)
    (given,) = hooks.inputs
    assert given["tool_input"]["command"] == "touch made"
