"""What a run leaves to other tools: its comparisons and preference pairs, as files."""

from comparo.export.exporting import Exported, Format, export_run

__all__ = ["Exported", "Format", "export_run"]
