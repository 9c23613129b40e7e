"""Loads libflash_ladder.so into PyTorch and calls every entry it registers.

  python3 ops_test.py PATH/libflash_ladder.so [cpu|cuda]

Exits with 77, "not run", where there is no PyTorch of the version that the library was built with, or no GPU to test on.
"""

import math
import sys


def not_run(reason):
    print(f"NOT RUN: Python operators: {reason}")
    sys.exit(77)


try:
    import torch
except ImportError as error:
    not_run(f"no PyTorch for {sys.executable} ({error})")


def reference(q, k, v, scale=None, mask="none", lengths=None):
    """Plain attention in float64; returns (out, lse)."""
    q, k, v = q.double(), k.double(), v.double()
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    s = q @ k.transpose(-2, -1) * (scale if scale is not None else 1 / math.sqrt(q.shape[-1]))
    i = torch.arange(q.shape[2], device=q.device)[:, None]
    j = torch.arange(k.shape[2], device=q.device)[None, :]
    seen = torch.ones_like(s, dtype=torch.bool)
    if mask == "causal_bottom_right":
        seen &= j <= i + k.shape[2] - q.shape[2]
    if mask == "causal_top_left":
        seen &= j <= i
    if lengths is not None:
        seen &= j < lengths.to(q.device)[:, None, None, None]
    s = s.masked_fill(~seen, -math.inf)
    lse = torch.logsumexp(s, -1)
    p = torch.where(seen, torch.exp(s - lse.masked_fill(lse == -math.inf, 0)[..., None]), torch.zeros_like(s))
    return p @ v, lse


def close(name, got, expected, tolerance):
    both_infinite = torch.isinf(got.double()) & (got.double() == expected)
    error = torch.where(both_infinite, torch.zeros_like(expected), (got.double() - expected).abs()).max().item()
    assert error <= tolerance, f"{name}: error {error:.2e}, allowed {tolerance:.2e}"  # NaN fails too
    print(f"  {name}: error {error:.1e}")


def refuses(name, call, *needles):
    try:
        call()
    except Exception as error:  # noqa: BLE001 - PyTorch wraps C++ exceptions in several types
        missing = [n for n in needles if n not in str(error)]
        assert not missing, f"{name}: the message lacks {missing}: {error}"
        print(f"  {name}: refused, as it should be")
        return
    raise AssertionError(f"{name}: bad input was accepted")


