"""Every benchmark: `make bench`."""

from benchmarks import core, coverage

core.main()
coverage.main()
