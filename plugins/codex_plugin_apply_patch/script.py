"""Recognises a shell script that does nothing but hand a heredoc to ``apply_patch``."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

__all__ = ["heredoc_patch"]

_COMMANDS = frozenset({b"apply_patch", b"applypatch"})

_SPECIAL = frozenset(b"\\*?[]{}~")
"""Characters that a shell does not take as they are in an unquoted word."""


def heredoc_patch(script: str) -> tuple[str, str | None] | None:
    """The patch and the folder of ``[cd FOLDER &&] apply_patch <<'EOF' ... EOF``.

    Anything else is None: more commands, arguments, pipes, redirections, variables, and whatever the parser does not take.
    """
    root = _parser().parse(script.encode("utf-8", "replace")).root_node
    if root.has_error or root.child_count != 1:
        return None
    statement = root.children[0]
    if statement.type != "redirected_statement" or statement.child_count != 2:
        return None
    body, redirect = statement.children
    patch = _heredoc(redirect)
    if patch is None:
        return None
    if _is_apply_patch(body):
        return patch, None
    folder = _folder(body)
    return None if folder is None else (patch, folder)


@cache
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def _types(node: Node) -> list[str]:
    return [child.type for child in node.children]


def _text(node: Node) -> bytes:
    return node.text or b""


def _heredoc(redirect: Node) -> str | None:
    if redirect.type != "heredoc_redirect" or _types(redirect) != [
        "<<",
        "heredoc_start",
        "heredoc_body",
        "heredoc_end",
    ]:
        return None
    return _text(redirect.children[2]).decode("utf-8")


def _is_apply_patch(command: Node) -> bool:
    if command.type != "command" or _types(command) != ["command_name"]:
        return False
    return _types(command.children[0]) == ["word"] and _text(command) in _COMMANDS


def _folder(body: Node) -> str | None:
    """The folder of ``cd FOLDER && apply_patch``."""
    if body.type != "list" or _types(body) != ["command", "&&", "command"]:
        return None
    change, _, patch = body.children
    if not _is_apply_patch(patch) or change.child_count != 2 or _text(change.children[0]) != b"cd":
        return None
    word = _word(change.children[1])
    # "cd -" goes back, and "cd ''" nowhere; other options are not folders either
    return None if not word or word.startswith("-") else word


def _word(node: Node) -> str | None:
    text = _text(node)
    if node.type == "word":
        return None if _SPECIAL & set(text) else text.decode("utf-8")
    if node.type == "raw_string":
        return text[1:-1].decode("utf-8")
    if node.type == "string" and _types(node) == ['"', "string_content", '"']:
        return None if b"\\" in text else text[1:-1].decode("utf-8")
    return None
