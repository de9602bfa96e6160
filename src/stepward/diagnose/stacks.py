"""Stacks of processes (py-spy dump and its like): who waits for the others, and what the one they wait for does.

A rank whose top frames are in a collective waits. If others do not wait, they are what is waited for; what they do says
the label. One rank alone, or all ranks in the same place outside a collective, are judged by what they do, too.
"""

import re
from collections.abc import Iterable

import msgspec

from stepward.diagnose.clues import Clue, Kind, Role, clue
from stepward.diagnose.lines import Line

_PROCESS = re.compile(r"^\s*(?:Process|PID|pid|=+|#+|---+)[: ]*(\d+)?.*|^\s*\[?rank ?\d+\]?.{0,60}:\s*$", re.IGNORECASE)
_RANK = re.compile(r"\brank[ _=:]?(\d+)\b", re.IGNORECASE)
_NODE = re.compile(r"\b(?:on|node|host)[ =:]+([a-z][\w-]*\d[\w-]*)", re.IGNORECASE)
_THREAD = re.compile(r"^\s*Thread\b.*", re.IGNORECASE)
_FRAME = re.compile(
    r"^\s+(?:at )?(\S.*?) \(([^()]*?)(?::(\d+))?\)\s*$|^\s+File \"([^\"]+)\", line (\d+), in (\S+)|^\s*#\d+\s+(\S.*)$"
)
_COLLECTIVE = re.compile(
    r"\b(all_?reduce|all_?gather\w*|reduce_?scatter\w*|broadcast\w*|all_?to_?all\w*|barrier|monitored_barrier|send|recv|gather|scatter|reduce)\b.{0,60}"
    r"(?:distributed|c10d|nccl|gloo|mpi|horovod|deepspeed|comm)|wait_for_everyone|_engine_run_backward|nccl\w*(?:AllReduce|AllGather|Broadcast|ReduceScatter|Send|Recv)|"
    r"(?:cuda\w*|stream|event)[_ ]?synchronize|synchronize \(torch/cuda|block_until_ready|sync_global_devices|wait \(torch/(?:distributed|_C)|work\.wait|"
    r"isend|irecv|batch_isend_irecv|_coalescing_manager|backward \(torch/(?:_tensor|autograd)",
    re.IGNORECASE,
)
_OPERATION = re.compile(
    r"\b(all_?reduce|all_?gather|reduce_?scatter|broadcast|all_?to_?all|barrier|send|recv|gather)", re.IGNORECASE
)
# What a rank does, the most telling first: (what its frames show, label, role, added strength, in words).
_DOES: list[tuple[re.Pattern[str], str, Role, float, str]] = [
    (re.compile(r"\bi?pdb\b|pdb\.py|bdb\.py|cmdloop|\binteraction \(|debugpy|\binput \(|readline|getpass|code\.py", re.I), "hang_in_user_code", Role.ROOT, 0.8, "waits for a person in a debugger or prompt"),
    (re.compile(r"file_?baton|filelock|fcntl|flock|portalocker|\bacquire \(|lock\.acquire|sem_wait|__lll_lock|pthread_mutex|futex|\block \(", re.I), "hang_in_user_code", Role.ROOT, 0.5, "waits for a lock"),
    (re.compile(r"save_\w*|_save\b|\bsave \(|serialization|\.save|async_save|orbax|upload|write_shard|fsync|dump_checkpoint|consolidat\w+|gather_full|state_dict \(", re.I), "checkpoint_stall", Role.ROOT, 0.5, "saves a checkpoint"),
    (re.compile(r"load_checkpoint|load_state|restore|torch_load|\bload \(torch/serialization|from_pretrained", re.I), "checkpoint_stall", Role.EITHER, 0.8, "loads a checkpoint"),
    (re.compile(r"_inductor|_dynamo|triton/(?:compiler|runtime)|backend_compile|xla_client|compile_or_get|pxla|mlir|ptxas|nvcc|ninja|_jit_compile|lower_|cpp_extension", re.I), "timeout_budget", Role.EITHER, 0.9, "compiles"),
    (re.compile(r"tokeni[sz]|preprocess|build_index|index_dataset|build_\w*(?:mapping|samples)|arrow_dataset|datasets/(?:arrow|builder)|\bmap \(|shuffle_idx|pack_", re.I), "timeout_budget", Role.ROOT, 0.2, "prepares data"),
    (re.compile(r"evaluat|\beval\w* \(|generate \(|validat|predict|benchmark|lm_eval|metric\w* \(", re.I), "timeout_budget", Role.ROOT, 0.0, "evaluates"),
    (re.compile(r"snapshot_download|hf_hub|huggingface_hub|download", re.I), "timeout_budget", Role.EITHER, 0.8, "downloads"),
    (re.compile(r"_next_data|_try_get_data|_get_data|dataloader\.py|__getitem__|fetch\.py|collate|webdataset|tarfile|decode_|next_batch|get_batch|__next__.{0,40}(?:data|load)", re.I), "data_pipeline", Role.EITHER, 0.9, "waits for a batch"),
    (re.compile(r"socket\.py|http/client|urllib|requests/|urllib3|ssl\.py|httpx|aiohttp|grpc|boto|wandb|mlflow|smtplib|psycopg|redis", re.I), "hang_in_user_code", Role.EITHER, 1.0, "waits for a remote service"),
    (re.compile(r"nfs_|lustre|ll_|rpc_wait|fuse_|\bopen \(|\bread \(|\bstat \(|listdir|scandir|glob\.py|io_schedule|os\.py|pathlib|readinto", re.I), "storage_io", Role.EITHER, 0.6, "reads or writes a file"),
    (re.compile(r"sleep", re.I), "hang_in_user_code", Role.EITHER, 0.8, "sleeps"),
    (re.compile(r"cuda/__init__|_lazy_init|set_device|cuInit|cudaMalloc|nvml|ioctl|rm_ioctl|current_device|get_device_properties", re.I), "gpu_driver_firmware", Role.EITHER, 0.6, "waits for the driver"),
    (re.compile(r"init_process_group|rendezvous|TCPStore|_store_based_barrier|distributed\.initialize|xla_bridge|make_c_api_client", re.I), "rendezvous_failure", Role.EITHER, 0.5, "waits for the other processes to come"),
    (re.compile(r"multiprocessing|queue\.py|threading\.py|concurrent/futures|\bjoin \(|\bget \(|\bwait \(|poll|select", re.I), "hang_in_user_code", Role.EITHER, 0.8, "waits for another thread or process"),
]  # fmt: skip


