"""Questions to the person: approvals, permissions, questions of the model and forms of servers.

:func:`question_of` creates a :class:`Question` from a request: the displayed text, the possible answers, and the meaning of
each. It is independent of the screen. :class:`Decision` shows one question and takes the keys.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from codex_client_terminal.composer import Composer
from codex_client_terminal.items import change_lines, command_text
from codex_client_terminal.keys import Key, Paste
from codex_client_terminal.text import Line, cut, wrap
from codex_framework import Decision as Verdict
from codex_framework import Request, ReviewDecision, Value
from codex_framework.contract.permissions.profile import additional_from_wire
from codex_framework.contract.protocol.events import (
    ApplyPatchApprovalRequestEvent,
    ApprovalRequest,
    ExecApprovalRequestEvent,
    RequestPermissionsEvent,
)
from codex_framework.contract.protocol.wire import read, to_wire
from codex_framework.toolkit.approval_questions import ALLOW_PREFIX, answer_labels, approval_question

__all__ = ["Decision", "Option", "Question", "question_of"]

_LINE_ROWS, _MOST_ROWS = 3, 12
"""The most rows of one line of a question, and of all its lines, that stay on the screen. The whole question is printed above."""


class Option(Value, kw_only=True):
    """An answer to choose.

    Attributes:
        label: The displayed text.
        key: A key that chooses it immediately. May be empty.
        answer: The answer to the request. For an option with ``asks_text``, a function of the text.
        asks_text: The prompt for a text when the option is chosen. Empty if it needs no text.
        outcome: The text that is printed after the choice.
    """

    label: str
    key: str = ""
    answer: Any = None
    asks_text: str = ""
    is_secret: bool = False
    outcome: str = ""


class Question(Value, kw_only=True):
    """A question with its answers.

    Attributes:
        lines: The question.
        details: Long details, such as a diff, which are printed above when the question comes.
        options: The answers. The first one is chosen at the beginning.
        on_escape: The answer of the key Esc.
        follows: Makes the next question of the same request from an answer. It returns an answer if no question follows.
    """

    lines: Sequence[Line]
    options: Sequence[Option]
    on_escape: Option
    details: Sequence[Line] = ()
    follows: Callable[[Any], Any] | None = None

    def shown(self, width: int) -> list[Line]:
        """Return the rows of the question. No long text in it can push the other rows off the screen."""
        rows = [row for line in self.lines for row in wrap(cut(line, _LINE_ROWS * width), width)]
        if len(rows) > _MOST_ROWS:
            rows[_MOST_ROWS - 1 :] = [cut([(f"… {len(rows) - _MOST_ROWS + 1} more rows", "yellow")], width)]
        return rows

    def printed(self, width: int) -> list[Line]:
        """Return the text to print above a new question: the details, and the whole question if only a part of it fits."""
        whole = [row for line in self.lines for row in wrap(line, width)]
        return [*self.details, *([] if whole == self.shown(width) else [[], *self.lines])]


def question_of(request: Request[Any]) -> Question | None:
    """Return the question of a request, or None if a person at a terminal cannot answer it."""
    try:
        return _question(request)
    except (AttributeError, LookupError, TypeError, ValueError):
        return None  # a server or a model has asked for something impossible


def _question(request: Request[Any]) -> Question | None:
    match request:
        case ApprovalRequest():
            return _approval(request)
        case _ if request.type == "request_user_input":
            return _user_input(request)
        case _ if request.type == "elicitation_request":
            return _elicitation(request)
        case _:
            return None


# Approvals


def _approval(request: ApprovalRequest) -> Question:
    details: list[Line] = []
    text, what = approval_question(request), request.subject
    match request:
        case ExecApprovalRequestEvent():
            command = command_text(request.command)
            text = approval_question(request, command=command)
            if (network := request.network_approval_context) is not None:
                what = f"connections to {network.get('host')}"
            else:
                what = command
                details = [
                    [],
                    *(
                        [("$ " if number == 0 else "  ", "dim"), (row, "")]
                        for number, row in enumerate(what.split("\n"))
                    ),
                ]
        case ApplyPatchApprovalRequestEvent():
            changes = [(path, to_wire(change)) for path, change in sorted(request.changes.items())]
            details = [line for path, change in changes for line in ([], *change_lines(path, change, whole=True))]
        case _:
            pass
    lines: list[Line] = [[(row, "bold" if number == 0 else "")] for number, row in enumerate(text.split("\n"))]
    options = _approval_options(request, what)
    return Question(lines=lines, details=details, options=options, on_escape=options[-1])


def _approval_options(request: ApprovalRequest, what: str) -> list[Option]:
    options = []
    first, _, more = what.partition("\n")
    shown = f"{first} …" if more else first
    for word, label in answer_labels(request).items():
        if word in ("denied", "abort"):
            continue
        options.append(
            Option(
                label=label,
                key=_KEYS.get(word, ""),
                answer=_allow(request, word),
                outcome=f"✔ You approved {shown}{_SCOPES.get(word, '')}",
            )
        )
    for rule in getattr(request, "proposed_network_policy_amendments", None) or ():
        allows = rule.get("action") == "allow"
        options.append(
            Option(
                label=f"{'Allow' if allows else 'Deny'} the host {rule.get('host')} in all sessions",
                answer=ReviewDecision(Verdict.APPROVED if allows else Verdict.DENIED, network_amendment=dict(rule)),
                outcome=f"{'✔ You allowed' if allows else '✗ You denied'} {rule.get('host')} for all sessions",
            )
        )
    denied = f"✗ You denied {shown}"
    options.append(
        Option(label="Deny, and let the model continue", key="d", answer=ReviewDecision(Verdict.DENIED), outcome=denied)
    )
    options.append(
        Option(
            label="Deny, and tell the model what to do instead",
            key="r",
            asks_text="What should the model do instead?",
            answer=lambda text: ReviewDecision(Verdict.DENIED, message=f"rejected by user: {text}"),
            outcome=denied,
        )
    )
    options.append(
        Option(
            label="Deny, and stop the turn",
            key="n",
            answer=ReviewDecision(Verdict.ABORT),
            outcome=f"✗ You denied {shown}, and stopped the turn",
        )
    )
    return options


_KEYS = {"approved": "y", "approved_for_session": "a", ALLOW_PREFIX: "p", "approved_always": "w"}
_SCOPES = {
    "approved_for_session": " for this session",
    ALLOW_PREFIX: ", and commands that begin like it",
    "approved_always": " for all sessions",
}


def _allow(request: ApprovalRequest, word: str) -> ReviewDecision:
    """Return the decision that a word of ``answer_labels`` means."""
    if word == ALLOW_PREFIX:
        assert isinstance(request, ExecApprovalRequestEvent)
        return ReviewDecision(Verdict.APPROVED, execpolicy_amendment=request.proposed_execpolicy_amendment)
    if isinstance(request, RequestPermissionsEvent):
        return ReviewDecision(Verdict(word), granted=additional_from_wire(dict(request.permissions)))
    return ReviewDecision(Verdict(word))


# Questions of the model


def _user_input(request: Request[Any]) -> Question:
    return _ask_next(request, list(to_wire(request)["questions"]), {})


def _ask_next(request: Request[Any], questions: list[Mapping[str, Any]], answers: dict[str, Any]) -> Question:
    """Return the question for the first of several questions. Its answer opens the next one."""
    asked, rest = questions[0], questions[1:]
    total = len(questions) + len(answers)
    place = f" ({len(answers) + 1}/{total})" if total > 1 else ""

    def finish(answer: Sequence[str]) -> Any:
        given = (
            {**answers, asked["id"]: {"answers": list(answer)}} if answer else {**answers, asked["id"]: {"answers": []}}
        )
        return _ask_next(request, rest, given) if rest else read(request.answer_type, {"answers": given})

    options = [
        Option(
            label=f"{each['label']}  {each.get('description') or ''}".rstrip(),
            answer=[each["label"]],
            outcome=f"• {asked['question']} {each['label']}",
        )
        for each in asked.get("options") or ()
    ]
    secret = bool(asked.get("isSecret"))
    if not options or asked.get("isOther", True):
        said = f"• {asked['question']} (answered)"
        options.append(
            Option(
                label="Something else ..." if options else "Answer ...",
                asks_text=asked["question"],
                answer=lambda text: [text],
                is_secret=secret,
                outcome=said,
            )
        )
    skip = Option(label="Skip", answer=[], outcome=f"• {asked['question']} (no answer)")
    lines: list[Line] = [[(f"{asked.get('header') or 'Question'}{place}", "bold")], [(asked["question"], "")]]
    return Question(lines=lines, options=options, on_escape=skip, follows=finish)


# Forms of servers


def _elicitation(request: Request[Any]) -> Question:
    wire = to_wire(request)
    asked = wire["request"]

    def answer(decision: str, content: Mapping[str, Any] | None = None) -> Any:
        return read(request.answer_type, {"decision": decision, "content": content})

    lines: list[Line] = [
        [(f"The server {wire['server_name']} asks:", "bold")],
        *([(row, "")] for row in str(asked.get("message") or "").split("\n")),
    ]
    lines += [[(str(problem), "yellow")] for problem in wire.get("problems") or ()]
    decline = Option(label="Decline", key="d", answer=answer("decline"), outcome="✗ You declined")
    cancel = Option(label="Cancel", key="n", answer=answer("cancel"), outcome="✗ You cancelled")
    if asked.get("mode") == "url":
        lines[:0] = [
            [("Open a page of the host ", ""), (_end_of(str(asked.get("host"))), "bold")],
            [(str(asked.get("url")), "underline")],
        ]
        done = Option(label="I have opened it", key="y", answer=answer("accept"), outcome="✔ You opened the page")
        return Question(lines=lines, options=[done, decline, cancel], on_escape=cancel)
    fields = list((asked.get("requested_schema") or {}).get("properties", {}).items())
    required = {str(name) for name in (asked.get("requested_schema") or {}).get("required") or ()}
    if not fields:
        accept = Option(label="Accept", key="y", answer=answer("accept", {}), outcome="✔ You accepted")
        return Question(lines=lines, options=[accept, decline, cancel], on_escape=cancel)
    return _ask_field(lines, fields, required, {}, answer, [decline, cancel])


def _ask_field(
    lines: Sequence[Line],
    fields: list[tuple[str, Mapping[str, Any]]],
    required: set[str],
    content: dict[str, Any],
    answer: Callable[..., Any],
    refusals: Sequence[Option],
) -> Question:
    """Return the question for the first of some fields of a form."""
    (name, schema), rest = fields[0], fields[1:]

    def finish(value: Any) -> Any:
        if isinstance(value, _Whole):
            return value.answer
        given = content if value is None else {**content, name: value}
        return _ask_field(lines, rest, required, given, answer, refusals) if rest else answer("accept", given)

    title = str(schema.get("title") or name)
    shown: list[Line] = [[(title, "bold"), (f"  {schema.get('description') or ''}", "dim")], *lines]
    options = [Option(label=label, answer=value, outcome=f"• {title}: {label}") for label, value in _values(schema)]
    if not options:
        options = [
            Option(
                label="Answer ...",
                asks_text=title,
                answer=lambda text: _convert_text(schema, text),
                outcome=f"• {title} (answered)",
            )
        ]
    if "default" in schema:
        options.insert(
            0,
            Option(
                label=f"Keep {json.dumps(schema['default'], ensure_ascii=False)}",
                answer=schema["default"],
                outcome=f"• {title} (default)",
            ),
        )
    elif name not in required:
        options.append(Option(label="Leave it out", answer=None, outcome=f"• {title} (left out)"))
    options += [each.evolve(answer=_Whole(each.answer)) for each in refusals]
    return Question(lines=shown, options=options, on_escape=options[-1], follows=finish)


def _end_of(host: str) -> str:
    """Return a host. Of a long one, the end says whose it is."""
    return host if len(host) <= 60 else f"…{host[-60:]}"


class _Whole:
    """An answer to the whole form."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer


