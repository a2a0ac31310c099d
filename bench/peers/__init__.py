"""Other engines beside weft, each in an environment of its own."""
