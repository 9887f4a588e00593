"""The report: one self-contained page about a run, made from its folder alone."""

from comparo.report.writing import write_report

__all__ = ["write_report"]