def _values(schema: Mapping[str, Any]) -> list[tuple[str, Any]]:
    if schema.get("type") == "boolean":
        return [("Yes", True), ("No", False)]
    if choices := schema.get("oneOf"):
        return [(str(each.get("title") or each.get("const")), each.get("const")) for each in choices]
    names = schema.get("enumNames") or ()
    return [
        (str(names[place]) if place < len(names) else str(value), value)
        for place, value in enumerate(schema.get("enum") or ())
    ]


def _convert_text(schema: Mapping[str, Any], text: str) -> Any:
    """Return the user's text as the type of a field. Invalid text is sent as text, and asked for again."""
    try:
        match schema.get("type"):
            case "integer":
                return int(text)
            case "number":
                return float(text)
            case "array":
                return [part.strip() for part in text.split(",") if part.strip()]
            case _:
                return text
    except ValueError:
        return text


# On the screen


class Decision:
    """A question on the screen. It takes the place of the composer.

    Args:
        on_answer: Called with the answer and the line to print.
        guard_s: How long no key must have come, from when the question is first drawn, before one can answer it, in seconds. Keys
            before that were meant for something else.
    """

    def __init__(self, question: Question, on_answer: Callable[[object, str], None], *, guard_s: float = 0.0) -> None:
        self.question = question
        self._on_answer = on_answer
        self._guard_s = guard_s
        self._open_at: float | None = None
        self._chosen = 0
        self._writing: Option | None = None
        self._composer = Composer({})

    @property
    def waits_s(self) -> float:
        """How long the question still takes no keys, in seconds."""
        return self._guard_s if self._open_at is None else max(0.0, self._open_at - time.monotonic())

    def press(self, key: Key | Paste) -> bool:
        """Handle a key. Return whether it was used. A key that was meant for something else is not."""
        if self.waits_s:
            self._open_at = time.monotonic() + self._guard_s
            return False
        if self._writing is not None:
            self._press_writing(self._writing, key)
            return True
        options = self.question.options
        if isinstance(key, Paste):
            return True
        if key in ("up", "c-p", "k"):
            self._chosen = (self._chosen - 1) % len(options)
        elif key in ("down", "c-n", "j", "tab"):
            self._chosen = (self._chosen + 1) % len(options)
        elif key == "enter":
            self._choose(options[self._chosen])
        elif key in ("esc", "c-c"):
            self._choose(self.question.on_escape)
        elif key.isdecimal() and 0 < int(key) <= len(options):
            self._choose(options[int(key) - 1])
        else:
            found = next((each for each in options if each.key and each.key == key), None)
            if found is not None:
                self._choose(found)
        return True

    def _press_writing(self, option: Option, key: Key | Paste) -> None:
        if key == "esc":
            self._writing = None
        elif key == "enter":
            text = self._composer.whole.strip()
            if text:
                self._answer(option, option.answer(text))
        else:
            self._composer.press(key)

    def _choose(self, option: Option) -> None:
        if option.asks_text:
            self._writing = option
            self._composer = Composer({}, hint=option.asks_text)
        else:
            self._answer(option, option.answer)

    def _answer(self, option: Option, answer: Any) -> None:
        if self.question.follows is not None:
            answer = self.question.follows(answer)
        if isinstance(answer, Question):
            self.question, self._chosen, self._writing = answer, 0, None
            return
        self._on_answer(answer, option.outcome)

    def lines(self, width: int) -> tuple[list[Line], tuple[int, int]]:
        """Return the lines to draw, and where the cursor is."""
        if self._open_at is None:
            self._open_at = time.monotonic() + self._guard_s
        lines = self.question.shown(width)
        lines.append([])
        cursor = (0, 0)
        for number, option in enumerate(self.question.options):
            chosen = number == self._chosen
            if chosen:
                cursor = (len(lines), 0)
            key = f" ({option.key})" if option.key else ""
            style = "bold cyan" if chosen else ""
            lines.append(cut([(f"{'›' if chosen else ' '} {number + 1}. {option.label}", style), (key, "dim")], width))
        if self._writing is not None:
            lines.append([])
            shown, place = self._composer.lines(width)
            cursor = (len(lines) + place[0], place[1])
            lines += (
                [[("› ", "bold"), ("•" * len(self._composer.text), "")]]
                if self._writing.is_secret and self._composer.text
                else shown
            )
        escape = self.question.on_escape.label.lower() if self._writing is None else "back"
        footer = "one moment" if self.waits_s else f"enter chooses · esc: {escape}"
        lines.append(cut([(f"  {footer}", "dim")], width))
        return lines, cursor
