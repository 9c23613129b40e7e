"""FlashAttention, one rung at a time: every rung of the ladder on PyTorch tensors.

    import flash_ladder
    out = flash_ladder.attention(q, k, v, mask="causal_bottom_right")

Tensors on the CPU run on the ladder's CPU machine, tensors on a GPU there. All functions are the operators
`torch.ops.flash_ladder.<name>`, which torch.compile knows too. Wherever q, k and v appear:

    q     [B, Hq, Sq, D]    float32, float16 or bfloat16; D <= 256; last dimension contiguous
    k, v  [B, Hkv, Sk, D]   Hq a multiple of Hkv; the dtype and the device of q
    scale                   factor on Q K^T, 1/sqrt(D) where it is None

Bad input raises ValueError, in words. `attention` and `attention_with_lse` can be differentiated. The others refuse a tensor
that requires grad, unless grad mode is off.
"""

from typing import Literal, NamedTuple

import torch

from ._library import load
from ._modules import MultiHeadAttention

__all__ = [
    "AttentionGradients", "AttentionResult", "AttentionRung", "Mask", "MultiHeadAttention", "attention", "attention_backward", "attention_rung",
    "attention_with_lse", "block_softmax", "causal_forward", "fa1_forward", "fa2_forward", "flash_decode",
    "flash_decode_parts", "hopper_forward", "hopper_fp8_forward", "library_path", "merge_partials", "mma_forward",
    "online_attention", "online_softmax", "plain_backward", "q_blocked_attention", "qv_blocked_attention",
    "safe_softmax", "standard_attention",
]

library_path: str = load()
"""The libflash_ladder.so that was loaded."""

_ops = torch.ops.flash_ladder

Mask = Literal["none", "causal_bottom_right", "causal_top_left"]
"""Which keys a query sees: all; j <= i + Sk - Sq, as in FlashAttention; j <= i, as with PyTorch's is_causal."""


class AttentionGradients(NamedTuple):
    """What a backward pass returns, each like what it is the gradient of."""

    dq: torch.Tensor
    """[B, Hq, Sq, D]. Rows that see no key are 0."""
    dk: torch.Tensor
    """[B, Hkv, Sk, D]: the sum over the query heads that read a key-value head."""
    dv: torch.Tensor
    """[B, Hkv, Sk, D]: likewise."""


class AttentionResult(NamedTuple):
    """What every attention function returns."""

    out: torch.Tensor
    """[B, Hq, Sq, D], the dtype of q. Rows that see no key are 0."""
    lse: torch.Tensor
    """[B, Hq, Sq] float32: log sum_j exp(scale q_i . k_j), natural logarithm; -inf where no key is seen."""


class AttentionRung(NamedTuple):
    """Which rungs `attention` takes for a problem, and why."""

    forward: str
    """The entry that computes the output, "mma_forward" for instance."""
    backward: str
    """The entry that computes gradients."""
    why: str
    """The reason for each, and a line from each better one that does not take the problem."""


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: Mask = "none",
              scale: float | None = None) -> torch.Tensor:
    """softmax(scale Q K^T + mask) V [B, Hq, Sq, D], with the rung that suits dtype, device and shape best, forward and
    backward: the one that attention_rung names. The only operator that autograd follows, with attention_with_lse.
    Gradients repeat bitwise; there are no second derivatives."""
    return _ops.attention(q, k, v, mask, scale)


def attention_with_lse(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: Mask = "none",
                       scale: float | None = None) -> AttentionResult:
    """The same with the log-sum-exp of each row, which a loss may look at, too."""
    return AttentionResult(*_ops.attention_with_lse(q, k, v, mask, scale))


def attention_backward(dout: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor,
                       lse: torch.Tensor, dlse: torch.Tensor | None = None, mask: Mask = "none",
                       scale: float | None = None) -> AttentionGradients:
    """The backward pass alone: gradients with respect to q, k and v from those with respect to out and lse, which
    attention_with_lse gave for the same q, k, v, mask and scale."""
    return AttentionGradients(*_ops.attention_backward(dout, q, k, v, out, lse, dlse, mask, scale))


