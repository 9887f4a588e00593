"""hf/…: models run by transformers."""

from comparo.judges.hf.judge import load

__all__ = ["load"]
