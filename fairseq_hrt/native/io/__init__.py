"""Files, streams, and values of unknown origin. Needs only the standard library."""
