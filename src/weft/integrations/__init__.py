"""Programs that weft works with."""
