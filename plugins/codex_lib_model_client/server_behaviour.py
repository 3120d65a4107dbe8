"""Undocumented behaviour of model servers: one table for all wires.

A server that speaks one API today speaks another tomorrow, and proxies forward messages of one API in the form of another. So
every wire handles all rows. The documentation renders the rows, and a test per wire checks each of them.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, TypeAlias

__all__ = ["ANSWERS", "REFUSALS", "AnswerForm", "Meaning", "Refusal", "meaning_of"]

Meaning: TypeAlias = Literal["too long", "no images", "short ids"]
"""The meaning of a refusal: the conversation is too long for the model, the model takes no images, or ids of calls must be
short.
"""


class Refusal(NamedTuple):
    """How a server refuses a request.

    Attributes:
        server: The server that sends it.
        status: The status of the response.
        words: The server's message, or the code or type of its error.
    """

    meaning: Meaning
    server: str
    status: int
    words: str


class AnswerForm(NamedTuple):
    """An undocumented form of servers' answers.

    Attributes:
        name: A name for it.
        does: What the server does, as a sentence.
        becomes: How it is handled, as a sentence.
    """

    name: str
    does: str
    becomes: str


REFUSALS: tuple[Refusal, ...] = (
    Refusal(
        "too long", "OpenAI", 400, "Your input exceeds the context window of this model. Please adjust your input."
    ),
    Refusal(
        "too long",
        "vLLM",
        400,
        "This model's maximum context length is 32768 tokens. However, you requested 40000 tokens.",
    ),
    Refusal(
        "too long", "vLLM", 400, "The decoder prompt (length 40000) is longer than the maximum model length of 32768."
    ),
    Refusal(
        "too long", "SGLang", 400, "The input (40000 tokens) is longer than the model's context length (32768 tokens)."
    ),
    Refusal(
        "too long",
        "llama.cpp",
        400,
        "request (60179 tokens) exceeds the available context size (60160 tokens), try increasing it",
    ),
    Refusal("too long", "llama.cpp", 400, "exceed_context_size_error"),
    Refusal(
        "too long", "llama.cpp", 500, "the request exceeds the available context size. try increasing the context size"
    ),
    Refusal(
        "too long",
        "LM Studio",
        400,
        "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only"
        " 4096 tokens, which is not enough.",
    ),
    Refusal("too long", "LM Studio", 400, "Reached context length of 4096 tokens with this model"),
    Refusal("too long", "Ollama", 400, "the input length exceeds the context length"),
    Refusal(
        "too long",
        "LiteLLM",
        400,
        "litellm.ContextWindowExceededError: prompt is too long: 210000 tokens > 200000 maximum",
    ),
    Refusal("too long", "Anthropic", 400, "prompt is too long: 210000 tokens > 200000 maximum"),
    Refusal("too long", "Anthropic", 400, "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000"),
    Refusal("too long", "Anthropic", 413, "request_too_large"),
    Refusal(
        "too long",
        "Gemini",
        400,
        "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).",
    ),
    Refusal("too long", "Bedrock", 400, "Input is too long for requested model."),
    Refusal("too long", "Groq", 400, "Please reduce the length of the messages or completion."),
    Refusal(
        "too long",
        "Groq",
        413,
        "Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 7000",
    ),
    Refusal(
        "too long",
        "Mistral",
        400,
        "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context",
    ),
    Refusal("too long", "Moonshot", 400, "Invalid request: Your request exceeded model token limit: 8192"),
    Refusal(
        "too long", "xAI", 400, "This model's maximum prompt length is 131072 but the request contains 537812 tokens."
    ),
    Refusal("too long", "Z.ai", 400, "Prompt exceeds max length"),
    Refusal("too long", "DashScope", 400, "Range of input length should be [1, 30720]"),
    Refusal(
        "too long", "Cohere", 400, "too many tokens: the total number of tokens in the prompt exceeds the limit of 4081"
    ),
    Refusal("too long", "GitHub Copilot", 400, "prompt token count of 130000 exceeds the limit of 128000"),
    Refusal(
        "too long",
        "TGI",
        422,
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000",
    ),
    Refusal("too long", "TGI", 422, "Input validation error: `inputs` must have less than 4096 tokens. Given: 5000"),
    Refusal("too long", "TensorRT-LLM", 400, "Prompt length (9000) exceeds maximum input length (8192)."),
    Refusal(
        "too long",
        "GitHub Models",
        400,
        "tokens_limit_reached: Request body too large for my-model. Max size: 8000 tokens.",
    ),
    Refusal("too long", "Doubao", 400, "Total tokens of image and text exceed max message tokens"),
    Refusal(
        "too long",
        "OpenRouter",
        400,
        "This endpoint's maximum context length is 163840 tokens. However, you requested about 170000 tokens (9000 of tool input).",
    ),
    Refusal(
        "too long",
        "DeepSeek",
        400,
        "This model's maximum context length is 131072 tokens. However, you requested 131134 tokens (122942 in the messages, 8192 in"
        " the completion). Please reduce the length of the messages or completion.",
    ),
    Refusal(
        "too long",
        "vLLM",
        400,
        "'max_tokens' or 'max_completion_tokens' is too large: 8192. This model's maximum context length is 32768 tokens and your"
        " request has 30000 input tokens.",
    ),
    Refusal(
        "too long",
        "SGLang",
        400,
        "Requested token count exceeds the model's maximum context length of 131072 tokens.",
    ),
    Refusal(
        "too long",
        "LM Studio",
        400,
        "The number of tokens to keep from the initial prompt is greater than the context length.",
    ),
    Refusal("too long", "MiniMax", 400, "invalid params, context window exceeds limit (2013)"),
    Refusal("too long", "Fireworks", 400, "The prompt is too long: 140000, model maximum context length: 131071"),
    Refusal(
        "too long",
        "Bedrock",
        400,
        "Input Tokens Exceeded: Number of input tokens exceeds maximum length. Please update the input to try again.",
    ),
    Refusal("too long", "Ollama", 400, "prompt too long; exceeded max context length by 120 tokens"),
    Refusal(
        "too long",
        "Cerebras",
        400,
        "Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192",
    ),
    Refusal("too long", "Doubao", 400, "tokens in request more than max tokens allowed"),
    Refusal("too long", "any", 400, "Total length of prompt and max_tokens exceeds the model's context length"),
    Refusal("too long", "any", 400, "The total number of tokens (input + output) exceeds the maximum of 200000"),
    Refusal("too long", "any", 400, "prompt tokens (9000) > n_ctx (8192)"),
    Refusal("too long", "any", 400, "Input length 40000 exceeds maximum allowed length 32768"),
    Refusal("too long", "any", 400, "model_context_window_exceeded"),
    Refusal("too long", "any", 400, "prompt_too_long"),
    Refusal("too long", "any", 400, "ContextOverflowError: 40000 tokens > 32768"),
    Refusal("too long", "any", 400, "This model supports at most 32768 tokens, but the prompt has 40000"),
    Refusal("too long", "any", 400, "The request size is larger than the model's context"),
    Refusal("too long", "any", 400, "输入长度超过模型最大上下文长度"),
    Refusal("too long", "nginx", 413, "413 Request Entity Too Large"),
    Refusal("no images", "OpenAI", 400, "Invalid content type. image_url is only supported by certain models."),
    Refusal("no images", "OpenAI", 400, "Image inputs are not supported for this model."),
    Refusal("no images", "OpenRouter", 404, "No endpoints found that support image input"),
    Refusal(
        "no images",
        "DeepSeek",
        400,
        "Failed to deserialize the JSON body into the target type: messages[3]: unknown variant `image_url`, expected `text`",
    ),
    Refusal("no images", "vLLM", 400, "my-model is not a multimodal model"),
    Refusal("no images", "vLLM", 400, "At most 0 image(s) may be provided in one request."),
    Refusal("no images", "llama.cpp", 500, "image input is not supported - hint: you may need to provide the mmproj"),
    Refusal("no images", "Ollama", 500, "this model is missing data required for image input"),
    Refusal("no images", "LM Studio", 400, "Model does not support images. Please use a model that does."),
    Refusal(
        "no images",
        "Groq",
        400,
        "'messages.3' : for 'role:user' the following must be satisfied: content must be a string",
    ),
    Refusal("no images", "Mistral", 400, "Image input is not enabled for this model"),
    Refusal("no images", "Bedrock", 400, "The model doesn't support the image content block that you provided."),
    Refusal("no images", "GitHub Copilot", 400, 'model "my-model" not supported for vision'),
    Refusal(
        "no images",
        "SiliconFlow",
        400,
        "The model is not a VLM (Vision Language Model). Please use text-only prompts.",
    ),
    Refusal(
        "no images",
        "Ollama",
        400,
        "json: cannot unmarshal array into Go struct field Message.messages.content of type string",
    ),
    Refusal("no images", "any", 400, "This model only supports text input."),
    Refusal("no images", "xAI", 400, "Image inputs are not supported by this model."),
    Refusal("no images", "Gemini", 400, "Image input modality is not enabled for models/my-model"),
    Refusal("no images", "LiteLLM", 400, "litellm.BadRequestError: my-model does not support vision"),
    Refusal("no images", "pydantic", 422, "messages.2.content.str: Input should be a valid string, input: image_url"),
    Refusal("no images", "pydantic", 422, "messages.2.content.1.type: Input should be 'text'"),
    Refusal("no images", "any", 400, "invalid type for content: expected string, got array"),
    Refusal("no images", "any", 400, "Only text content is supported"),
    Refusal("no images", "any", 400, "unexpected content part of type image_url"),
    Refusal("no images", "any", 400, "'image_url' is not a valid content type"),
    Refusal("no images", "any", 400, "The model `my-model` does not have vision capabilities"),
    Refusal("no images", "any", 400, "my-model cannot process images"),
    Refusal("no images", "any", 400, "image input is disabled"),
    Refusal("no images", "any", 400, "Model is not multimodal"),
    Refusal("no images", "any", 501, "Vision is not implemented"),
    Refusal("no images", "any", 400, 'Cannot read "a.png" (this model does not support image input)'),
    Refusal("no images", "TGI", 422, "invalid value: `input_image`. Supported values are: `input_text`"),
    Refusal(
        "short ids",
        "Mistral",
        400,
        "Tool call id was call_0fypS1hVX but must be a-z, A-Z, 0-9, with a length of 9.",
    ),
    Refusal("short ids", "vLLM", 400, "Tool call IDs should be alphanumeric strings with length 9!"),
    Refusal(
        "short ids",
        "llama.cpp",
        500,
        "Value is not callable: Tool call IDs should be alphanumeric strings with length 9!",
    ),
    Refusal("short ids", "mlx-lm", 404, "Tool call IDs should be alphanumeric strings with length 9!"),
)
"""The refusals that are recognised, each with an example."""

ANSWERS: tuple[AnswerForm, ...] = (
    AnswerForm(
        "only deltas",
        "The text comes in pieces, and no item or message with the whole text follows.",
        "The pieces are the answer.",
    ),
    AnswerForm(
        "only at the end",
        "The answer is only in the last event, or in a body that is not a stream.",
        "The answer is read from there.",
    ),
    AnswerForm(
        "call at the end", "A call is only in the last event, or in a body that is not a stream.", "The tool is called."
    ),
    AnswerForm(
        "refusal", "The model's refusal is a separate kind of part, instead of the text.", "The refusal is the answer."
    ),
    AnswerForm(
        "other part", "A part with a text has a type that the API does not document.", "Its text is the answer."
    ),
    AnswerForm(
        "content null",
        "The content, the text or the list of calls is null.",
        "It is treated as missing.",
    ),
    AnswerForm(
        "arguments empty",
        "The arguments of a call without arguments are an empty text, null or missing.",
        "They become `{}`.",
    ),
    AnswerForm(
        "arguments object", "The arguments of a call are an object instead of a text with JSON.", "They become JSON."
    ),
)
"""The forms of answers that every wire reads, as far as its API has them."""

_LIMIT = (
    r"context (?:window|length|size|limit)|n_ctx|maximum context|token limit|model token|limit of [\d,]+ tokens"
    r"|max(?:imum)? (?:allowed )?(?:model|input|prompt|sequence|context|token) length"
    r"|max(?:imum)? (?:number of )?(?:input |prompt )?tokens"
)
_EXCEEDED = (
    r"exceed|more than|too (?:long|large|many)|long(?:er)? than|larger than|greater than|overflow|reached|is \d+|of only"
    r"|not enough|reduce|\d+\)? ?> ?"
)
_TOO_LONG = re.compile(
    rf"(?:{_LIMIT}).*(?:{_EXCEEDED})|(?:{_EXCEEDED}).*(?:{_LIMIT})|tokens?.{{0,80}}limit of \d+"
    r"|exceed_context_size|context_?window_?exceeded|context_?overflow|request_too_large|prompt_too_long|tokens_limit_reached"
    r"|(?:prompt|input|conversation|request)s?(?: body| tokens)?(?: is| are)? too (?:long|large|big)|reduce the length of"
    r"|(?:longer|larger) than the (?:model's )?context|tokens are available in the context|at most \d+ tokens|max message tokens"
    r"|(?:input|prompt) length \d+ exceeds|length of (?:the )?(?:input|prompt) exceeds|\d tokens > \d"
    r"|input tokens exceed|number of tokens.{0,40} exceeds"
    r"|range of input length|too many tokens|token count .*exceeds|prompt exceeds|inputs.{0,3} (?:tokens \+|must have less than)"
    r"|上下文长度|(?:输入|token).{0,12}超(?:过|出|限)|超(?:过|出).{0,12}(?:上下文|token)",
    re.DOTALL,
)
_CERTAINLY = re.compile(
    r"context_length_exceeded|maximum context length|exceeds? (?:the )?(?:model's )?context (?:length|limit)"
)
_OTHERS = re.compile(
    r"(?:string|array) too long|max_(?:completion_|output_)?tokens.{0,20}(?:too large|must be|exceed|greater than)|completion tokens"
    r"|(?:tool|function|parameter)(?:'s)? (?:name|description)|(?:too many|number of) tools|metadata|stop sequence|characters"
    r"|quota|billing|credits?\b|spend|usage limit|key limit|rate.?limit|\b[tr]p[md]\b|\bper.(?:min|hour|day|month)"
    r"|\b(?:dai|hour|week|month)ly\b|requests per|concurren"
)
"""Words for one field that is too long, an answer that may not become as long as was asked, or a limit of the account."""

_IMAGE = r"(?<![-\w])(?:(?:input_)?images?(?:_url)?|vision|multi-?modal)(?![-\w])"
_NOT_TAKEN = (
    r"not support|n't support|unsupported|only supported|support image|not enabled|not available|not allow|not accept|n't accept"
    r"|no endpoints|not a (?:multi|vision|vlm)|invalid (?:(?:message )?content type|value)|at most 0"
    r"|missing data required|text[- ]only|mmproj"
    r"|not have (?=vision|image|multi)|(?:cannot|can't) process|no image processor"
    r"|(?:unknown|unexpected|unrecognized) (?:content|part)|unknown variant"
    r"|not a valid (?:content|part|type)|not permitted|not implemented|disabled|should be a valid string"
)
_NO_IMAGES = re.compile(
    rf"(?:{_IMAGE}).*(?:{_NOT_TAKEN})|(?:{_NOT_TAKEN}).*(?:{_IMAGE})|content.{{0,20}} must be a string|not (?:a )?multi-?modal"
    r"|not a vlm|only text content|only supports? text(?: inputs?| content| messages?)?(?:[.,;]|$)"
    r"|messages\.content of type string|should be 'text'|expected string, got (?:array|list)",
    re.DOTALL,
)
_ONLY_TEXT = re.compile(r"must be one of: text$")
_TAKEN_VALUES = re.compile(
    r"(?:(?:supported|allowed|valid|accepted|permitted) (?:values|types)(?: are)?|expected one of|must be one of)[:\s].*",
    re.DOTALL,
)
"""A list of accepted types. If it contains images, the server does not necessarily refuse images."""

_IMAGE_FORMAT = re.compile(
    r"image (?:format|type|data|url)|unsupported (?:image|media)|media.?type|mime|image/|(?:png|jpe?g|gif|webp)\b|base64"
    r"|remote|https? |(?:larg|bigg|small)er"
    r"|too (?:large|small|big|many)|\bsize|\d ?[mk]i?b\b|bytes|dimension|pixel|resolution|\bdetail\b|download"
    r"|\b[1-9]\d* images?\b"
)
"""Words about one image, which another image would not bring about, or about the number of images."""

_OTHER_FEATURE = re.compile(
    r"support(?:ed|s)?(?: for)?(?: the)? [`'\"]?(?:tool|function|json|response|stream|system|developer|temperature|reasoning)"
    r"|(?:tools?|functions?|calling) (?:is|are) not|image.?generation|generat\w* images"
)
"""Words about something else that a model for images does not take."""

_SHORT_IDS = re.compile(r"call.?ids?\b.{0,200}\blength (?:of )?9\b", re.DOTALL)

_STATUSES = (None, 400, 403, 404, 413, 415, 422, 500, 501)
_LONGEST = 4_000


def meaning_of(status: int | None, said: str) -> Meaning | None:
    """Return what a refusal means, or None if the table does not contain it.

    Args:
        status: The status of the response, unless the refusal came within a stream.
        said: The server's words, with the code or type of its error.
    """
    if status == 413:
        return "too long"
    if status not in _STATUSES:
        return None
    words = said[:_LONGEST].lower()
    if _SHORT_IDS.search(words):
        return "short ids"
    if status not in (404, 415, 501) and (
        _CERTAINLY.search(words) or (_TOO_LONG.search(words) and not _OTHERS.search(words))
    ):
        return "too long"
    if "not support image input" in words:
        return "no images"
    if _IMAGE_FORMAT.search(words) or _OTHER_FEATURE.search(words):
        return None
    return "no images" if _NO_IMAGES.search(_TAKEN_VALUES.sub("", words)) or _ONLY_TEXT.search(words) else None
