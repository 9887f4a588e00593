"""Files of other tools as comparisons and items: one file per tool, and what tells the layouts apart."""

from comparo.data.imports.detecting import SOURCES, Source, import_file
from comparo.data.imports.gathering import Imported

__all__ = ["SOURCES", "Imported", "Source", "import_file"]
