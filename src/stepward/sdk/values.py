"""Turns what people log into numbers: python, decimal, numpy, torch and jax, without a forced device sync.

``take`` gives a number, a vector (one number a device) or a ``Copy``: a device value whose transfer was started and that
is read later, when it is there. Frameworks are known by the type of a value and never imported for it. What is no number
is refused with words for people.
"""

import sys
from collections.abc import Callable
from typing import Any, Protocol

MAX_VECTOR = 4096
"""Longest vector: one series an element, so a longer one is an array that was logged by mistake."""
EXACT = 1 << 53
"""Integers up to this magnitude are all float64s."""


class Refused(Exception):
    """A value that cannot be a number; the message says why."""


class Copy(Protocol):
    """A device value under way to the host."""

    def ready(self) -> bool:
        """Whether ``read`` would not wait."""

    def read(self) -> "Numbers":
        """The numbers.

        Raises:
            Refused: the value is gone.
        """


Numbers = float | list[float]
Taken = Numbers | Copy
_Taker = Callable[[Any], Taken]
_takers: dict[type, _Taker] = {}


def take(value: object) -> Taken:
    """The numbers of ``value``, or their copy under way.

    Raises:
        Refused: not a number, a vector beyond ``MAX_VECTOR``, an array of more dimensions.
    """
    kind = type(value)
    taker = _takers.get(kind)
    if taker is None:
        taker = _takers[kind] = _taker_of(kind)
    try:
        return taker(value)
    except Refused:
        raise
    except Exception as error:
        raise Refused(f"a {kind.__name__} that cannot be read ({type(error).__name__}: {error})") from None


def as_float(number: float) -> tuple[float, bool]:
    """``number`` as float64 and whether it was an integer that a float64 does not hold exactly.

    Raises:
        Refused: beyond the range of float64.
    """
    try:
        result = float(number)
    except OverflowError:
        raise Refused("an integer beyond the range of float64") from None
    rounded = isinstance(number, int) and not -EXACT <= number <= EXACT and int(result) != number
    return result, rounded


def _taker_of(kind: type) -> _Taker:
    for base in kind.__mro__:
        module, name = base.__module__.partition(".")[0], base.__name__
        if base in (float, int):
            return base
        if module == "numpy" and name in ("ndarray", "generic"):
            return _numpy_array if name == "ndarray" else _numpy_scalar
        if module == "torch" and name == "Tensor":
            return _torch
        if module in ("jax", "jaxlib") and name in ("ArrayImpl", "PRNGKeyArray"):
            return _jax
        if module == "jax" and name == "Tracer":
            return _refuse("a traced value inside a jax transformation; return it and log it outside")
        if (module, name) in (("decimal", "Decimal"), ("fractions", "Fraction")):
            return float
    if issubclass(kind, (list, tuple)):
        return _sequence
    return _refuse(f"a {kind.__name__}, not a number")


def _refuse(why: str) -> _Taker:
    def refuse(_: object) -> Taken:
        raise Refused(why)

    return refuse


def _sequence(value: Any) -> Taken:
    _check_shape(type(value).__name__, (len(value),))
    numbers: list[float] = []
    for element in value:
        number = take(element)
        if not isinstance(number, (int, float)):
            raise Refused(f"a {type(value).__name__} of {type(element).__name__}; stack them")
        numbers.append(number)
    return _vector(numbers)


def _numpy_scalar(value: Any) -> Taken:
    if value.dtype.kind not in "biufV":
        raise Refused(f"a {value.dtype.name}, not a number")
    number = value.item()
    return number if isinstance(number, int) else float(number)


def _numpy_array(value: Any) -> Taken:
    kind = value.dtype.kind
    if kind not in "biufV" or value.dtype.names:
        raise Refused(f"an array of {value.dtype.name}, not of numbers")
    if value.shape == () and kind in "biuf" and value.dtype.itemsize <= 8 and not hasattr(value, "filled"):
        number: int | float = value.item()
        return number
    _check_shape("array", value.shape)
    if hasattr(value, "filled"):
        value = value.astype("float64").filled(float("nan"))
    numbers = value.ravel() if kind in "biu" else value.ravel().astype("float64")
    return _vector(numbers.tolist())


