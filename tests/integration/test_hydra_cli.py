"""``fairseq-hydra-train`` with the example configurations builds, trains and saves what
``fairseq-train`` does with the same options."""

from pathlib import Path

import pytest
from command_line import OPTIMIZER, assert_same, hypotheses, parameters

import fairseq_hrt.cli.main

pytestmark = pytest.mark.slow

CONFIGURATIONS = Path(__file__).resolve().parents[2] / "examples" / "hydra"
PLUGIN = Path(fairseq_hrt.__file__).parent
SIZES = dict(embed_dim=16, ffn_embed_dim=32, attention_heads=2, layers=1)
# The options of OPTIMIZER, and separate dictionaries.
SETTINGS = [
    f"common.user_dir={PLUGIN}", "common.cpu=true", "common.seed=3",
    "model.share_all_embeddings=false", "model.dropout=0.1", "task.eval_bleu=false",
    "dataset.max_tokens=300", "dataset.num_workers=0", "dataset.disable_validation=true",
    "optimization.lr=[0.003]", "optimization.max_update=2", "lr_scheduler.warmup_updates=2",
    "checkpoint.no_save_optimizer_state=true",
]  # fmt: skip
# family: architecture, criterion and other options
FAMILIES = {
    "autoregressive": (
        "transformer_iwslt_de_en --criterion autoregressive_loss --label-smoothing 0.1"
    ),
    "hrt": (
        "hrt_transformer_iwslt_de_en --criterion hrt_loss --label-smoothing 0.1"
        " --hrt-chunk-sizes 2,3"
    ),
    "bidirectional": (
        "bidirectional_transformer_iwslt_de_en --criterion bidirectional_loss --label-smoothing 0.1"
    ),
    "dag": (
        "dag_transformer_iwslt_de_en --criterion dag_nll_loss --dag-glance-schedule 0.5:0.1@200k"
    ),
    "ctc": (
        "ctc_transformer_iwslt_de_en --criterion ctc_nll_loss --ctc-glance-schedule 0.5:0.3@100k"
        " --ctc-inputs unk"
    ),
}
# Their defaults need one dictionary.
APART = {"ctc": ["model.ctc_inputs=unk"]}


def nested(**sizes):
    """``+model.encoder.embed_dim=16`` …; the examples themselves say how many layers there are."""
    return [
        f"{'' if name == 'layers' else '+'}model.{side}.{name}={value}"
        for side in ("encoder", "decoder")
        for name, value in {**SIZES, **sizes}.items()
    ]


def train_by_hydra(command, data, family, folder, *overrides, **options):
    return command(
        "fairseq-hydra-train", "--config-dir", CONFIGURATIONS, "--config-name", family, *SETTINGS,
        f"task.data={data}", f"checkpoint.save_dir={folder}", *APART.get(family, []), *overrides,
        cwd=folder.parent,
        **options,
    )  # fmt: skip


def train(command, data, family, folder, *arguments):
    flags = [
        f"--{side}-{name.replace('_', '-')}={value}"
        for side in ("encoder", "decoder")
        for name, value in SIZES.items()
    ]
    command(
        "fairseq-train", data, "--user-dir", PLUGIN, "--task", f"translation_{family}", "--arch",
        *FAMILIES[family].split(),
        *flags, *OPTIMIZER, "--adam-betas", "(0.9, 0.98)", "--lr-scheduler", "inverse_sqrt",
        "--warmup-updates", "2", "--max-update", "2", "--save-dir", folder, *arguments,
    )  # fmt: skip


@pytest.fixture(scope="module")
def by_hydra(command, toy_data, tmp_path_factory):
    """Folders of checkpoints by family: a teacher, and the others started from it."""
    folder = tmp_path_factory.mktemp("hydra")
    folders = {family: folder / family for family in FAMILIES}
    for family, own in folders.items():
        start = (
            []
            if family == "autoregressive"
            else [f"checkpoint.finetune_from_model={start_of(folders)}"]
        )
        train_by_hydra(command, toy_data, family, own, *nested(), *start)
    return folders


def start_of(folders):
    return folders["autoregressive"] / "checkpoint_last.pt"


@pytest.mark.parametrize("family", FAMILIES)
def test_the_model_of_fairseq_train(command, toy_data, by_hydra, tmp_path, family):
    start = [] if family == "autoregressive" else ["--finetune-from-model", start_of(by_hydra)]
    train(command, toy_data, family, tmp_path, *start)
    found = parameters(by_hydra[family])
    assert (
        found["decoder.layers.0.fc1.weight"].shape == (32, 16)
        and "decoder.layers.1.fc1.weight" not in found
    )
    assert_same(found, parameters(tmp_path))


def test_its_checkpoints_translate(command, toy_data, by_hydra):
    """Those of others make bundles and teach below."""
    path = by_hydra["dag"] / "checkpoint_last.pt"
    output = command(
        "fairseq-generate", toy_data, "--user-dir", PLUGIN, "--task", "translation_dag", "--path",
        path, "--cpu", "--beam", "1", "--max-len-b", "10",
    ).stdout  # fmt: skip
    assert len(hypotheses(output)) == 20


def test_its_checkpoints_teach_and_make_bundles(command, toy_data, by_hydra, tmp_path):
    averaged = tmp_path / "averaged.pt"
    for arguments in (
        ["average", "--inputs", by_hydra["hrt"] / "checkpoint_last.pt", "--output", averaged],
        [
            "bundle", averaged, "--data", toy_data, "--output", tmp_path / "bundle", "--tokenizer",
            "space", "--subwords", "none",
        ],
    ):  # fmt: skip
        fairseq_hrt.cli.main.main([*map(str, arguments)])
    assert isinstance(fairseq_hrt.from_pretrained(tmp_path / "bundle").translate("a b c"), str)
    teacher = f"name=teacher,path={start_of(by_hydra)},task=translation_autoregressive,beam=1,max_len_b=10"
    command(
        "fairseq-hrt",
        "distill",
        toy_data,
        "--system",
        teacher,
        "--out",
        tmp_path / "distilled",
        "-s",
        "de",
        "-t",
        "en",
        "--gen-subset",
        "valid",
    )


def test_groups_on_the_command_line(command, toy_data, tmp_path):
    """``task=…`` and the like are found although the plugin is named on the same command line;
    names of one level count as well."""
    groups = [
        "task=translation_hrt",
        "model=hrt_transformer_tiny",
        "criterion=hrt_loss",
        "optimizer=adam",
    ]
    command(
        "fairseq-hydra-train", *groups, f"task.data={toy_data}", f"common.user_dir={PLUGIN}",
        "common.cpu=true", "+model.decoder_layers=1", "dataset.max_tokens=300",
        "dataset.disable_validation=true", "dataset.num_workers=0", "optimization.max_update=1",
        "checkpoint.no_save_optimizer_state=true", f"checkpoint.save_dir={tmp_path / 'model'}",
        cwd=tmp_path,
    )  # fmt: skip
    found = parameters(tmp_path / "model")
    assert (
        found["encoder.layers.1.fc1.weight"].shape == (512, 128)
        and "decoder.layers.1.fc1.weight" not in found
    )


def test_what_is_not_built_is_refused(command, toy_data, tmp_path):
    message = "model.encoder_layrs: hrt_transformer_iwslt_de_en has no such option"
    finished = train_by_hydra(
        command, toy_data, "hrt", tmp_path / "model", "+model.encoder.layrs=2", check=False
    )
    assert finished.returncode and message in finished.stdout + finished.stderr
    assert not list(tmp_path.rglob("*.pt"))
