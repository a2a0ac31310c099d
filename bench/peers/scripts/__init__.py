"""One script for each engine, run with `-m` so that none hides the package it is named after."""