def attention_rung(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: Mask = "none",
                   scale: float | None = None) -> AttentionRung:
    """Which rungs `attention` takes for such tensors, and why.

    Forward: flash_decode for up to 16 query tokens, where the keys and not the queries must fill the device; else, for
    float16 and bfloat16, the one for Hopper (H100, H200) beyond 64 columns or 512 tokens, and that for tensor cores
    unless the GPU is older than Ampere; else causal_forward where there is a mask, and fa2_forward where there is none.
    (flash_decode knows no causal_top_left.) Each then chooses the faster of its kernels for the device.
    """
    return AttentionRung(*_ops.attention_rung(q, k, v, mask, scale))


def safe_softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax of each row of x [rows, N] in three passes: maximum, sum, write. (Phase 0)"""
    return _ops.safe_softmax(x)


def online_softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax of each row of x [rows, N] in two passes (Milakov and Gimelshein 2018). (Phase 0)"""
    return _ops.online_softmax(x)


def block_softmax(x: torch.Tensor) -> torch.Tensor:
    """online_softmax with as many warps on a row of x [rows, N] as it is worth: for long rows. (Phase 0)"""
    return _ops.block_softmax(x)


def online_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *,
                     scale: float | None = None) -> AttentionResult:
    """One pass over the keys, a query row at a time, without tiles (Rabe and Staats 2021). (Phase 0)"""
    return AttentionResult(*_ops.online_attention(q, k, v, scale=scale))


def standard_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *,
                       scale: float | None = None) -> AttentionResult:
    """Three kernels with S and P [B, Hq, Sq, Sk] in global memory (Dao et al. 2022, Algorithm 0). (Phase 1)"""
    return AttentionResult(*_ops.standard_attention(q, k, v, scale=scale))


def q_blocked_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, scale: float | None = None,
                        block_rows: int = 64) -> AttentionResult:
    """Scheme A: `block_rows` queries, all keys, all values and whole rows of scores in shared memory. (Phase 1)"""
    return AttentionResult(*_ops.q_blocked_attention(q, k, v, scale=scale, block_rows=block_rows))


def qv_blocked_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, scale: float | None = None,
                         block_rows: int = 64) -> AttentionResult:
    """Scheme B: as scheme A, but the values come past in tiles. (Phase 1)"""
    return AttentionResult(*_ops.qv_blocked_attention(q, k, v, scale=scale, block_rows=block_rows))


def fa1_forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, scale: float | None = None) -> AttentionResult:
    """FlashAttention as first published (Dao et al. 2022, Algorithm 1). (Phase 2)"""
    return AttentionResult(*_ops.fa1_forward(q, k, v, scale=scale))


def fa2_forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, scale: float | None = None) -> AttentionResult:
    """FlashAttention-2 (Dao 2023, Algorithm 1). (Phase 3)"""
    return AttentionResult(*_ops.fa2_forward(q, k, v, scale=scale))


def causal_forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, mask: Mask = "causal_bottom_right",
                   scale: float | None = None) -> AttentionResult:
    """FlashAttention-2 with a causal mask (Dao 2023, section 3.1.1). What a query may not see does not reach its row,
    NaN and infinities included. (Phase 4)"""
    return AttentionResult(*_ops.causal_forward(q, k, v, mask=mask, scale=scale))


def mma_forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, mask: Mask = "none",
                scale: float | None = None) -> AttentionResult:
    """FlashAttention-2 on tensor cores, for float16 and bfloat16 (Dao 2023, Algorithm 1). What a query may not see does
    not reach its row, NaN and infinities included. (Phase 6)"""
    return AttentionResult(*_ops.mma_forward(q, k, v, mask=mask, scale=scale))


