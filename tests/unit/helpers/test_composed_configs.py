"""What the tests compose is what hydra composes."""

import composed_configs
import fairseq.dataclass.utils
import pytest
from fairseq import options

GENERATION = ["data", "--path", "a b:c=d,é.pt", "--beam", "3", "--gen-subset", "valid"]
TRAINING = ["data", "--arch", "hrt_transformer", "--criterion", "hrt_loss", "--optimizer", "adam", "--lr", "0.1,0.2"]


@pytest.mark.parametrize(
    "parser, arguments",
    [
        ("generation", GENERATION),
        ("generation", [*GENERATION, "--task", "translation_hrt", "--hrt-decode-chunk", "auto"]),
        ("generation", [*GENERATION, "--task", "translation_dag", "--model-overrides", "{'a': 1}"]),
        ("generation", ["other", *GENERATION[1:], "--task", "translation_dag", "--lenpen", "0.5"]),
        ("training", [*TRAINING, "--task", "translation_hrt", "--adam-betas", "(0.9, 0.98)"]),
        ("training", ["data", "--arch", "transformer", "--task", "translation", "--share-all-embeddings"]),
    ],
)
def test_it_equals_that_of_hydra(monkeypatch, parser, arguments):
    namespace = options.parse_args_and_arch(getattr(options, f"get_{parser}_parser")(), arguments)
    assert fairseq.dataclass.utils.compose is composed_configs.compose
    # The second time from memory, which the first has not changed.
    ours = [fairseq.dataclass.utils.convert_namespace_to_omegaconf(namespace) for _ in range(2)]
    monkeypatch.setattr(fairseq.dataclass.utils, "compose", composed_configs.COMPOSE)
    composed = fairseq.dataclass.utils.convert_namespace_to_omegaconf(namespace)
    assert ours == [composed, composed]
    assert {name: type(value) for name, value in composed.items()} == {name: type(value) for name, value in ours[1].items()}
