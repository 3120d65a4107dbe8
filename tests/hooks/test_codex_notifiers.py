"""Hook ``codex_notifiers``: who is told when a turn ends or needs a person."""

from __future__ import annotations

from codex_framework import Agent, Decision, Limits, Notifier, ReviewDecision, hookimpl, tool
from codex_framework.testing import Offer, call, fail, say


def test_codex_notifiers_example_rings_when_a_turn_ends(example, run_turn, capsys):
    turn = run_turn(example("codex_notifiers"))
    assert turn.final == "Done."
    assert capsys.readouterr().err == "\a"


def test_codex_notifiers_are_told_what_was_asked_and_answered(run_turn):
    class Plugin:
        name = "diary"
        told = []  # noqa: RUF012

        def notify(self, notification):
            self.told.append(notification)

        @hookimpl
        def codex_notifiers(self):
            return [self]

    run_turn(Plugin())
    (notification,) = Plugin.told
    assert (notification.type, notification.input_messages, notification.last_assistant_message) == (
        "agent-turn-complete",
        ("Hello!",),
        "Done.",
    )


class Diary:
    """A plugin that offers itself as a notifier without deriving from the role."""

    name = "diary"

    def __init__(self):
        self.told = []

    def notify(self, notification):
        self.told.append(notification)

    @hookimpl
    def codex_notifiers(self):
        return [self]


def test_codex_notifiers_are_told_that_a_turn_has_failed(run_turn):
    diary = Diary()
    run_turn(diary, replies=[fail("the model is gone")])
    (notification,) = diary.told
    assert (notification.type, notification.text) == ("turn-failed", "the model is gone")
    assert notification.input_messages == ("Hello!",)
    assert notification.last_assistant_message is None
    assert notification.duration_s >= 0
    assert notification.client == "codex_framework"


def test_codex_notifiers_are_told_that_a_limit_was_reached(run_turn):
    diary = Diary()
    run_turn(diary, agent=Agent(name="frugal", limits=Limits(requests=0)), originator="my_client")
    (notification,) = diary.told
    assert notification.type == "budget-reached"
    assert "request" in notification.text
    assert notification.client == "my_client"


def test_codex_notifiers_are_told_what_the_user_is_asked(run_thread):
    diary = Diary()

    async def drive(kernel, thread, model):
        async def answer(request):
            return ReviewDecision(Decision.APPROVED)

        return await thread.run("Hello!", on_request=answer)

    @tool(needs_approval=True)
    async def risky() -> str:
        """Do it."""
        return "done"

    offer = Offer(tools=[risky])
    run_thread(drive, diary, offer, replies=[call("risky"), say("Done.")], approval_policy="on-request")
    asked, done = diary.told
    assert (asked.type, done.type) == ("approval-requested", "agent-turn-complete")
    assert "risky" in asked.text
    assert asked.duration_s is None
    assert asked.client == "codex_framework"


def test_codex_notifiers_are_flushed_once_at_the_end(run_turn):
    class Postman(Diary):
        def flush(self):
            self.told.append("flushed")

    postman = Postman()
    run_turn(postman)
    assert [getattr(each, "type", each) for each in postman.told] == ["agent-turn-complete", "flushed"]


def test_codex_notifiers_that_fail_at_the_end_are_named(run_thread):
    class Broken(Notifier):
        name = "broken"

        def notify(self, notification):
            pass

        def flush(self):
            raise OSError("no post")

    kernels = []

    async def drive(kernel, thread, model):
        kernels.append(kernel)
        return await thread.run("Hello!")

    run_thread(drive, Offer(name="post", notifiers=[Broken()]))
    (warning,) = kernels[0].registry.warnings
    assert "notifier 'broken' of plugin 'post': flush() failed: OSError: no post" in warning
