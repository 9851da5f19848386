"""``fairseq-train`` on a CPU with matrix products in bfloat16 (automatic mixed precision; same options).

    python examples/common/train_bf16.py DATA --task translation ...

fairseq's own ``--bf16`` and ``--amp`` need a GPU or TPU. Parameters, optimiser, softmax and loss stay in float32; a CPU
with AVX-512 BF16 or AMX multiplies matrices about 2.5 times as fast. One process only.
"""

import torch
from fairseq.trainer import Trainer
from fairseq_cli.train import cli_main


def main() -> None:
    # The flash kernel's backward pass has no fast bfloat16 path on CPUs: it alone took a fifth of the time.
    torch.backends.cuda.enable_flash_sdp(False)
    # One context a step, not one around the training: leaving it is what drops the bfloat16 copies of the weights, and
    # fairseq's own (disabled) CUDA autocast inside switches the keeping of copies on, whatever was asked for outside.
    autocast = torch.autocast("cpu", dtype=torch.bfloat16)
    Trainer.train_step = autocast(Trainer.train_step)
    Trainer.valid_step = autocast(Trainer.valid_step)
    cli_main()


if __name__ == "__main__":
    main()
