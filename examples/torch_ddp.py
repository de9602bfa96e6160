"""PyTorch, data-parallel over two processes: phases, checkpoints, device values logged as they are.

stepward run -- torchrun --nproc-per-node 2 examples/torch_ddp.py

torchrun tells each process its rank; all of them join the one run that the wrapper has opened.
"""

import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import stepward as sw


def main(steps: int = 200) -> None:
    """Fit a small network to a smooth function."""
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if torch.cuda.is_available() else torch.device("cpu")
    run = sw.init(name="torch-ddp", config={"width": 64, "lr": 1e-2, "steps": steps})
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 1)).to(device))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    inputs = torch.randn(4096, 8)
    data = TensorDataset(inputs, inputs.sin().sum(dim=1, keepdim=True))
    loader = DataLoader(data, batch_size=32, sampler=DistributedSampler(data))
    folder, step = tempfile.mkdtemp(), 0
    while step < steps:
        for x, y in run.data(loader):
            with run.step(step):
                with run.phase("forward"):
                    loss = nn.functional.mse_loss(model(x.to(device)), y.to(device))
                with run.phase("backward"):  # the gradients are averaged inside
                    optimizer.zero_grad()
                    loss.backward()
                with run.phase("optimizer"):
                    optimizer.step()
            run.log({"loss": loss.detach()}, step=step)
            if step % 50 == 49 and dist.get_rank() == 0:
                path = f"{folder}/step-{step}.pt"
                with run.checkpoint(step, path):
                    torch.save(model.module.state_dict(), path)
            step += 1
            if step == steps:
                break
    run.finish()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
