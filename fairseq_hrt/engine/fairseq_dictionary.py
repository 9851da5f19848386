"""fairseq's dictionary with a faster conversion between text and tensors of ids."""

from typing import Any, Callable, List, Optional

import torch
from fairseq.data import Dictionary
from fairseq.tokenizer import tokenize_line


class TaskDictionary(Dictionary):
    """fairseq's dictionary, but whole tensors are converted at once. fairseq reads and writes them
    element by element, which takes as long as the native engine needs to translate."""

    def string(self, tensor: Any, *args: Any, **kwargs: Any) -> str:
        """The text of a tensor ``[T]`` or a sequence of ids, or of a tensor ``[B, T]``, a line for
        each row; the further arguments are fairseq's."""
        single = torch.is_tensor(tensor) and tensor.dim() == 1
        return super().string(tensor.tolist() if single else tensor, *args, **kwargs)

    def encode_line(
        self,
        line: str,
        line_tokenizer: Callable[[str], List[str]] = tokenize_line,
        add_if_not_exist: bool = True,
        consumer: Optional[Callable[[str, int], Any]] = None,
        append_eos: bool = True,
        reverse_order: bool = False,
    ) -> torch.Tensor:
        """The ids of a line: IntTensor ``[T]``; the arguments are fairseq's."""
        words = line_tokenizer(line)[:: -1 if reverse_order else 1]
        look_up = self.add_symbol if add_if_not_exist else self.index
        ids = []
        for word in words:
            ids.append(look_up(word))
            if consumer is not None:
                consumer(word, ids[-1])
        return torch.tensor([*ids, self.eos_index] if append_eos else ids, dtype=torch.int)
