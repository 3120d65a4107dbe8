"""The interceptor that expands prompts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from codex_framework import InputRefused, InputText, Interceptor, Message, TurnContext, TurnFacts, UserInput

if TYPE_CHECKING:
    from codex_plugin_prompts.events import CustomPrompt

__all__ = ["CustomPrompts"]

_PREFIX = "/prompts:"
_PIPED = "\n\n<stdin>\n"
"""The beginning of what ``exec`` adds to a prompt from its standard input."""


class CustomPrompts(Interceptor):
    """Replaces an input ``/prompts:NAME ARGUMENTS`` by the text of a prompt, before other interceptors see it."""

    name = "custom-prompts"
    order = 10

    def __init__(self, codex_home: Path) -> None:
        self._codex_home = codex_home

    def takes(self, input: UserInput, turn: TurnFacts) -> bool:  # noqa: A002, ARG002  # the role's
        """Return whether an input may name a prompt."""
        texts = (
            part.text
            for item in input.items
            if isinstance(item, Message)
            for part in item.content
            if isinstance(part, InputText)
        )
        return any(text.startswith(_PREFIX) for text in texts)

    async def input(self, input: UserInput, turn: TurnContext) -> UserInput:  # noqa: A002  # the role's
        """Expand the first text of the user, if it names a prompt.

        Raises:
            InputRefused: There is no such prompt, its file cannot be used, or the arguments do not fit it.
        """
        for number, item in enumerate(input.items):
            if not isinstance(item, Message) or item.role != "user":
                continue
            for place, part in enumerate(item.content):
                if isinstance(part, InputText) and part.text.startswith(_PREFIX):
                    content = list(item.content)
                    content[place] = part.evolve(text=self._expanded(part.text, turn))
                    items = list(input.items)
                    items[number] = item.evolve(content=tuple(content))
                    return input.evolve(items=items)
                if isinstance(part, InputText) and not part.text.startswith(("<image name=", "</image>")):
                    return input
        return input

    def _expanded(self, text: str, turn: TurnContext) -> str:
        from codex_plugin_prompts.expansion import ExpansionError, expanded, invocation, words_of

        given, piped, rest = text.partition(_PIPED)
        name, arguments = invocation(given) or ("", "")
        prompt = self._prompt(name)
        try:
            result = expanded(prompt.content, arguments)
            if arguments and result == prompt.content and words_of(arguments):
                turn.thread.warn(f"the prompt {name} takes no arguments; `{arguments[:100]}` is ignored")
        except ExpansionError as error:
            raise InputRefused(f"{_PREFIX}{name}: {error}") from error
        return f"{result}{piped}{rest}"

    def _prompt(self, name: str) -> CustomPrompt:
        from codex_plugin_prompts.library import FOLDER, PromptFileError, find_prompt, read_prompts

        try:
            prompt = find_prompt(self._codex_home, name)
        except PromptFileError as error:
            raise InputRefused(f"the prompt {name!r} cannot be used: {error}") from error
        if prompt is None:
            known = ", ".join(each.name for each in read_prompts(self._codex_home).prompts)
            where = self._codex_home / FOLDER
            raise InputRefused(f"there is no prompt {name!r} in {where}. The prompts are: {known or 'none'}")
        return prompt