def hopper_forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, mask: Mask = "none",
                   scale: float | None = None) -> AttentionResult:
    """FlashAttention-3 on Hopper GPUs (H100, H200), for float16 and bfloat16 (Shah et al. 2024). What a query may not see
    does not reach its row, NaN and infinities included. Tensors whose rows do not begin at multiples of 16 bytes are
    copied first, as are tensors expanded along heads or sequences. RuntimeError on any other device. (Phase 7)"""
    return AttentionResult(*_ops.hopper_forward(q, k, v, mask=mask, scale=scale))


def hopper_fp8_forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, mask: Mask = "none",
                       scale: float | None = None, rotated: bool = True, values: Literal["e4m3", "e5m2"] = "e4m3",
                       cosines: torch.Tensor | None = None, sines: torch.Tensor | None = None,
                       first_query: int = 0) -> AttentionResult:
    """FlashAttention-3 in 8 bits on Hopper GPUs (Shah et al. 2024, section 3.3): tensors of 16 bits are quantized in blocks
    on the way, V and the weights to `values`, Q and K to e4m3, `rotated` by a Hadamard matrix with random signs so that
    outliers are spread. With `cosines` and `sines` [positions, D / 2], a rotary embedding is applied to Q and K before
    that; the first query is at position `first_query`. Numbers are finite. RuntimeError on any other device. (Phase 7)"""
    return AttentionResult(*_ops.hopper_fp8_forward(q, k, v, mask=mask, scale=scale, rotated=rotated, values=values,
                                                    cosines=cosines, sines=sines, first_query=first_query))


def flash_decode(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, kv_lengths: torch.Tensor | None = None,
                 splits: int | None = None, mask: Literal["none", "causal_bottom_right"] = "none",
                 scale: float | None = None) -> AttentionResult:
    """Flash decoding (Dao, Haziza, Massa, Sizov 2023): a few queries over a long cache of keys. (Phase 5)

    kv_lengths [B], int32 or int64: how many keys of the cache belong to each sequence; all where it is None. Its values
    are read on the host, which on a GPU waits for the stream. `splits`, 1 to 1024: into how many pieces the keys are cut;
    planned for the device where it is None.
    """
    return AttentionResult(*_ops.flash_decode(q, k, v, kv_lengths=kv_lengths, splits=splits, mask=mask, scale=scale))


def flash_decode_parts(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, kv_lengths: torch.Tensor | None = None,
                       splits: int | None = None, mask: Literal["none", "causal_bottom_right"] = "none",
                       scale: float | None = None) -> AttentionResult:
    """The first half of flash_decode: out [splits, B, Hq, Sq, D] and lse [splits, B, Hq, Sq], both float32, of each of two
    or more pieces of the keys, for merge_partials. With torch.compile, `splits` must be given. (Phase 5)"""
    return AttentionResult(
        *_ops.flash_decode_parts(q, k, v, kv_lengths=kv_lengths, splits=splits, mask=mask, scale=scale))


def merge_partials(out_parts: torch.Tensor, lse_parts: torch.Tensor) -> AttentionResult:
    """Merges attention over P parts of the keys, out_parts [P, B, H, S, D] and lse_parts [P, B, H, S], both float32, into
    attention over all of them. (Phase 5)"""
    return AttentionResult(*_ops.merge_partials(out_parts, lse_parts))


def plain_backward(dout: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor, lse: torch.Tensor, *,
                   dlse: torch.Tensor | None = None, mask: Mask = "none", scale: float | None = None,
                   gather: Literal["second_pass", "atomics"] = "second_pass") -> AttentionGradients:
    """FlashAttention-2's backward pass (Dao 2023, Algorithm 2): the gradients of q, k and v for `dout`, that of the output,
    and `dlse`, that of the log-sum-exp. `out` and `lse` are what a forward pass returned for q, k, v, mask and scale.
    `gather="atomics"` adds up dq by atomic additions, whose order differs from run to run. (Phase 8)"""
    return AttentionGradients(*_ops.plain_backward(dout, q, k, v, out, lse, dlse=dlse, mask=mask, scale=scale, gather=gather))
