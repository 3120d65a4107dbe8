"""A tool that counts words."""

from __future__ import annotations

from codex_framework import ToolContext, tool

__all__ = ["count_words"]


@tool(parallel_safe=True)
async def count_words(path: str, context: ToolContext, longest: int = 0) -> str:
    """Count the words of a text file in the workspace.

    Args:
        path: The file, relative to the working folder or absolute.
        longest: The number of longest words to list as well.
    """
    words = (await context.read_text(path)).split()
    lines = [f"{path} has {len(words)} words."]
    if longest > 0:
        ranked = sorted(set(words), key=lambda word: (-len(word), word))
        lines.append("Longest: " + ", ".join(ranked[:longest]))
    return "\n".join(lines)
