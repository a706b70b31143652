"""The local model: streams from the one model server of this machine (tools.models.server), always.

What a 135M model can do: fluent short English, text that obeys a JSON schema, and picking an obvious tool. What it
cannot: facts, arithmetic, long context, other languages, several steps of a plan. It is here so that everything
works without a key and offline, not to be right.

Always streaming, because closing a streaming request frees the server's slot in some 30 ms, while a request that
does not stream goes on computing for nobody.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack
from typing import Any

import httpx
import httpx_sse

from tools.models import local_prompts as prompts
from tools.models.fitting import fit
from tools.models.protocol import (
    ErrorCode,
    Finished,
    ModelError,
    ModelRequest,
    StopReason,
    StreamItem,
    TextDelta,
    ToolUse,
    ToolUseDelta,
    Usage,
)
from tools.models.server import CONTEXT_TOKENS, SLOTS
from tools.models.waiting import ScopedWait
from tools.scope import Scope
from tools.trust import trust

LOCAL_URL = "http://127.0.0.1:8091"
SLOT_TOKENS = CONTEXT_TOKENS // SLOTS  # what one request has for its prompt and its answer together
ANSWER_SHARE = 0.5  # at most this share of a slot is kept free for the answer
ARGUMENT_TOKENS = 512
CONNECT_SECONDS = 5.0
REPEAT_PENALTY = 1.1  # without it a model of this size soon repeats one sentence for ever
MODEL_NAME = "smollm2-135m-instruct"


class LocalProvider:
    """Asks the local model server. Prompts are made to fit (tools.models.fitting).

    supports_tools is False: the chat template of this model knows no tools. When tools are given, a first short
    completion picks a name under a grammar, a second one fills in the arguments under the tool's JSON schema, and the
    stream holds that one ToolUseDelta. Where it picks "answer", or a call that the conversation already holds, it
    answers in text. The arguments obey the schema; whether they are sensible is luck.
    """

    name = "local"
    supports_tools = False

    def __init__(self, *, base_url: str = LOCAL_URL, context_tokens: int = SLOT_TOKENS) -> None:
        """Args: base_url without a path, such as http://127.0.0.1:8091; context_tokens of one slot of that server."""
        self._base_url = base_url.rstrip("/")
        self._context_tokens = context_tokens

    async def stream(self, request: ModelRequest, *, scope: Scope) -> AsyncGenerator[StreamItem]:
        """Ask; see ModelProvider.stream. The request_id is the server's own id of the completion."""
        timeout = httpx.Timeout(None, connect=CONNECT_SECONDS)
        # No proxy from the environment: the server is on this machine. No connection is used twice: the server now
        # and then closes a kept one at the moment of the next request, which then fails for no reason.
        limits = httpx.Limits(max_keepalive_connections=0)
        async with (
            httpx.AsyncClient(
                base_url=self._base_url, timeout=timeout, limits=limits, trust_env=False, verify=trust()
            ) as http,
            ScopedWait(scope) as wait,
        ):
            session = _Session(http, wait, self._context_tokens)
            if request.tools and (use := await session.choose_tool(request)) is not None:
                yield ToolUseDelta(use)
                yield session.usage
                yield Finished("tool_call", session.request_id, self.name, MODEL_NAME)
                return
            async for text in session.answer(request):
                yield TextDelta(text)
            yield session.usage
            yield Finished(session.stop_reason, session.request_id, self.name, MODEL_NAME)


