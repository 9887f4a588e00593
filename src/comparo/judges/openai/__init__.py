"""openai/…: OpenAI's API, or any server that speaks it."""

from comparo.judges.openai.judge import load

__all__ = ["load"]
