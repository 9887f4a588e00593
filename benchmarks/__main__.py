"""Every benchmark: `make bench`."""

from benchmarks import core, coverage, selection

core.main()
coverage.main()
selection.main()
