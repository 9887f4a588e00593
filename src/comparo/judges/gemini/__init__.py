"""gemini/…: Gemini, by Google's own library."""

from comparo.judges.gemini.judge import load

__all__ = ["load"]
