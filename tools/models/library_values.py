"""Translate between our protocol's values and those of pydantic-ai's model layer; no I/O.

How an error of the library becomes a code of ours (first match wins):

    quota spent            rate_limited, not retryable (waiting does not help)
    429                    rate_limited      overloaded, 529        overloaded
    401, 403               auth              400, 402, 404, 422 ..  bad_request
    5xx, no connection, time-out, cut stream, unreadable answer     unavailable
    the library refuses to build the request                        bad_request
"""

import json
from collections.abc import Sequence

from pydantic_ai import exceptions, messages
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from tools.models.protocol import ErrorCode, Message, ModelError, ModelRequest, ToolUse

MESSAGE_LIMIT = 500  # characters of a provider's error text that are kept
# The profile says so for models that think; sending it anyway makes the library warn and drop it.
_NO_TEMPERATURE = ("openai_supports_reasoning", "anthropic_disallows_sampling_settings")

_CODES: tuple[tuple[type[Exception], ErrorCode], ...] = (
    (exceptions.ModelQuotaExceededError, "rate_limited"),
    (exceptions.ModelRateLimitError, "rate_limited"),
    (exceptions.ModelOverloadedError, "overloaded"),
    (exceptions.ModelAuthenticationError, "auth"),
    (exceptions.ModelRequestRejectedError, "bad_request"),
    (exceptions.UserError, "bad_request"),
)


def to_library_messages(conversation: Sequence[Message]) -> list[messages.ModelMessage]:
    """Return the conversation in the library's values.

    Raises: ModelError(bad_request) for a tool message that answers no tool use before it; providers refuse those.
    """
    called: dict[str, str] = {}
    result: list[messages.ModelMessage] = []
    for message in conversation:
        if message.role == "assistant":
            called.update((use.id, use.name) for use in message.tool_calls)
            result.append(_assistant(message))
        else:
            result.append(messages.ModelRequest(parts=[_request_part(message, called)]))
    return result


def _assistant(message: Message) -> messages.ModelResponse:
    parts: list[messages.ModelResponsePart] = [messages.TextPart(message.content)] if message.content else []
    parts.extend(
        messages.ToolCallPart(tool_name=use.name, args=use.arguments, tool_call_id=use.id) for use in message.tool_calls
    )
    return messages.ModelResponse(parts=parts)


def _request_part(message: Message, called: dict[str, str]) -> messages.ModelRequestPart:
    if message.role == "system":
        return messages.SystemPromptPart(message.content)
    if message.role == "user":
        return messages.UserPromptPart(message.content)
    identity = message.tool_call_id or ""
    if identity not in called:
        raise ModelError("bad_request", f"The tool message for {identity!r} answers no tool use before it.")
    return messages.ToolReturnPart(tool_name=called[identity], content=message.content, tool_call_id=identity)


def settings_for(request: ModelRequest, model: Model) -> ModelSettings:
    """Return the library's settings; the temperature is left out for models that do not accept one."""
    settings = ModelSettings(max_tokens=request.max_tokens)
    if not any(model.profile.get(name) for name in _NO_TEMPERATURE):
        settings["temperature"] = request.temperature
    if request.seed is not None:
        settings["seed"] = request.seed
    return settings


def parameters_for(request: ModelRequest, model: Model) -> ModelRequestParameters:
    """Return tools and output schema; without native support the schema is asked for in the prompt."""
    tools = [
        ToolDefinition(name=t["name"], description=t.get("description"), parameters_json_schema=t["parameters"])
        for t in request.tools
    ]
    if request.schema is None:
        return ModelRequestParameters(function_tools=tools)
    native = model.profile.get("supports_json_schema_output", False)
    return ModelRequestParameters(
        function_tools=tools,
        output_mode="native" if native else "prompted",
        output_object=OutputObjectDefinition(json_schema=request.schema, name="answer"),
    )


def text_of(event: messages.ModelResponseStreamEvent) -> str:
    """Return the text that this stream event adds to the answer ("" for thoughts, tool calls and marks)."""
    if isinstance(event, messages.PartStartEvent) and isinstance(event.part, messages.TextPart):
        return event.part.content
    if isinstance(event, messages.PartDeltaEvent) and isinstance(event.delta, messages.TextPartDelta):
        return event.delta.content_delta
    return ""


def tool_use_of(part: messages.ToolCallPart) -> ToolUse:
    """Return the finished tool call. Raises ModelError(unavailable) when its arguments are no JSON object."""
    arguments = part.args or {}
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError as error:
            raise ModelError(
                "unavailable", f"The model sent arguments for {part.tool_name} that are cut or no JSON."
            ) from error
    if not isinstance(arguments, dict):
        raise ModelError("unavailable", f"The model sent arguments for {part.tool_name} that are no object.")
    return ToolUse(id=part.tool_call_id, name=part.tool_name, arguments=arguments)


def to_model_error(error: Exception, request_id: str | None) -> ModelError:
    """Return the ModelError for an error that the library raised; see the table above."""
    code: ErrorCode = next((code for kind, code in _CODES if isinstance(error, kind)), "unavailable")
    if isinstance(error, exceptions.ModelHTTPError) and code == "unavailable" and error.status_code < 500:
        code = "bad_request"
    spent = isinstance(error, exceptions.ModelQuotaExceededError)
    return ModelError(
        code,
        str(error)[:MESSAGE_LIMIT] or type(error).__name__,
        False if spent else None,
        request_id=request_id,
        retry_after_seconds=error.retry_after if isinstance(error, exceptions.ModelAPIError) else None,
    )
