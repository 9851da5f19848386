"""Options of decoding: what each is (:mod:`.schema`), its values (:mod:`.values`), when it has an
effect (:mod:`.effects`). The standard library only."""
