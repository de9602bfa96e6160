"""Lightning: the logger keeps what ``self.log`` gives, the callback times steps and phases.

stepward run -- python examples/lightning_fit.py
"""

import tempfile

import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from stepward.sdk.frameworks.lightning import StepwardCallback, StepwardLogger


class Regression(pl.LightningModule):
    """A small network that learns a smooth function of eight variables."""

    def __init__(self, width: int = 64, lr: float = 1e-2) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.network = nn.Sequential(nn.Linear(8, width), nn.Tanh(), nn.Linear(width, 1))

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], index: int) -> torch.Tensor:
        """Mean squared error."""
        x, y = batch
        loss = nn.functional.mse_loss(self.network(x), y)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam."""
        return torch.optim.Adam(self.parameters(), lr=self.hparams["lr"])


def main() -> None:
    """Fit for two epochs."""
    x = torch.randn(4096, 8)
    loader = DataLoader(TensorDataset(x, x.sin().sum(dim=1, keepdim=True)), batch_size=64)
    trainer = pl.Trainer(
        max_epochs=2,
        accelerator="cpu",
        logger=StepwardLogger(name="lightning-fit"),
        callbacks=[StepwardCallback()],
        default_root_dir=tempfile.mkdtemp(),
        log_every_n_steps=5,
        enable_progress_bar=False,
    )
    trainer.fit(Regression(), loader)


if __name__ == "__main__":
    main()
