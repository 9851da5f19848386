"""Files, streams and texts of unknown origin. The standard library only."""
