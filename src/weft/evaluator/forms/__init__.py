"""The pure forms of the language."""
