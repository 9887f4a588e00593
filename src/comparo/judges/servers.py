"""The providers whose models are asked over HTTP: address and key of each, a line a provider.

Addresses and names of keys are those of the providers' documentation, read on 2026-11-19.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Server:
    """Where a provider's models are asked.

    `home` is the provider's own address; a part in capitals has to be filled in by `base_url`. `keys` are environment
    variables of which the first that is set has the key; `header` takes it in place of the API's own. `api` is the file
    beside this one that knows the API. `variable` has another address. `priced` is the provider's name in the table of
    list prices, for any address.
    """

    home: str
    keys: tuple[str, ...]
    header: str = ""
    api: str = "openai"
    variable: str = ""
    priced: str = ""

    @property
    def is_template(self) -> bool:
        return self.home != self.home.lower()


VERTEX = "https://REGION-aiplatform.googleapis.com/v1/projects/PROJECT/locations/REGION/endpoints/openapi"
SERVERS = {
    "openai": Server(
        "https://api.openai.com/v1",
        ("OPENAI_API_KEY",),
        variable="OPENAI_BASE_URL",
        priced="openai",
    ),
    "anthropic": Server(
        "https://api.anthropic.com",
        ("ANTHROPIC_API_KEY",),
        api="anthropic",
        variable="ANTHROPIC_BASE_URL",
        priced="anthropic",
    ),
    "gemini": Server(
        "https://generativelanguage.googleapis.com",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        api="gemini",
        variable="GOOGLE_GEMINI_BASE_URL",
        priced="google",
    ),
    "azure": Server("https://RESOURCE.openai.azure.com/openai/v1", ("AZURE_OPENAI_API_KEY",), header="api-key"),
    "bedrock": Server("https://bedrock-runtime.REGION.amazonaws.com/openai/v1", ("AWS_BEARER_TOKEN_BEDROCK",)),
    "vertex": Server(VERTEX, ("VERTEX_ACCESS_TOKEN",)),  # an hour: gcloud auth print-access-token
    "openrouter": Server("https://openrouter.ai/api/v1", ("OPENROUTER_API_KEY",)),
    "mistral": Server("https://api.mistral.ai/v1", ("MISTRAL_API_KEY",)),
    "deepseek": Server("https://api.deepseek.com/v1", ("DEEPSEEK_API_KEY",)),
    "groq": Server("https://api.groq.com/openai/v1", ("GROQ_API_KEY",)),
    "together": Server("https://api.together.ai/v1", ("TOGETHER_API_KEY",)),
    "fireworks": Server("https://api.fireworks.ai/inference/v1", ("FIREWORKS_API_KEY",)),
    "xai": Server("https://api.x.ai/v1", ("XAI_API_KEY",)),
    "ollama": Server("http://localhost:11434/v1", ("OLLAMA_API_KEY",)),
    "lmstudio": Server("http://localhost:1234/v1", ("LM_API_TOKEN",)),
    "llama-server": Server("http://localhost:8080/v1", ("LLAMA_API_KEY",)),
    "sglang": Server("http://localhost:30000/v1", ("SGLANG_API_KEY",)),
    "litellm": Server("http://localhost:4000/v1", ("LITELLM_API_KEY",)),
}
