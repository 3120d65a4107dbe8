"""Splits a shell script into commands, if that is possible with certainty.

A script is *simple* if it consists only of commands of plain words, joined by ``&&``, ``||``, ``;``, ``|`` or line ends. Their
words are exactly the words that the shell will see. Expansions, redirections, assignments, loops and background commands make a
script not simple, as does everything that the parser and bash might read differently.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from codex_framework.contract.value import Value
from codex_framework.toolkit.programs import is_shell

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

__all__ = ["ShellCommands", "shell_commands", "shell_script", "suspected_script", "words_of_all_commands"]

_NODES = frozenset(
    [
        "program",
        "list",
        "pipeline",
        "command",
        "command_name",
        "word",
        "string",
        "string_content",
        "raw_string",
        "number",
        "concatenation",
    ]
)
_TOKENS = frozenset({"&&", "||", ";", "|", '"', "'"})

_RESERVED = frozenset(
    [
        "!",
        "[[",
        "]]",
        "{",
        "}",
        "case",
        "coproc",
        "do",
        "done",
        "elif",
        "else",
        "esac",
        "fi",
        "for",
        "function",
        "if",
        "in",
        "select",
        "then",
        "time",
        "until",
        "while",
        "declare",
        "export",
        "local",
        "readonly",
        "typeset",
        "unset",
        "unsetenv",
    ]
)
"""Words that are not programs at the start of a command, although the grammar treats some of them as such."""

_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+,=\- ]+")
"""A script of only these characters is one command and is split at spaces, without loading the parser."""

_ODD_BLANK = re.compile(r"[^\S \t\n]|\0|(?<![ \t\n])\\\n(?![ \t\n])|\\[ \t]\\\n")
"""Blanks that separate words in the grammar but not in bash, and words that continue in the next line."""

_IN_QUOTES = re.compile(r'\\[$`"\\\n]')
_EXPANDED = re.compile(r"[*?\[]|^[~=]")
_UNQUOTED = re.compile(r"[^\s;&|<>()$`\"'\\#][^\s;&|<>()$`\"'\\]*")
_ASSIGNS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_ESCAPE = re.compile(r"\\(.)")
_DELIMITER = re.compile(r"(['\"]?)(\w+)\1", re.ASCII)
_BETWEEN_COMMANDS = re.compile(r"(?:[ \t\n]|\\\n)*")
_BETWEEN_WORDS = re.compile(r"(?:[ \t]|\\\n)*")


class ShellCommands(Value):
    """The commands of a script, in order.

    Attributes:
        expands: Whether a word is a pattern or starts with a tilde, so that the shell replaces it by file names.
        partial: Whether the only command reads a heredoc, whose content may be what matters.
    """

    commands: tuple[tuple[str, ...], ...]
    expands: bool = False
    partial: bool = False


def shell_script(argv: tuple[str, ...], own_shell: str = "") -> str | None:
    """Return the script in ``bash -lc SCRIPT``, ``sh -c SCRIPT`` and similar commands, or None. ``./bash`` is not a shell.

    Args:
        own_shell: The path of the user's shell, which is accepted at any location.
    """
    return _script(argv) if argv and (is_shell(argv[0]) or argv[0] == own_shell) else None


def suspected_script(argv: tuple[str, ...]) -> str | None:
    """Return the script of any program with the name of a shell. Only for rules that ask or forbid."""
    return _script(argv) if argv and is_shell(argv[0].rsplit("/", 1)[-1]) else None


def _script(argv: tuple[str, ...]) -> str | None:
    if len(argv) == 3 and argv[1] in ("-lc", "-c") and not argv[2].startswith(("-", "+")):  # further options
        return argv[2]
    return None


@lru_cache(maxsize=8)  # several plugins ask about the same command
def shell_commands(script: str) -> ShellCommands | None:
    """Return the commands of a simple script, or the only command of a script with a heredoc. None for all other scripts."""
    if _PLAIN.fullmatch(script):
        words = tuple(script.split())
        if words and "=" not in words[0] and words[0] not in _RESERVED and " =" not in script:
            return ShellCommands((words,))
    if _ODD_BLANK.search(script):
        return None
    root = _root(script)
    if root.has_error:
        return None
    return _simple(root, script) or _heredoc(root, script)


def words_of_all_commands(script: str) -> Iterator[tuple[str, ...]]:
    """Return the words of every command in a script, including loops and substitutions. An unknown word is empty.

    Only for rules that ask or forbid, because it also handles scripts that cannot be parsed.
    """
    nodes = [_root(script)]
    while nodes:
        node = nodes.pop()
        nodes.extend(reversed(node.children))
        if node.type == "command":
            parts = [
                child for child in node.named_children if child.type not in ("variable_assignment", "file_redirect")
            ]
            words = tuple("" if (word := _word(part, script)) is None else word.text for part in parts)
            yield words
            if words and words[0] in _RESERVED:
                yield _behind_reserved(words)


def _behind_reserved(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command after ``time -p``, ``coproc`` and ``! !``, which are programs to the grammar."""
    for place, word in enumerate(words):
        if word not in _RESERVED and word not in ("-p", "--", "") and not _ASSIGNS.match(word):
            return words[place:]
    return ()


class _Word(Value):
    """A word, or a part of one.

    Attributes:
        bare: The text that the shell checks for patterns and braces. Quoted and escaped characters are replaced by ``x``.
    """

    text: str
    bare: str

    @property
    def expands(self) -> bool:
        return bool(_EXPANDED.search(self.bare))


