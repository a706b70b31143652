"""Claude through Anthropic's Messages API."""

from collections.abc import AsyncGenerator

import httpx2
from anthropic import AsyncAnthropic
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider as LibraryProvider

from tools.models.library import ask
from tools.models.protocol import ModelRequest, StreamItem
from tools.scope import Scope


class AnthropicProvider:
    """Streams messages. Anthropic has no seed; a request's seed is ignored."""

    name = "anthropic"
    supports_tools = True

    def __init__(self, *, model: str, base_url: str, api_key: str) -> None:
        self.model = model
        self._base_url = base_url
        self._api_key = api_key

    def stream(self, request: ModelRequest, *, scope: Scope) -> AsyncGenerator[StreamItem]:
        """Ask; see ModelProvider.stream."""
        return ask(request, scope, provider=self.name, model_for=self._model)

    def _model(self, http: httpx2.AsyncClient) -> Model:
        client = AsyncAnthropic(
            api_key=self._api_key,
            base_url=self._base_url,
            max_retries=0,
            timeout=http.timeout,
            http_client=http,
        )
        return AnthropicModel(self.model, provider=LibraryProvider(anthropic_client=client))
