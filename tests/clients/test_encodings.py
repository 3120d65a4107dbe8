"""Output in locales and encodings other than UTF-8."""

from __future__ import annotations

import pytest

from codex_framework.testing.replies import call, say

PLAN = say("Plan…") + call("update_plan", plan=[{"step": "Look – “here”", "status": "completed"}])


@pytest.mark.parametrize("locale", [{"LANG": "C"}, {"LC_ALL": "C"}, {"LC_ALL": "POSIX"}])
def test_the_c_locale_gets_the_signs_as_they_are(cli, locale):
    cli.serve(PLAN, say("Done… é"), more="tools.update_plan = {enabled = true}\n")
    env = {
        key: value for key, value in cli.env.items() if key not in ("LANG", "LC_ALL", "LC_CTYPE", "PYTHONIOENCODING")
    }
    ran = cli.run("exec", "hi", env=env | locale)
    assert (ran.status, ran.out) == (0, "Done… é\n")
    assert "  ✓ Look – “here”\n" in ran.err


def test_an_encoding_without_our_signs_gets_plain_ones_and_escapes_of_the_others_alone(cli):
    cli.serve(PLAN, say("Done… é"), more="tools.update_plan = {enabled = true}\n")
    ran = cli.run("exec", "hi", env=cli.env | {"PYTHONIOENCODING": "ascii"})
    assert (ran.status, ran.out) == (0, "Done... \\xe9\n")
    assert '  + Look - "here"\n' in ran.err
    assert "\\u" not in ran.err
