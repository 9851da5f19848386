"""Trained models behind HTTP: LibreTranslate's interface, our own with steps and scores, and a page
that shows how a text is written.

A request passes the limits (:mod:`.middleware`), is checked (:mod:`.keys`, :mod:`.requests`) and
cut into sentences (:mod:`..text.sentences`), whose translations are found together with those of
other requests (:mod:`..bundles.batching`), and put together again (:mod:`..text.texts`).
:mod:`.application` is the ASGI application, ``fairseq-hrt serve`` runs it.
"""

__all__ = ["process", "segments", "settings"]
