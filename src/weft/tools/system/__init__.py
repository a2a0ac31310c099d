"""The tools that come with weft."""