def _vector(numbers: list[float]) -> Numbers:
    """A vector of one is a scalar: what has one device needs no device number."""
    return numbers[0] if len(numbers) == 1 else numbers


def _check_shape(what: str, shape: Any) -> None:
    size = 1
    for length in shape:
        size *= length
    if size == 0:
        raise Refused(f"an empty {what}")
    if size > 1 and len(shape) > 1:
        raise Refused(f"a {what} of shape {tuple(shape)}; log a scalar or a vector over devices")
    if size > MAX_VECTOR:
        raise Refused(f"a {what} of {size} elements, more than {MAX_VECTOR}")


def _torch(value: Any) -> Taken:
    if hasattr(value, "to_local"):
        if not all(placement.is_replicate() for placement in value.placements):
            raise Refused("a tensor that is sharded over ranks; log its full_tensor()")
        value = value.to_local()
    strided = value.layout is sys.modules["torch"].strided
    if not strided or value.is_complex() or value.is_quantized or value.is_meta:
        raise Refused(f"a tensor of {value.dtype} on {value.device.type} ({value.layout}), not of numbers")
    if value.is_cpu and value.dim() == 0:
        number: int | float = value.item()
        return number
    _check_shape("tensor", value.shape)
    value = value.detach()
    if value.is_cpu:
        return _torch_numbers(value)
    return _CudaCopy(value) if value.is_cuda else _TorchCopy(value.clone())


def _torch_numbers(value: Any) -> Numbers:
    flat = value.reshape(-1)
    return _vector((flat.double() if flat.is_floating_point() else flat).tolist())


class _CudaCopy:
    """A tensor copied on its stream into pinned memory; an event marks the end of the copy."""

    def __init__(self, value: Any) -> None:
        torch = sys.modules["torch"]
        if torch.cuda.is_current_stream_capturing():
            raise Refused("a tensor inside the capture of a CUDA graph; log it after the replay")
        self._host = torch.empty(value.shape, dtype=value.dtype, device="cpu", pin_memory=True)
        self._host.copy_(value, non_blocking=True)
        self._done = torch.cuda.Event()
        self._done.record(torch.cuda.current_stream(value.device))

    def ready(self) -> bool:
        return bool(self._done.query())

    def read(self) -> Numbers:
        return _torch_numbers(self._host)


class _TorchCopy:
    """A tensor on a device without events that we know of: read by the background thread, which may wait for it."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def ready(self) -> bool:
        return True

    def read(self) -> Numbers:
        return _torch_numbers(self._value.cpu())


def _jax(value: Any) -> Taken:
    if getattr(value.dtype, "kind", "O") not in "biufV":
        raise Refused(f"a jax array of {value.dtype}, not of numbers")
    if value.shape:
        _check_shape("array", value.shape)
    if value.is_deleted():
        raise Refused("a jax array that was donated or deleted before it was logged")
    sharding = value.sharding
    if id(sharding) in _here or _is_here(sharding, value):
        # A finished array is host memory: reading it waits for nothing, and what is read now is accepted now.
        copy = _JaxCopy(value)
        return copy.read() if value.is_ready() else copy
    if not value.is_fully_addressable:
        if not value.is_fully_replicated:
            raise Refused("a jax array that is spread over processes; replicate it before logging")
        value = value.addressable_data(0)
    value.copy_to_host_async()
    return _JaxCopy(value)


_here: dict[int, object] = {}
"""Shardings over this process' CPU devices alone, by their identity: asking one costs more than reading the array."""
_MAX_HERE = 64


def _is_here(sharding: object, value: Any) -> bool:
    """Whether the array is in this process' memory; remembers its sharding, which lives as long as it is remembered."""
    here = value.is_fully_addressable and all(device.platform == "cpu" for device in value.devices())
    if here and len(_here) < _MAX_HERE:
        _here[id(sharding)] = sharding
    return here


class _JaxCopy:
    """A jax array whose transfer to the host was started."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def ready(self) -> bool:
        return bool(self._value.is_deleted() or self._value.is_ready())

    def read(self) -> Numbers:
        numpy = sys.modules["numpy"]
        if self._value.is_deleted():
            raise Refused("a jax array that was donated or deleted before it could be read; log a copy of it")
        numbers: Numbers = _numpy_array(numpy.asarray(self._value))  # type: ignore[assignment]
        return numbers
