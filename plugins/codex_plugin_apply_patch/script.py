"""Recognises a shell script that does nothing but hand a heredoc to ``apply_patch``."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

__all__ = ["heredoc_patch"]

_COMMANDS = frozenset({"apply_patch", "applypatch"})

_SPECIAL = frozenset("\\*?[]{}~")
"""Characters that have a special meaning in an unquoted word of a shell."""


def heredoc_patch(script: str) -> tuple[str, str | None] | None:
    """Return the patch and the folder of ``[cd FOLDER &&] apply_patch <<'EOF' ... EOF``.

    Anything else is None: more commands, arguments, pipes, redirections, variables, and anything that the parser does not
    accept.
    """
    if "\0" in script:
        return None
    root = _parser().parse(_ascii(script)).root_node
    if root.has_error or root.child_count != 1:
        return None
    statement = root.children[0]
    if statement.type != "redirected_statement" or statement.child_count != 2:
        return None
    body, redirect = statement.children
    patch = _heredoc(redirect, script)
    if patch is None:
        return None
    if _is_apply_patch(body, script):
        return patch, None
    folder = _folder(body, script)
    return None if folder is None else (patch, folder)


def _ascii(script: str) -> bytes:
    """Return the script with one byte for each character, so that byte offsets are offsets in it.

    For a shell, all other characters are letters. Also, the grammar's scanner looks them up in tables that do not cover all of
    Unicode, and crashes the process (tree-sitter-bash 0.25: ``{`` before U+E0100).
    """
    return script.encode() if script.isascii() else re.sub(r"[^\x00-\x7f]", "x", script).encode()


@cache
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def _types(node: Node) -> list[str]:
    return [child.type for child in node.children]


def _text(node: Node, script: str) -> str:
    return script[node.start_byte : node.end_byte]


def _heredoc(redirect: Node, script: str) -> str | None:
    parts = ["<<", "heredoc_start", "heredoc_body", "heredoc_end"]
    if redirect.type != "heredoc_redirect" or _types(redirect) != parts:
        return None
    return _text(redirect.children[2], script)


def _is_apply_patch(command: Node, script: str) -> bool:
    if command.type != "command" or _types(command) != ["command_name"]:
        return False
    return _types(command.children[0]) == ["word"] and _text(command, script) in _COMMANDS


def _folder(body: Node, script: str) -> str | None:
    """Return the folder of ``cd FOLDER && apply_patch``."""
    if body.type != "list" or _types(body) != ["command", "&&", "command"]:
        return None
    change, _, patch = body.children
    if not _is_apply_patch(patch, script) or change.child_count != 2 or _text(change.children[0], script) != "cd":
        return None
    word = _word(change.children[1], script)
    # "cd -" goes back, and "cd ''" nowhere; other options are not folders either
    return None if not word or word.startswith("-") else word


def _word(node: Node, script: str) -> str | None:
    text = _text(node, script)
    if node.type == "word":
        return None if _SPECIAL & set(text) else text
    if node.type == "raw_string":
        return text[1:-1]
    if node.type == "string" and _types(node) == ['"', "string_content", '"']:
        return None if "\\" in text else text[1:-1]
    return None
