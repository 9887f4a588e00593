"""anthropic/…: Claude, by Anthropic's own library."""

from comparo.judges.anthropic.judge import load

__all__ = ["load"]