class _Session:
    """The calls to the server that answer one request, and what they add up to."""

    def __init__(self, http: httpx.AsyncClient, wait: ScopedWait, context_tokens: int) -> None:
        self._context_tokens = context_tokens
        self._http = http
        self._wait = wait
        self.usage = Usage(0, 0)
        self.request_id: str | None = None
        self.stop_reason: StopReason = "stop"

    async def choose_tool(self, request: ModelRequest) -> ToolUse | None:
        """Return the one tool use, or None for an answer in text."""
        name = await self._complete(
            request,
            prompt=prompts.choice_prompt(request.tools, request.messages),
            max_tokens=32,
            grammar=prompts.choice_grammar(request.tools),
        )
        tool = next((t for t in request.tools if t["name"] == name.strip()), None)
        if tool is None:
            return None
        text = await self._complete(
            request,
            prompt=prompts.arguments_prompt(tool, request.messages),
            max_tokens=ARGUMENT_TOKENS,
            json_schema=prompts.bounded({"additionalProperties": False, **tool["parameters"]}),
        )
        try:
            arguments = json.loads(text)
        except ValueError as error:
            raise ModelError("unavailable", "The local model did not finish the arguments.") from error
        answered = sum(len(m.tool_calls) for m in request.messages)
        use = ToolUse(id=f"call_{answered}", name=tool["name"], arguments=arguments)
        return None if prompts.is_repeated(use, request.messages) else use

    async def answer(self, request: ModelRequest) -> AsyncIterator[str]:
        """Yield the pieces of a chat answer, confined to request.schema where there is one."""
        room = min(request.max_tokens, int(self._context_tokens * ANSWER_SHARE))
        chat = await fit(
            prompts.to_chat(request.messages), budget_tokens=self._context_tokens - room, count=self._count
        )
        body: dict[str, Any] = {
            "messages": chat,
            "max_tokens": room,
            "stream_options": {"include_usage": True},
            **_sampling(request),
        }
        if request.schema is not None:
            schema = {"name": "answer", "schema": prompts.bounded(request.schema), "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        finish = None
        async for chunk in self._events("/v1/chat/completions", body):
            self.request_id = chunk.get("id") or self.request_id
            self._add_usage(chunk.get("usage"), "prompt_tokens", "completion_tokens")
            for choice in chunk.get("choices", ()):
                finish = choice.get("finish_reason") or finish
                if text := choice.get("delta", {}).get("content"):
                    yield text
        if finish is None:
            raise ModelError("unavailable", "The local model server ended the stream in the middle.")
        self.stop_reason = "length" if finish == "length" else "stop"

    async def _complete(self, request: ModelRequest, *, prompt: str, max_tokens: int, **confine: Any) -> str:
        """Return the whole text of one confined completion."""
        body = {"prompt": prompt, "n_predict": max_tokens, **_sampling(request), **confine}
        # A penalty on repeats would forbid the very names that the examples repeat.
        body["repeat_penalty"] = 1.0
        text, ended = "", False
        async for chunk in self._events("/completion", body):
            text += chunk.get("content", "")
            if chunk.get("stop"):
                ended = True
                self._add_usage(chunk, "tokens_evaluated", "tokens_predicted")
        if not ended:
            raise ModelError("unavailable", "The local model server ended the stream in the middle.")
        return text

    async def _count(self, text: str) -> int:
        response = await self._wait(self._http.post, "/tokenize", json={"content": text})
        return len(response.raise_for_status().json()["tokens"])

    def _add_usage(self, counts: Mapping[str, int] | None, input_name: str, output_name: str) -> None:
        if counts:
            self.usage = Usage(
                self.usage.input_tokens + counts.get(input_name, 0),
                self.usage.output_tokens + counts.get(output_name, 0),
            )

    async def _events(self, path: str, body: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """Yield the JSON of each server-sent event. Raises ModelError for each way in which it can fail."""
        async with AsyncExitStack() as stack:
            try:
                opening = httpx_sse.aconnect_sse(self._http, "POST", path, json={**body, "stream": True})
                source = await self._wait(stack.enter_async_context, opening)
                if source.response.status_code != httpx.codes.OK:
                    text = (await self._wait(source.response.aread)).decode(errors="replace")
                    raise ModelError(_code(source.response.status_code), f"The local model server: {text[:300]}")
                events = aiter(source.aiter_sse())
                while (event := await self._wait(anext, events, None)) is not None:
                    if event.data == "[DONE]":
                        return
                    chunk = json.loads(event.data)
                    if "error" in chunk:
                        raise ModelError("unavailable", f"The local model server: {str(chunk['error'])[:300]}")
                    yield chunk
            except (httpx.HTTPError, httpx_sse.SSEError, OSError, ValueError) as error:
                detail = str(error) or type(error).__name__
                raise ModelError("unavailable", f"The local model server cannot be used: {detail}") from error


def _sampling(request: ModelRequest) -> dict[str, Any]:
    values: dict[str, Any] = {
        "temperature": request.temperature,
        "repeat_penalty": REPEAT_PENALTY,
        "cache_prompt": True,
    }
    if request.seed is not None:
        values["seed"] = request.seed
    return values


def _code(status: int) -> ErrorCode:
    return "unavailable" if status >= httpx.codes.INTERNAL_SERVER_ERROR else "bad_request"
