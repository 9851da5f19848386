"""Which of the four tasks a sentence is trained for, and the generators that the task makes."""

from argparse import Namespace
from types import SimpleNamespace

import pytest
import torch
from fairseq.data import LanguagePairDataset, ListDataset
from fairseq.dataclass.configs import GenerationConfig
from fairseq.models import ARCH_CONFIG_REGISTRY


def test_views_belong_to_their_sentence(hrt):
    """Whatever batch a sentence is in, its samples are the same."""
    task, _ = hrt.task()
    whole = hrt.batch([6, 2, 5, 1, 4])
    together = task.add_views(whole, 7, 0.5)["views"]
    for row in range(5):
        alone = {
            "id": whole["id"][row : row + 1],
            "target": whole["target"][row : row + 1],
            "net_input": {},
        }
        alone["target"] = alone["target"][:, alone["target"][0].ne(hrt.PAD)]
        single = task.add_views(alone, 7, 0.5)["views"]
        assert single.chunk_sizes[0] == together.chunk_sizes[row]
        for mine, theirs in zip(
            (single.causal, single.parallel), (together.causal, together.parallel)
        ):
            for own, other in zip(mine, theirs):
                width = own.size(1)
                assert own[0].equal(other[row, :width])


def test_the_curriculum_follows_the_given_update_number(hrt):
    task, model = hrt.task(hrt_curriculum_steps=10)
    seen = []

    def criterion(_, sample):
        seen.append(float((sample["views"].chunk_sizes > 1).double().mean()))
        return torch.zeros((), requires_grad=True), 1, {}

    optimizer = SimpleNamespace(backward=lambda loss: None)
    # A parent's number of updates, as fairseq stores it in the model when it loads a checkpoint.
    model.set_num_updates(300_000)
    sample = hrt.batch([3] * 400)
    for update in (0, 5, 10, 99):
        task.train_step(sample, model, criterion, optimizer, update)
    assert seen[0] == 0 and abs(seen[1] - 0.5) < 0.1 and seen[2:] == [1, 1]


@pytest.mark.parametrize(
    "overrides, share",
    [
        (dict(), 0.25),
        (dict(hrt_curriculum_steps=50), 0.5),
        (dict(hrt_curriculum_steps=25), 1.0),
        (dict(hrt_curriculum_steps=10), 1.0),
        (dict(hrt_curriculum_power=2.0), 0.0625),
        (dict(hrt_curriculum_power=0.5), 0.5),
        (dict(hrt_curriculum_power=0.0, max_update=0), 1.0),
    ],
)
def test_the_length_of_the_curriculum(hrt, overrides, share):
    assert hrt.task(**overrides)[0].curriculum.share(25) == pytest.approx(share)


def test_a_curriculum_without_length_is_named(hrt):
    with pytest.raises(ValueError, match="--max-update, or --hrt-curriculum-steps"):
        hrt.task(max_update=0)[0].curriculum.share(1)


PAD, EOS, MASK, BOS2, BOS3 = 1, 2, 16, 17, 18


def test_the_task_hands_over_what_it_was_given(hrt, monkeypatch):
    task = hrt.task(dict(hrt_chunk_sizes=[3, 2]), seed=9)[0]
    seen = []
    monkeypatch.setattr(
        "fairseq_hrt.hrt.task.draw_views", lambda *given, **named: seen.append((given, named))
    )
    task.add_views({"id": 1}, 4, 0.5)
    assert seen == [(({"id": 1}, 4, 0.5, task.decoder), dict(seed=9))]


@pytest.mark.parametrize("engine", ["torch", "native"])
@pytest.mark.parametrize(
    "given, sizes, completed",
    [
        # Autoregressive decoding has no second stage, and all its hypotheses may be asked for.
        (dict(hrt_decode_chunk="1"), {1}, 4),
        (dict(hrt_decode_chunk="2", hrt_nat_beam=2, hrt_eos_last_chunk=True), {2}, 2),
        (dict(hrt_decode_chunk="auto", hrt_nat_beam=2, hrt_chunk_table="7:3,inf:2"), {2, 3}, 2),
        ({}, {2}, 4),
    ],
)
def test_options_of_decoding_reach_the_generator(hrt, engine, given, sizes, completed):
    generator = hrt.task(engine=engine, **given)[0].build_generator(
        [hrt.model(symbols=12).float()], SimpleNamespace(beam=4)
    )
    assert generator.options.changed() == {**given, "beam": 4, "engine": engine}
    assert {size for _, size in generator.table} == sizes and generator.nat_beam == completed


@pytest.mark.parametrize(
    "given",
    [dict(hrt_nat_beam=3), dict(hrt_eos_last_chunk=True), dict(hrt_chunk_table="9:1,inf:2")],
)
def test_options_of_a_stage_that_does_not_run_are_refused(hrt, given):
    task = hrt.task(hrt_decode_chunk="1", **given)[0]
    with pytest.raises(
        ValueError, match=f"--{next(iter(given)).replace('_', '-')} .*has an effect only with"
    ):
        task.build_generator([hrt.model(symbols=12)], SimpleNamespace(beam=2))


