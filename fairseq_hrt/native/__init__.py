"""Translation without PyTorch and fairseq; nothing here imports from outside this folder.

``options`` declares the decoding options and ``families`` describes each family of models; ``io``
reads and writes files and displays untrusted text; ``text`` prepares raw text; ``decoding``
describes and reranks hypotheses; ``runtime`` is the engine in C; ``bundles`` loads bundles and
translates; ``conversion`` imports models of other toolkits; ``server`` answers over HTTP.

The translation-only package consists of this folder and the ``fairseq-hrt`` commands that need
nothing else.
"""

__version__ = "0.2.0"
