"""What a prompt and its arguments expand to. The cases of Codex 0.80 are what its terminal interface has sent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_plugin_prompts.expansion import ExpansionError, expanded, invocation, named_arguments, words_of

EXPANDED = {
    "nothing": ("Hello.", "", "Hello."),
    "first": ("Say $1.", "hi", "Say hi."),
    "nine": ("$1$2$3$4$5$6$7$8$9", "a b c d e f g h i j", "abcdefghi"),
    "missing": ("Say $1 and $2.", "hi", "Say hi and ."),
    "all": ("All: $ARGUMENTS.", 'a "b c"  d', "All: a b c d."),
    "all of none": ("All: $ARGUMENTS.", "", "All: ."),
    "ten": ("$10", "a", "a0"),
    "zero": ("$0 $", "a", "$0 $"),
    "escaped": ("$$1 $$ARGUMENTS $1", "a", "$$1 $$ARGUMENTS a"),
    "three": ("$$$1", "a", "$$a"),
    "Codex 0.80, escapes": ("$$1 $$ARGUMENTS $1 $0 $10 $$$1", "x", "$$1 $$ARGUMENTS x $0 x0 $$x"),
    "Codex 0.80, names": ("<$FILE> <$U_2> $$FILE $1 $ARGUMENTS", 'FILE=a U_2="b c"', "<a> <b c> $$FILE $1 $ARGUMENTS"),
    "Codex 0.80, like ARGUMENTS": ("$file $A1 $ARGUMENTSX", "A1=q ARGUMENTSX=w", "$file q w"),
    "Codex 0.80, quotes": ("[$1|$2|$ARGUMENTS]", "\"a\\$b\" 'x'y # c", "[a$b|xy|a$b xy]"),
    "a longer word": ("$ARGUMENTSx", "a", "ax"),
    "twice": ("$1 $1", "a", "a a"),
    "an argument is not expanded": ("$1 $2", "'$2' b", "$2 b"),
    "lower case": ("$file $1", "a", "$file a"),
    "named": ("Review $FILE for $USER_2.", "FILE=a.py USER_2=ada", "Review a.py for ada."),
    "named with spaces": ("Look at $FOCUS.", 'FOCUS="error handling"', "Look at error handling."),
    "named and empty": ("[$FILE]", "FILE=", "[]"),
    "named with equals": ("$X", "X=a=b", "a=b"),
    "the last counts": ("$X", "X=a X=b", "b"),
    "more than needed": ("$X", "X=a Y=b", "a"),
    "named, escaped": ("$$FILE $FILE", "FILE=a", "$$FILE a"),
    "named leaves positions": ("$FILE $1 $ARGUMENTS", "FILE=a", "a $1 $ARGUMENTS"),
    "only escaped": ("$$FILE $1", "a", "$$FILE a"),
    "a value is not expanded": ("$A $B", "A='$B' B=x", "$B x"),
}

REFUSED = {
    "missing": ("$A and $B", "A=1", "these arguments are missing: B. Add B=..."),
    "no sign": ("$A", "x", "'x' is not of the form NAME=value"),
    "no name": ("$A", "=x", "'=x' has no name before the `=`"),
    "single quote": ("$1", "don't", "a single quote is not closed"),
    "double quote": ("$1", 'say "hi', "a double quote is not closed"),
    "backslash": ("$1", "a\\", "nothing follows the last backslash"),
}


@pytest.mark.parametrize(("content", "arguments", "text"), EXPANDED.values(), ids=EXPANDED)
def test_a_prompt_is_expanded(content: str, arguments: str, text: str) -> None:
    assert expanded(content, arguments) == text


@pytest.mark.parametrize(("content", "arguments", "reason"), REFUSED.values(), ids=REFUSED)
def test_arguments_that_do_not_fit_are_refused(content: str, arguments: str, reason: str) -> None:
    with pytest.raises(ExpansionError) as caught:
        expanded(content, arguments)
    assert str(caught.value).startswith(reason)


WORDS = {
    "plain": ("a  b\tc\nd", ["a", "b", "c", "d"]),
    "single": ("'a  b'c", ["a  bc"]),
    "double": ("\"a 'b'\"", ["a 'b'"]),
    "empty": ("'' \"\"", ["", ""]),
    "backslash": ("a\\ b \\\\ \\'", ["a b", "\\", "'"]),
    "in double quotes": ('"\\$ \\` \\" \\\\ \\n"', ['$ ` " \\ \\n']),
    "line ends": ('a\\\nb "c\\\nd"', ["ab", "cd"]),
    "comment": ("a # b\nc#d", ["a", "c#d"]),
}


@pytest.mark.parametrize(("text", "words"), WORDS.values(), ids=WORDS)
def test_arguments_are_split_as_by_a_shell(text: str, words: list[str]) -> None:
    assert words_of(text) == words


@given(st.lists(st.text(alphabet="ab '\"\\#$\n\t=é", max_size=8), max_size=5))
def test_quoted_words_are_found_again(words: list[str]) -> None:
    import shlex

    assert words_of(shlex.join(words)) == words


@given(st.text(alphabet="ab$1A '\"\\#\n=", max_size=30), st.text(alphabet="ab$1A '\"\\#\n=", max_size=30))
def test_an_expansion_succeeds_or_says_why(content: str, arguments: str) -> None:
    try:
        text = expanded(content, arguments)
    except ExpansionError as error:
        assert str(error)
    else:
        assert "$" in content or text == content


def test_names_of_arguments_are_in_order() -> None:
    assert named_arguments("$B $A $B $$C $ARGUMENTS $A1_X $1 $a") == ["B", "A", "A1_X"]


INVOKED = {
    "/prompts:review": ("review", ""),
    "/prompts:review a  b ": ("review", "a  b"),
    "/prompts:review\na": ("review", "a"),
    "/prompts:": ("", ""),
    "/prompts: x": ("", "x"),
    "/prompts": None,
    " /prompts:review": None,
    "see /prompts:review": None,
}


@pytest.mark.parametrize(("text", "found"), INVOKED.items(), ids=map(repr, INVOKED))
def test_an_input_that_names_a_prompt_is_recognised(text: str, found: tuple[str, str] | None) -> None:
    assert invocation(text) == found
