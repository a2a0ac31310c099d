"""The tests of weft."""

import os
import sys

# Every worker imports all tests, and every program that a test starts imports weft. Where Python is told not
# to keep what it compiles, each of them would compile it again, which takes longer than to import it.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
