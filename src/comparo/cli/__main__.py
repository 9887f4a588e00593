"""python -m comparo.cli."""

from comparo.cli.app import main

main()
