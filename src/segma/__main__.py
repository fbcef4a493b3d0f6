"""`python -m segma`: the command line without an installation."""

from segma.cli import main

main()
