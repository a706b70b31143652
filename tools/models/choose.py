"""Choose the model provider by name, and the model that is used when nobody names one.

local                     the one local model server, OUTLIVE_LOCAL_MODEL_URL
scripted                  deterministic; for tests, benchmarks, demos
openai:<model>            OPENAI_API_KEY, OPENAI_BASE_URL
anthropic:<model>         ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL
ollama:<model>            OLLAMA_BASE_URL, OLLAMA_API_KEY
vllm:<model>              VLLM_BASE_URL, VLLM_API_KEY
"""

import importlib
from collections.abc import Callable, Mapping

from tools.models.local import LOCAL_URL, LocalProvider
from tools.models.protocol import ModelError, ModelProvider
from tools.models.scripted import ScriptedProvider

# Used when only a key is given; OUTLIVE_MODEL overrides.
DEFAULT_OPENAI_MODEL = "openai:gpt-5.2"
DEFAULT_ANTHROPIC_MODEL = "anthropic:claude-sonnet-4-6"
OPENAI_URL = "https://api.openai.com/v1"
ANTHROPIC_URL = "https://api.anthropic.com"
OLLAMA_URL = "http://127.0.0.1:11434/v1"
VLLM_URL = "http://127.0.0.1:8000/v1"
KNOWN = "local, scripted, openai:<model>, anthropic:<model>, ollama:<model>, vllm:<model>"


def default_model(env: Mapping[str, str]) -> str:
    """Return OUTLIVE_MODEL; else a hosted model whose key is there (OpenAI first); else "local"."""
    if model := env.get("OUTLIVE_MODEL"):
        return model
    if env.get("OPENAI_API_KEY"):
        return DEFAULT_OPENAI_MODEL
    if env.get("ANTHROPIC_API_KEY"):
        return DEFAULT_ANTHROPIC_MODEL
    return "local"


def provider_for(model: str, env: Mapping[str, str]) -> ModelProvider:
    """Return the provider for a model name; nothing is connected yet.

    Raises: ModelError(bad_request) for a name that is none of the above, ModelError(auth) when its key is missing.
    """
    kind, _, name = model.partition(":")
    if model == "local":
        return LocalProvider(base_url=env.get("OUTLIVE_LOCAL_MODEL_URL") or LOCAL_URL)
    if model == "scripted":
        return ScriptedProvider(env)
    if kind == "anthropic" and name:
        url = env.get("ANTHROPIC_BASE_URL")
        return _adapter("anthropic", "AnthropicProvider")(
            model=name,
            base_url=url or ANTHROPIC_URL,
            api_key=_key(env, "ANTHROPIC_API_KEY", needed=True) or "",
        )
    if kind in ("openai", "ollama", "vllm") and name:
        upper = kind.upper()
        url = env.get(f"{upper}_BASE_URL")
        default = {"openai": OPENAI_URL, "ollama": OLLAMA_URL, "vllm": VLLM_URL}[kind]
        key = _key(env, f"{upper}_API_KEY", needed=kind == "openai" and not url)
        adapter = _adapter("openai_compatible", "OpenAICompatibleProvider")
        return adapter(name=kind, model=name, base_url=url or default, api_key=key)
    raise ModelError("bad_request", f"There is no model {model!r}. Known are: {KNOWN}.")


def _adapter(module: str, name: str) -> Callable[..., ModelProvider]:
    """Load a hosted provider when somebody chooses it: its library costs a second of every process's start."""
    adapter: Callable[..., ModelProvider] = getattr(importlib.import_module(f"tools.models.{module}"), name)
    return adapter


def _key(env: Mapping[str, str], variable: str, *, needed: bool) -> str | None:
    value = env.get(variable, "").strip()
    if needed and not value:
        raise ModelError("auth", f"{variable} is not set.")
    return value or None
