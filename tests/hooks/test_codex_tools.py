"""Hook ``codex_tools``: what the model may call."""

from __future__ import annotations

from codex_framework import FunctionSpec, hookimpl, tool
from codex_framework.testing.replies import call, say


def test_codex_tools_example_is_offered_to_the_model_and_carried_out(example, run_turn):
    turn = run_turn(example("codex_tools"), replies=[call("count_words", path="poem.txt"), say("Six.")])
    assert turn.requests[0].tools == (
        FunctionSpec(
            "count_words",
            "Count the words of a file in the workspace.",
            {
                "type": "object",
                "properties": {"path": {"type": "string"}},
                "required": ["path"],
                "additionalProperties": False,
            },
        ),
    )
    assert (turn.outputs, turn.final) == (["6"], "Six.")


def test_codex_tools_abilities_are_looked_up_once(registry_of):
    class Able:
        spec = FunctionSpec("able", "Can do all.", {"type": "object", "properties": {}})
        parallel_safe = True
        aliases = ("capable",)
        programs = {"able": ("python3", "-m", "able")}  # noqa: RUF012

        async def run(self, call, context):
            return ""

        def offered(self, facts):
            return False

        def preview(self, call_id, text):
            return None

    class Plugin:
        @hookimpl
        def codex_tools(self):
            yield Able()

    registry = registry_of(Plugin())
    able = registry.tools["able"]
    assert (able.plugin, able.parallel, able.aliases) == ("Plugin", True, ("capable",))
    assert able.offered is not None
    assert able.offered(None) is False
    assert able.preview is not None
    assert registry.tools_by_call == {"able": able, "capable": able}
    assert registry.programs == {"able": ("python3", "-m", "able")}


def test_codex_tools_without_abilities_get_the_careful_defaults(registry_of):
    class Plain:
        spec = FunctionSpec("plain", "Plain.", {"type": "object", "properties": {}})

        async def run(self, call, context):
            return ""

    class Plugin:
        @hookimpl
        def codex_tools(self):
            return (Plain(),)

    plain = registry_of(Plugin()).tools["plain"]
    assert (plain.parallel, plain.aliases, plain.offered, plain.preview, plain.programs) == (False, (), None, None, {})


def test_codex_tools_of_several_plugins_stand_in_the_order_of_the_plugins(registry_of):
    def plugin(*names):
        class Plugin:
            @hookimpl
            def codex_tools(self):
                return [tool(name=name)(_nothing) for name in names]

        return Plugin

    assert list(registry_of(plugin("b", "a")(), type("Other", (plugin("d", "c"),), {})()).tools) == ["b", "a", "d", "c"]


def _nothing() -> None:
    """Do nothing."""