def main(library, device="cpu"):
    if device == "cuda" and not torch.cuda.is_available():
        not_run("no GPU that PyTorch can use")
    try:
        torch.ops.load_library(library)
    except OSError as error:
        not_run(f"this PyTorch ({torch.__version__}) cannot load the library: {error}")
    ops = torch.ops.flash_ladder
    torch.manual_seed(1)

    x = torch.randn(5, 300, device=device)
    for name in ("safe_softmax", "online_softmax", "block_softmax"):
        close(name, getattr(ops, name)(x), torch.softmax(x.double(), -1), 1e-6)

    q = torch.randn(2, 4, 33, 24, device=device)
    k = torch.randn(2, 2, 70, 24, device=device)
    v = torch.randn(2, 2, 70, 24, device=device)
    full = ("online_attention", "standard_attention", "q_blocked_attention", "qv_blocked_attention", "fa1_forward",
            "fa2_forward", "flash_decode")
    for name in full:
        for scale in (None, 0.3):
            out, lse = getattr(ops, name)(q, k, v, scale=scale)
            expected_out, expected_lse = reference(q, k, v, scale)
            close(f"{name} out, scale {scale}", out, expected_out, 1e-5)
            close(f"{name} lse, scale {scale}", lse, expected_lse, 1e-5)
    for mask in ("none", "causal_bottom_right", "causal_top_left"):
        out, lse = ops.causal_forward(q, k, v, mask=mask)
        expected_out, expected_lse = reference(q, k, v, mask=mask)
        close(f"causal_forward out, {mask}", out, expected_out, 1e-5)
        close(f"causal_forward lse, {mask}", lse, expected_lse, 1e-5)

    cache_k, cache_v = torch.randn(2, 2, 2, 500, 24, device=device)
    lengths = torch.tensor([500, 13], device=device)
    for splits in (None, 1, 3):
        out, lse = ops.flash_decode(q[:, :, :1], cache_k, cache_v, kv_lengths=lengths, splits=splits)
        expected_out, expected_lse = reference(q[:, :, :1], cache_k, cache_v, lengths=lengths)
        close(f"flash_decode out, lengths, splits {splits}", out, expected_out, 1e-5)
        close(f"flash_decode lse, lengths, splits {splits}", lse, expected_lse, 1e-5)

    parts = [ops.fa2_forward(q, k[:, :, part], v[:, :, part]) for part in (slice(0, 30), slice(30, 70))]
    out, lse = ops.merge_partials(torch.stack([p[0] for p in parts]), torch.stack([p[1] for p in parts]))
    expected_out, expected_lse = reference(q, k, v)
    close("merge_partials out", out, expected_out, 1e-5)
    close("merge_partials lse", lse, expected_lse, 1e-5)

    parts = ops.flash_decode_parts(q[:, :, :1], cache_k, cache_v, kv_lengths=lengths, splits=3)
    out, lse = ops.merge_partials(*parts)
    expected_out, expected_lse = reference(q[:, :, :1], cache_k, cache_v, lengths=lengths)
    close("flash_decode_parts, merged, out", out, expected_out, 1e-5)
    close("flash_decode_parts, merged, lse", lse, expected_lse, 1e-5)
    refuses("flash_decode_parts, one piece", lambda: ops.flash_decode_parts(q, cache_k, cache_v, splits=1), "splits", "2")

    halves = [t.half() for t in (q, k, v)]
    for mask in ("none", "causal_bottom_right", "causal_top_left"):
        out, lse = ops.mma_forward(*halves, mask=mask)
        expected_out, expected_lse = reference(*halves, mask=mask)
        close(f"mma_forward out, {mask}", out, expected_out, 5e-3)
        close(f"mma_forward lse, {mask}", lse, expected_lse, 1e-5)
    refuses("mma_forward, float32", lambda: ops.mma_forward(q, k, v), "float16 and bfloat16", "fa2_forward")

    if q.is_cuda and torch.cuda.get_device_capability() == (9, 0):
        for mask in ("none", "causal_bottom_right", "causal_top_left"):
            out, lse = ops.hopper_forward(*halves, mask=mask)
            expected_out, expected_lse = reference(*halves, mask=mask)
            close(f"hopper_forward out, {mask}", out, expected_out, 5e-3)
            close(f"hopper_forward lse, {mask}", lse, expected_lse, 1e-5)
            out, lse = ops.hopper_fp8_forward(*halves, mask=mask)
            close(f"hopper_fp8_forward out, {mask}", out, expected_out, 0.2)
            close(f"hopper_fp8_forward lse, {mask}", lse, expected_lse, 0.1)
    else:
        for name in ("hopper_forward", "hopper_fp8_forward"):
            refuses(f"{name} without Hopper", lambda name=name: getattr(ops, name)(*halves), "wgmma", "phase 6", "mma_forward")
    for name in ("hopper_forward", "hopper_fp8_forward"):
        refuses(f"{name}, float32", lambda name=name: getattr(ops, name)(q, k, v), "float16 and bfloat16", "fa2_forward")
    refuses("hopper_fp8_forward, codes", lambda: ops.hopper_fp8_forward(*halves, values="int8"), "int8", "e4m3", "e5m2")

    dout, dlse = torch.randn_like(q), torch.randn(q.shape[:3], device=device)
    for mask in ("none", "causal_bottom_right", "causal_top_left"):
        for with_dlse in (False, True):
            learning = [t.double().requires_grad_() for t in (q, k, v)]
            out, lse = reference(*learning, mask=mask)
            results, gradients = ((out, lse), (dout.double(), dlse.double())) if with_dlse else ((out,), (dout.double(),))
            expected = torch.autograd.grad(results, learning, gradients)
            for gather in ("second_pass", "atomics"):
                got = ops.plain_backward(dout, q, k, v, out.detach().float(), lse.detach().float(), dlse=dlse if with_dlse else None,
                                         mask=mask, gather=gather)
                for name, g, e in zip(("dq", "dk", "dv"), got, expected):
                    close(f"plain_backward {name}, {mask}, {gather}", g, e, 3e-5)
    out, lse = ops.fa2_forward(q, k, v)
    refuses("plain_backward, gather", lambda: ops.plain_backward(dout, q, k, v, out, lse, gather="luck"), "gather", "luck", "second_pass")
    refuses("plain_backward, dout", lambda: ops.plain_backward(dout[:, :, :5], q, k, v, out, lse), "dout", "5")

    half = ops.fa2_forward(q.half(), k.half(), v.half())[0]
    assert half.dtype == torch.float16
    close("fa2_forward float16", half, reference(q.half(), k.half(), v.half())[0], 5e-3)

    for name in full + ("attention", "attention_with_lse", "causal_forward", "mma_forward", "hopper_forward", "hopper_fp8_forward"):
        refuses(f"{name}, float64 k", lambda name=name: getattr(ops, name)(q, k.double(), v), "k:")
        refuses(f"{name}, 3 heads", lambda name=name: getattr(ops, name)(q[:, :3], k, v), "q:", "3", "2")
    for name in ("attention", "attention_with_lse", "causal_forward", "mma_forward", "hopper_forward", "hopper_fp8_forward"):
        refuses(f"{name}, unknown mask", lambda name=name: getattr(ops, name)(q, k, v, mask="diagonal"), "mask", "diagonal")

    for mask in ("none", "causal_bottom_right", "causal_top_left"):
        learning = [t.clone().requires_grad_() for t in (q, k, v)]
        exact = [t.double().requires_grad_() for t in (q, k, v)]
        expected_out, expected_lse = reference(*exact, mask=mask)
        out = ops.attention(*learning, mask)
        close(f"attention, {mask}", out, expected_out, 1e-5)
        dout = torch.randn_like(q)
        for name, got, expected in zip("qkv", torch.autograd.grad(out, learning, dout),
                                       torch.autograd.grad(expected_out, exact, dout.double())):
            close(f"attention d{name}, {mask}", got, expected, 1e-4)
        out, lse = ops.attention_with_lse(q, k, v, mask)
        close(f"attention_with_lse lse, {mask}", lse, expected_lse, 1e-5)
        dq, _, _ = ops.attention_backward(dout, q, k, v, out, lse, None, mask)
        close(f"attention_backward dq, {mask}", dq, torch.autograd.grad(reference(*exact, mask=mask)[0], exact, dout.double())[0], 1e-4)
    print("  " + ops.attention_rung(*halves, "none")[2].replace("\n", "\n  "))

    tested = set(full) | {"safe_softmax", "online_softmax", "block_softmax", "causal_forward", "mma_forward", "hopper_forward", "hopper_fp8_forward",
                          "merge_partials", "flash_decode_parts", "plain_backward", "attention", "attention_with_lse", "attention_backward",
                          "attention_rung"}
    registered = {schema.name.split("::")[1] for schema in torch._C._jit_get_all_schemas()
                  if schema.name.startswith("flash_ladder::")}
    assert registered == tested, f"registered but not tested here, or the reverse: {sorted(registered ^ tested)}"
    print("every entry answers")


if __name__ == "__main__":
    main(*sys.argv[1:])
