"""Decoding options: their declarations (:mod:`.schema`), their values (:mod:`.values`), and when
they have an effect (:mod:`.effects`). Standard library only."""