def _simple(root: Node, script: str) -> ShellCommands | None:
    commands: list[tuple[str, ...]] = []
    expands = False
    nodes = [root]
    while nodes:
        node = nodes.pop()
        if node.is_named:
            if node.type not in _NODES:
                return None
        elif node.type not in _TOKENS and node.type.strip():
            return None
        if node.type != "command":
            if not _covers(node, script):
                return None
            nodes.extend(reversed(node.children))
            continue
        words = _words(node, script)
        if words is None:
            return None
        commands.append(tuple(word.text for word in words))
        expands = expands or any(word.expands for word in words)
    return ShellCommands(tuple(commands), expands) if commands else None


def _heredoc(root: Node, script: str) -> ShellCommands | None:
    """Return the command of ``COMMAND <<EOF ... EOF`` and nothing else, whose text is not expanded."""
    if not _covers(root, script) or [child.type for child in root.children] != ["redirected_statement"]:
        return None
    match root.children[0].children:
        case [command, redirect] if command.type == "command" and redirect.type == "heredoc_redirect":
            pass
        case _:
            return None
    words, between = _words(command, script), script[command.end_byte : redirect.start_byte].strip(" \t")
    more = _heredoc_words(redirect, script)
    if words is None or more is None or between not in ("", "-"):
        return None
    if between:  # the grammar has no node for this word
        words.append(_Word(between, between))
    words.extend(more)
    return ShellCommands((tuple(word.text for word in words),), any(word.expands for word in words), partial=True)


def _heredoc_words(redirect: Node, script: str) -> list[_Word] | None:
    """Return the words after ``<<EOF`` in its line. None if there is anything but words, or the text may run something."""
    match redirect.children:
        case [arrow, start, *arguments, body, end] if (
            arrow.type in ("<<", "<<-")
            and [part.type for part in (start, body, end)] == ["heredoc_start", "heredoc_body", "heredoc_end"]
            and _covers(redirect, script)
        ):
            pass
        case _:
            return None
    delimiter = _DELIMITER.fullmatch(script, start.start_byte, start.end_byte)
    text = script[body.start_byte : body.end_byte]
    if script[start.end_byte : start.end_byte + 1] not in (" ", "\t", "\n"):
        return None  # the grammar ends the word sooner than bash does
    if delimiter is None or delimiter[2] in (line.lstrip("\t") for line in text.split("\n")):
        return None
    if not delimiter[1] and re.search(r"[$`]", text):
        return None
    words = [_word(argument, script) for argument in arguments]
    known = [word for word in words if word is not None]
    return known if len(known) == len(words) else None


def _covers(node: Node, script: str) -> bool:
    """Return whether there are only blanks between the parts, because the grammar omits some words (``-`` before ``<<``)."""
    if not node.children:
        return True
    blank = _BETWEEN_WORDS if node.type == "command" else _BETWEEN_COMMANDS
    start, end = (0, len(script)) if node.type == "program" else (node.start_byte, node.end_byte)
    places = [start, *(place for child in node.children for place in (child.start_byte, child.end_byte)), end]
    return all(blank.fullmatch(script, before, after) for before, after in zip(places[::2], places[1::2], strict=True))


def _words(command: Node, script: str) -> list[_Word] | None:
    """Return the words of a command. None if one is not certain, or the command does not run a program."""
    words = []
    for child in command.children:
        word = _word(child, script)
        if word is None:
            return None
        words.append(word)
    first = command.children[0]
    begins = script[first.start_byte : first.end_byte]
    apart = all(one.end_byte < other.start_byte for one, other in pairwise(command.children))
    return words if apart and _covers(command, script) and begins not in _RESERVED else None


def _word(node: Node, script: str) -> _Word | None:
    word = _part(node, script)
    if word is None or re.search(r"[{}]", word.bare.replace("{}", "")):
        return None
    return word


def _part(node: Node, script: str) -> _Word | None:
    text = script[node.start_byte : node.end_byte]
    match node.type:
        case "command_name" if node.child_count == 1:
            return _part(node.children[0], script)
        case "word" | "number" if node.child_count == 0:
            return _unquoted_word(text)
        case "raw_string":
            return _quoted_word(text[1:-1])
        case "string":
            plain = all(child.type in ('"', "string_content") for child in node.children)
            return None if not plain or _IN_QUOTES.search(text[1:-1]) else _quoted_word(text[1:-1])
        case "concatenation" if all(one.end_byte == other.start_byte for one, other in pairwise(node.children)):
            return _join_parts([_part(child, script) for child in node.children])
        case _:
            return None


def _quoted_word(text: str) -> _Word:
    return _Word(text, "x" * bool(text))


def _unquoted_word(text: str) -> _Word | None:
    bare = _ESCAPE.sub("x", text)  # a dot does not match a line end, so a backslash before one stays
    return None if not _UNQUOTED.fullmatch(bare) else _Word(_ESCAPE.sub(r"\1", text), bare)


def _join_parts(parts: list[_Word | None]) -> _Word | None:
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    return _Word("".join(part.text for part in known), "".join(part.bare for part in known))


def _root(script: str) -> Node:
    """Return the tree of a script in which byte offsets equal character offsets.

    To a shell, all characters beyond ASCII are letters. Besides, the grammar's scanner looks them up in tables that do not cover
    all of Unicode, which crashes the process (tree-sitter-bash 0.25: ``{`` before U+E0100).
    """
    plain = script if script.isascii() else re.sub(r"[^\x00-\x7f]", "x", script)
    return _parser().parse(plain.replace("\0", " ").encode()).root_node


@cache
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))
