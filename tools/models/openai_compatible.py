"""OpenAI, and every server that speaks its chat completions: Ollama, vLLM, gateways."""

from collections.abc import AsyncGenerator

import httpx2
from openai import AsyncOpenAI
from pydantic_ai.models import Model
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers import Provider
from pydantic_ai.providers.ollama import OllamaProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.providers.vllm import VLLMProvider

from tools.models.library import ask
from tools.models.protocol import ModelRequest, StreamItem
from tools.scope import Scope

NO_KEY = "none"  # the SDK insists on a key; servers without one ignore it


class OpenAICompatibleProvider:
    """Streams chat completions. Tools and JSON schemas are the model's own skill; whether it has it, it must know."""

    supports_tools = True

    def __init__(self, *, name: str, model: str, base_url: str, api_key: str | None) -> None:
        """Args: name is "openai", "ollama" or "vllm"; base_url ends in /v1; no key = a server that needs none."""
        self.name = name
        self.model = model
        self._base_url = base_url
        self._api_key = api_key or NO_KEY

    def stream(self, request: ModelRequest, *, scope: Scope) -> AsyncGenerator[StreamItem]:
        """Ask; see ModelProvider.stream."""
        return ask(request, scope, provider=self.name, model_for=self._model)

    def _model(self, http: httpx2.AsyncClient) -> Model:
        client = AsyncOpenAI(
            api_key=self._api_key,
            base_url=self._base_url,
            max_retries=0,
            timeout=http.timeout,
            http_client=http,
        )
        return OpenAIChatModel(self.model, provider=self._library_provider(client))

    def _library_provider(self, client: AsyncOpenAI) -> Provider[AsyncOpenAI]:
        if self.name == "ollama":
            return OllamaProvider(openai_client=client)
        if self.name == "vllm":
            return VLLMProvider(openai_client=client)
        return OpenAIProvider(openai_client=client)
