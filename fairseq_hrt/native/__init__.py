"""All that translates without PyTorch and fairseq, and imports nothing above it.

``options`` has the options of decoding and ``families`` what is known of each family, ``io`` files
and texts of unknown origin, ``text`` prepares raw text, ``decoding`` is about hypotheses,
``runtime`` is the engine in C, ``bundles`` translate with it, ``conversion`` makes bundles of other
toolkits' models, ``server`` answers over HTTP.

A package that only translates consists of this folder and the verbs of ``fairseq-hrt`` that need
nothing else.
"""

__version__ = "0.2.0"