@pytest.mark.parametrize("engine", ["torch", "native"])
def test_validation_measures_autoregressive_decoding_if_asked(hrt, engine):
    """Options of the second stage stand in nobody's way."""
    second = dict(hrt_nat_beam=1, hrt_eos_last_chunk=True, hrt_decode_chunk="3")
    task = hrt.task(eval_bleu=True, hrt_eval_autoregressive=True, engine=engine, **second)[0]
    args = Namespace(**hrt.TINY, arch="hrt_transformer", hrt_chunk_sizes=[2, 3])
    ARCH_CONFIG_REGISTRY["hrt_transformer"](args)
    task.build_model(args)
    assert [size for _, size in task.autoregressive_generator.table] == [1]
    assert [size for _, size in task.sequence_generator.table] == [3]
    task = hrt.task(eval_bleu=True)[0]
    task.build_model(args)
    assert not hasattr(task, "autoregressive_generator")


@pytest.mark.parametrize("truncate", [True, False])
def test_targets_are_cut_if_asked(hrt, monkeypatch, truncate):
    """At L, the largest number of target positions; otherwise fairseq leaves the sentence out."""
    rows, sizes = [torch.tensor([*[5] * 8, EOS]), torch.tensor([6, EOS])], [9, 2]
    dictionary = hrt.dictionary(12)

    def load(self, split, epoch=1, combine=False, **_):
        self.datasets[split] = LanguagePairDataset(
            ListDataset(rows, sizes), torch.tensor(sizes).numpy(), dictionary,
            ListDataset(rows, sizes), torch.tensor(sizes).numpy(), dictionary,
            left_pad_target=False,
        )  # fmt: skip

    monkeypatch.setattr("fairseq_hrt.task.TranslationTask.load_dataset", load)
    task = hrt.task(hrt_truncate_target=truncate, max_target_positions=6)[0]
    task.load_dataset("train")
    expected = [[5] * 5 + [EOS], [6, EOS]] if truncate else [row.tolist() for row in rows]
    assert [task.datasets["train"][i]["target"].tolist() for i in range(2)] == expected


@pytest.mark.parametrize("from_checkpoint", [True, False])
def test_only_training_may_gain_sizes(hrt, from_checkpoint):
    task, _ = hrt.task()
    args = Namespace(**hrt.TINY, hrt_chunk_sizes=[2, 4], arch="hrt_transformer")
    ARCH_CONFIG_REGISTRY["hrt_transformer"](args)
    assert task.build_model(args, from_checkpoint).decoder.may_gain_sizes != from_checkpoint


@pytest.mark.parametrize(
    "choice, kind",
    [(None, "ChunkScorer"), ("3", "ChunkScorer"), ("auto", "ChunkScorer"), ("1", "SequenceScorer")],
)
def test_the_task_scores_with_the_chunk_size_of_decoding(hrt, choice, kind):
    task, model = hrt.task(hrt_decode_chunk=choice)
    scorer = task.build_generator([model], SimpleNamespace(score_reference=True))
    assert type(scorer).__name__ == kind
    assert (
        kind == "SequenceScorer"
        or {size for _, size in scorer.table} == {None: {2}, "3": {3}, "auto": {1, 2}}[choice]
    )


@pytest.mark.parametrize(
    "own, of_command, refused",
    [
        (
            {"hrt_decode_chunk": "3", "hrt_chunk_table": "9:2,inf:3"}, {},
            "--hrt-chunk-table 9:2,inf:3 has an effect only with --hrt-decode-chunk auto",
        ),
        ({}, {"print_alignment": "hard"},
         "--print-alignment hard with --score-reference: the references of a hrt_transformer are"),
    ],
)  # fmt: skip
def test_what_changes_no_score_is_refused(hrt, own, of_command, refused):
    task, model = hrt.task(**own)
    with pytest.raises(ValueError, match=f"^{refused}"):
        task.build_generator([model], SimpleNamespace(score_reference=True, **of_command))


def test_an_untrained_chunk_size_cannot_be_scored(hrt):
    task, model = hrt.task(hrt_decode_chunk="4")
    with pytest.raises(ValueError, match="chunk size 4 was not trained"):
        task.build_generator([model], SimpleNamespace(score_reference=True))


def test_options_of_a_training_are_no_options_of_decoding(hrt):
    """In ``fairseq-generate``; those that change the references are."""
    for option, named in (
        (dict(hrt_curriculum_power=2.0), "--hrt-curriculum-power 2.0: an option of training"),
        (dict(eval_bleu=True, hrt_eval_autoregressive=True), "--hrt-eval-autoregressive: an"),
        (dict(distilled_data="folder"), "--distilled-data folder: an option of training"),
    ):
        task, model = hrt.task(**option)
        with pytest.raises(ValueError, match=named):
            task.build_generator([model], GenerationConfig(beam=1))
        task.given = ()
        assert task.build_generator([model], GenerationConfig(beam=1))
    task, model = hrt.task(hrt_truncate_target=True)
    assert task.build_generator([model], GenerationConfig(beam=1))
