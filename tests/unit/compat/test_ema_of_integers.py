"""The repair `ema-of-integers`; that every family trains and resumes with ``--store-ema`` is an
integration test."""

import torch
from fairseq.dataclass.configs import EMAConfig
from fairseq.models.ema.ema import EMA


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2))
        self.register_buffer("sizes", torch.tensor([2, 3]))

    def get_extra_state(self):
        return {"seen": 1}

    def set_extra_state(self, state):
        pass


def test_integers_are_copied_and_the_rest_is_averaged():
    model = Model()
    ema = EMA(model, EMAConfig(store_ema=True, ema_decay=0.75))
    with torch.no_grad():
        model.weight.fill_(5.0)
        model.sizes.copy_(torch.tensor([2, 4]))
    ema.step(model, 1)
    state = ema.get_model().state_dict()
    assert state["weight"].tolist() == [2.0, 2.0] and state["sizes"].tolist() == [2, 4]
    assert state["sizes"].dtype == torch.long


def test_names_that_are_given_are_copied_as_before():
    model = Model()
    ema = EMA(model, EMAConfig(store_ema=True, ema_decay=0.75), skip_keys={"weight"})
    with torch.no_grad():
        model.weight.fill_(5.0)
    ema.step(model, 1)
    assert ema.get_model().weight.tolist() == [5.0, 5.0]
