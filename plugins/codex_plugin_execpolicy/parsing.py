"""Takes a shell script apart, where that can be done for certain.

A script is *simple* if it is nothing but commands of plain words, joined by ``&&``, ``||``, ``;``, ``|`` or line ends. The words
given for it are those that the shell will see. Whatever is expanded, redirected, assigned, looped or put into the background
makes a script not simple, and so does everything that the parser and bash might read differently.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from codex_framework.contract.value import Value

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

__all__ = ["ShellCommands", "shell_commands", "shell_script", "words_of_all_commands"]

_SHELLS = frozenset({"bash", "zsh", "sh", "dash", "ksh"})

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
"""Words that are no program where a command begins, though the grammar takes some of them for one."""

_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+,=\- ]+")
"""A script of nothing else is one command, and splits at its spaces: the parser need not be loaded for it."""

_ODD_BLANK = re.compile(r"[^\S \t\n]|\0|(?<![ \t\n])\\\n(?![ \t\n])|\\[ \t]\\\n")
"""Blanks by which the grammar parts words and bash does not, and words that go on in the next line."""

_IN_QUOTES = re.compile(r'\\[$`"\\\n]')
_EXPANDED = re.compile(r"[*?\[]|^[~=]")
_UNQUOTED = re.compile(r"[^\s;&|<>()$`\"'\\#][^\s;&|<>()$`\"'\\]*")
_ASSIGNS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_ESCAPE = re.compile(r"\\(.)")
_DELIMITER = re.compile(r"(['\"]?)(\w+)\1", re.ASCII)
_BETWEEN_COMMANDS = re.compile(r"(?:[ \t\n]|\\\n)*")
_BETWEEN_WORDS = re.compile(r"(?:[ \t]|\\\n)*")


class ShellCommands(Value):
    """The commands of a script, in its order.

    Attributes:
        expands: Some word is a pattern, or begins with a tilde: the shell puts names of files in its place.
        partial: The one command reads a heredoc, which may be all that matters.
    """

    commands: tuple[tuple[str, ...], ...]
    expands: bool = False
    partial: bool = False


def shell_script(argv: tuple[str, ...]) -> str | None:
    """The script in ``bash -lc SCRIPT``, ``sh -c SCRIPT`` and their like, else None."""
    if len(argv) == 3 and argv[1] in ("-lc", "-c") and argv[0].rsplit("/", 1)[-1] in _SHELLS:
        return None if argv[2].startswith(("-", "+")) else argv[2]  # those are options still
    return None


def shell_commands(script: str) -> ShellCommands | None:
    """The commands of a simple script, or the one command of a script that feeds it a heredoc; None for all others."""
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
    """The words of every command anywhere in a script, in loops and substitutions too; an unknown word is empty.

    For suspicion only: a script that does not parse is still looked at.
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
    """What ``time -p``, ``coproc`` and ``! !`` stand before: to the grammar they are programs."""
    for place, word in enumerate(words):
        if word not in _RESERVED and word not in ("-p", "--", "") and not _ASSIGNS.match(word):
            return words[place:]
    return ()


class _Word(Value):
    """A word, or a part of one.

    Attributes:
        bare: What of it the shell looks at for patterns and braces: quoted and escaped characters are an ``x`` here.
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
    """``COMMAND <<EOF ... EOF`` and nothing else, whose text is fed as it stands."""
    if not _covers(root, script) or [child.type for child in root.children] != ["redirected_statement"]:
        return None
    match root.children[0].children:
        case [command, redirect] if command.type == "command" and redirect.type == "heredoc_redirect":
            pass
        case _:
            return None
    words, between = _words(command, script), script[command.end_byte : redirect.start_byte].strip(" \t")
    more = _fed(redirect, script)
    if words is None or more is None or between not in ("", "-"):
        return None
    if between:  # the grammar has no node for this word
        words.append(_Word(between, between))
    words.extend(more)
    return ShellCommands((tuple(word.text for word in words),), any(word.expands for word in words), partial=True)


def _fed(redirect: Node, script: str) -> list[_Word] | None:
    """The words behind ``<<EOF`` in its line; None if anything but words is there, or the text may run something."""
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
    """Whether nothing but blanks stands between the parts: the grammar leaves some words out (``-`` before ``<<``)."""
    if not node.children:
        return True
    blank = _BETWEEN_WORDS if node.type == "command" else _BETWEEN_COMMANDS
    start, end = (0, len(script)) if node.type == "program" else (node.start_byte, node.end_byte)
    places = [start, *(place for child in node.children for place in (child.start_byte, child.end_byte)), end]
    return all(blank.fullmatch(script, before, after) for before, after in zip(places[::2], places[1::2], strict=True))


def _words(command: Node, script: str) -> list[_Word] | None:
    """The words of a command; None if one is not known for certain, or it is no command of a program."""
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
            return _unquoted(text)
        case "raw_string":
            return _quoted(text[1:-1])
        case "string":
            plain = all(child.type in ('"', "string_content") for child in node.children)
            return None if not plain or _IN_QUOTES.search(text[1:-1]) else _quoted(text[1:-1])
        case "concatenation" if all(one.end_byte == other.start_byte for one, other in pairwise(node.children)):
            return _joined([_part(child, script) for child in node.children])
        case _:
            return None


def _quoted(text: str) -> _Word:
    return _Word(text, "x" * bool(text))


def _unquoted(text: str) -> _Word | None:
    bare = _ESCAPE.sub("x", text)  # a dot takes no line end: a backslash before one stays
    return None if not _UNQUOTED.fullmatch(bare) else _Word(_ESCAPE.sub(r"\1", text), bare)


def _joined(parts: list[_Word | None]) -> _Word | None:
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    return _Word("".join(part.text for part in known), "".join(part.bare for part in known))


def _root(script: str) -> Node:
    """The tree of a script whose byte offsets are offsets of characters.

    To a shell all characters beyond ASCII are letters. Besides, the grammar's scanner looks them up in tables that end long
    before Unicode does, and takes the process down with it (tree-sitter-bash 0.25: ``{`` before U+E0100).
    """
    plain = script if script.isascii() else re.sub(r"[^\x00-\x7f]", "x", script)
    return _parser().parse(plain.replace("\0", " ").encode()).root_node


@cache
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))
