"""Serves trained models over HTTP: LibreTranslate's interface, our own with steps and scores, and a
web page that shows how a translation is written.

A request passes the limits (:mod:`.middleware`), is checked (:mod:`.keys`, :mod:`.requests`) and
split into sentences (:mod:`..text.sentences`). These are decoded together with those of other
requests (:mod:`..bundles.batching`), and their translations are joined (:mod:`..text.texts`).
:mod:`.application` makes the ASGI application, which ``fairseq-hrt serve`` runs.
"""

__all__ = ["process", "settings"]
