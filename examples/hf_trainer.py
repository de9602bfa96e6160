"""Hugging Face Trainer: the callback is the only line that stepward needs.

stepward run -- python examples/hf_trainer.py
"""

import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from stepward.demo.text import Corpus
from stepward.sdk.frameworks.hf import StepwardCallback


class Windows(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """The demo's text, cut into windows of ``length`` characters."""

    def __init__(self, corpus: Corpus, length: int = 64) -> None:
        tokens = torch.from_numpy(corpus.tokens).long()
        self._windows = tokens[: len(tokens) // length * length].view(-1, length)

    def __len__(self) -> int:
        return len(self._windows)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        window = self._windows[index]
        return {"input_ids": window, "labels": window}


def main() -> None:
    """Train a very small GPT-2 from scratch."""
    corpus = Corpus()
    config = GPT2Config(vocab_size=len(corpus.alphabet), n_positions=64, n_embd=64, n_layer=2, n_head=4)
    arguments = TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        run_name="hf-trainer",
        max_steps=60,
        per_device_train_batch_size=8,
        learning_rate=3e-3,
        logging_steps=5,
        save_steps=30,
        eval_strategy="steps",
        eval_steps=30,
        report_to=[],
    )
    data = Windows(corpus)
    held_out = torch.utils.data.Subset(data, range(32))
    Trainer(
        model=GPT2LMHeadModel(config),
        args=arguments,
        train_dataset=data,
        eval_dataset=held_out,
        callbacks=[StepwardCallback()],
    ).train()


if __name__ == "__main__":
    main()
