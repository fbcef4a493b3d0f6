"""The run-time type checker of the tests: beartype, for which an int is a float, as Python's typing has it."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
