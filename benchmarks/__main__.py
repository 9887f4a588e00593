"""Every benchmark: `make bench`."""

from benchmarks import core

core.main()
