"""Model FLOPs utilisation, where the FLOPs of a step and a cited peak of the devices are known; never part of the ledger.

Peaks are dense BF16 (FP16 where a device has no BF16) FLOP/s of the vendors' data sheets, without sparsity.
"""

PEAKS: tuple[tuple[str, float, str], ...] = (
    ("GB200", 2500e12, "NVIDIA GB200 NVL72 data sheet, a GPU of 72"),
    ("B200", 2250e12, "NVIDIA HGX B200 data sheet"),
    ("GH200", 989e12, "NVIDIA GH200 data sheet"),
    ("H200 NVL", 835e12, "NVIDIA H200 data sheet, NVL"),
    ("H200", 989e12, "NVIDIA H200 data sheet, SXM"),
    ("H100 PCIE", 756e12, "NVIDIA H100 data sheet, PCIe"),
    ("H100 NVL", 835e12, "NVIDIA H100 NVL data sheet"),
    ("H100", 989e12, "NVIDIA H100 data sheet, SXM"),
    ("A100", 312e12, "NVIDIA A100 data sheet"),
    ("V100", 125e12, "NVIDIA V100 data sheet, FP16"),
    ("L40S", 362e12, "NVIDIA L40S data sheet"),
    ("L40", 181e12, "NVIDIA L40 data sheet"),
    ("L4", 121e12, "NVIDIA L4 data sheet"),
    ("MI300X", 1307e12, "AMD Instinct MI300X data sheet"),
    ("MI250X", 383e12, "AMD Instinct MI250X data sheet"),
    ("TPU V6E", 918e12, "Google Cloud TPU v6e page"),
    ("TPU V6 LITE", 918e12, "Google Cloud TPU v6e page; as JAX names it"),
    ("TPU V5P", 459e12, "Google Cloud TPU v5p page"),
    ("TPU V5E", 197e12, "Google Cloud TPU v5e page"),
    ("TPU V5 LITE", 197e12, "Google Cloud TPU v5e page; as JAX names it"),
    ("TPU V4", 275e12, "Google Cloud TPU v4 page"),
)
"""Words of a device's name, its peak in FLOP/s, and who says so; the first that fits."""


def peak_of(device: str) -> float | None:
    """The peak of a device by its name, FLOP/s; None where no source is known, or only a slice of a device is named."""
    words = f" {device.upper().replace('-', ' ')} "
    if " MIG " in words:
        return None
    return next((peak for named, peak, _ in PEAKS if f" {named} " in words), None)


def utilisation(
    *, flops_per_step: float, ideal_s: float | None, program: float | None, devices: float, peak: float | None
) -> float | None:
    """The share of the peak that steps reach while they run, ideal ones and slow ones together.

    Args:
        flops_per_step: of the whole job.
        devices: how many work on a step.
    """
    if not ideal_s or program is None or not peak or devices <= 0 or flops_per_step <= 0:
        return None
    return flops_per_step * program / (ideal_s * devices * peak)