class Stack(msgspec.Struct):
    """Frames of one process's main thread, innermost first."""

    rank: int | None
    node: str | None
    line: Line
    frames: list[str]

    @property
    def collective(self) -> str | None:
        """The collective in whose wait the process is, or None."""
        for frame in self.frames[:4]:
            if _COLLECTIVE.search(frame):
                found = _OPERATION.search(frame)
                return found[1].lower().replace("_", "") if found else "collective"
        return None


def read_stacks(lines: Iterable[Line]) -> list[Stack]:
    """The main threads of all processes of a dump."""
    stacks: list[Stack] = []
    taking, header = False, None
    for line in lines:
        if _FRAME.match(line.text) and taking and stacks:
            stacks[-1].frames.append(line.text.strip())
        elif _THREAD.match(line.text):
            # A dump lists the main thread first; others of the same process say little about the hang.
            main = "MainThread" in line.text or not stacks or stacks[-1].frames == []
            taking = main
            if main and (not stacks or stacks[-1].frames):
                stacks.append(_stack(header or line))
        elif _PROCESS.match(line.text) or _RANK.search(line.text):
            header, taking = line, True
            stacks.append(_stack(line))
    return [stack for stack in stacks if stack.frames]


def _stack(line: Line) -> Stack:
    rank, node = _RANK.search(line.text), _NODE.search(line.text)
    return Stack(int(rank[1]) if rank else line.rank, node[1] if node else line.node, line, [])


def stack_clues(stacks: list[Stack]) -> list[Clue]:
    """What the stacks of a hung run say."""
    waiting = [stack for stack in stacks if stack.collective]
    others = [stack for stack in stacks if not stack.collective]
    operations = {stack.collective for stack in waiting} - {"collective"}
    found = [one for stack in others if (one := _does(stack, bool(waiting)))]
    if not others and len(operations) > 1:
        found += _odd_collective(waiting)
    return found


def _does(stack: Stack, awaited: bool) -> Clue | None:
    """The clue of a process that does not wait in a collective; None if its frames say nothing."""
    for pattern, label, role, more, does in _DOES:
        frame = next((frame for frame in stack.frames if pattern.search(frame)), None)
        if frame is not None:
            return _clue(
                stack,
                label,
                f"{_who(stack)} {does}" + (" while the others wait" if awaited else ""),
                frame,
                role,
                more + (0.8 if awaited else 0),
            )
    if awaited and stack.frames:
        return _clue(
            stack,
            "hang_in_user_code",
            f"{_who(stack)} is in its own code while the others wait",
            stack.frames[0],
            Role.EITHER,
            1.2,
        )
    return None


def _odd_collective(waiting: list[Stack]) -> list[Clue]:
    counts: dict[str, list[Stack]] = {}
    for stack in waiting:
        counts.setdefault(stack.collective or "", []).append(stack)
    fewest = min(counts.values(), key=len)
    names = " and ".join(sorted(counts))
    return [
        _clue(
            stack, "collective_desync", f"ranks wait in different collectives: {names}", stack.frames[0], Role.ROOT, 1.0
        )
        for stack in (fewest if len(fewest) * 2 < len(waiting) else waiting[:1])
    ]


def _who(stack: Stack) -> str:
    return "a process" if stack.rank is None else f"rank {stack.rank}"


def _clue(stack: Stack, label: str, says: str, text: str, role: Role, more: float) -> Clue:
    line = stack.line
    return clue(
        f"stack_{label}",
        label,
        Kind.STACKS,
        line.source,
        line.number,
        text,
        says,
        role=role,
        more=more,
        rank=stack.rank,
        node=stack.node,
    )
