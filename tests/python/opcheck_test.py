"""Are the operators registered as PyTorch wants it? torch.library.opcheck says so, and torch.compile must not break on them.

  python3 opcheck_test.py PATH/libflash_ladder.so [cpu|cuda]

Exits with 77, "not run", where PyTorch has no opcheck (before 2.4) or is not the one that the library was built with, or
where there is no GPU to test on.
"""

import sys


def not_run(reason):
    print(f"NOT RUN: opcheck and torch.compile: {reason}")
    sys.exit(77)


try:
    import torch
except ImportError as error:
    not_run(f"no PyTorch for {sys.executable} ({error})")


def samples(device):
    """For each operator, calls of it: positional arguments, keyword arguments."""
    def random(*sizes, dtype=torch.float32):
        return torch.randn(*sizes, device=device, dtype=dtype)

    def problem(dtype=torch.float32, queries=33, keys=70):
        # No two sizes alike: torch.compile takes those for one size, and compiles again where they differ.
        return random(5, 4, queries, 24, dtype=dtype), random(5, 2, keys, 24, dtype=dtype), random(5, 2, keys, 24, dtype=dtype)

    def rows_between_heads(*tensors):  # [B, S, H, D] in memory, as most models have it
        return tuple(t.transpose(1, 2).contiguous().transpose(1, 2) for t in tensors)

    plain = [(problem(), {}), (problem(torch.bfloat16), {"scale": 0.3}), (rows_between_heads(*problem()), {})]
    blocked = plain + [(problem(torch.float16), {"block_rows": 32})]
    masks = [(problem(), {"mask": mask}) for mask in ("none", "causal_bottom_right", "causal_top_left")]
    halves = [(problem(torch.float16), {"mask": mask}) for mask in ("none", "causal_bottom_right", "causal_top_left")]
    halves += [(problem(torch.bfloat16), {"scale": 0.3}), (rows_between_heads(*problem(torch.bfloat16)), {})]
    lengths = torch.tensor([500, 13, 0, 128, 129], device=device)
    decode = [(problem(queries=1, keys=500), {"splits": 3, "mask": "causal_bottom_right"}),
              (rows_between_heads(*problem(queries=2, keys=500)), {"splits": 2}),
              (problem(torch.bfloat16, 1, 500), {"kv_lengths": lengths, "splits": 3})]
    planned = [(problem(queries=1, keys=500), {}), (problem(queries=1, keys=500), {"kv_lengths": lengths.int()})]
    def backward(queries=33, dtype=torch.float32):
        q, k, v = problem(dtype, queries)
        return torch.randn_like(q), q, k, v, torch.randn_like(q), random(*q.shape[:3])

    gradients = [(backward(), {}), (backward(dtype=torch.bfloat16), {"scale": 0.3, "mask": "causal_bottom_right"}),
                 (backward(), {"dlse": random(5, 4, 33), "mask": "causal_top_left"})]
    by_the_best = [(backward(), {"mask": "causal_bottom_right"}),
                   (backward(dtype=torch.bfloat16), {"dlse": random(5, 4, 33), "mask": "causal_top_left", "scale": 0.3})]

    def learns(call, *which):  # some of q, k, v require grad
        args, kwargs = call
        return tuple(a.detach().requires_grad_(i in which) for i, a in enumerate(args)), kwargs
    best = plain + masks[1:] + [(problem(queries=1, keys=500), {}), learns(plain[1], 0, 1, 2), learns(masks[1], 2)]
    softmax = [((random(5, 300),), {}), ((random(7, 64, dtype=torch.float16),), {}), ((random(5, 300)[:, :200],), {})]
    return {
        "safe_softmax": softmax, "online_softmax": softmax, "block_softmax": softmax,
        "online_attention": plain, "standard_attention": plain, "fa1_forward": plain, "fa2_forward": plain,
        "q_blocked_attention": blocked, "qv_blocked_attention": blocked, "causal_forward": plain + masks,
        "mma_forward": halves, "attention": best, "attention_with_lse": best,
        "attention_backward": by_the_best,
        "attention_rung": [],  # returns words, of which no graph is made
        **{name: halves if device == "cuda" and torch.cuda.get_device_capability() == (9, 0) else []  # they run nowhere else
           for name in ("hopper_forward", "hopper_fp8_forward")},
        "flash_decode": decode + planned, "flash_decode_parts": decode,
        "plain_backward": gradients,
        "merge_partials": [((random(3, 2, 4, 7, 24), random(3, 2, 4, 7)), {})],
    }


def tensors_of(results):
    return results if isinstance(results, tuple) else (results,)


def compiles(name, op, calls):
    """The same results out of torch.compile, in one graph, by every call; and out of the same graph for other sizes."""
    compiled = torch.compile(lambda args, kwargs: op(*args, **kwargs), fullgraph=True, dynamic=True, backend="aot_eager")

    def compare(args, kwargs):
        for got, expected in zip(tensors_of(compiled(args, kwargs)), tensors_of(op(*args, **kwargs))):
            assert torch.equal(got, expected), f"{name}: torch.compile gives something else"

    for args, kwargs in calls:
        compare(args, kwargs)
    if hasattr(torch.compiler, "set_stance"):  # since PyTorch 2.6
        with torch.compiler.set_stance("fail_on_recompile"):
            args, kwargs = calls[0]
            compare(tuple(torch.cat([a, a, a]) for a in args), kwargs)


def says(name, call, *needles):
    try:
        call()
    except Exception as error:  # noqa: BLE001 - torch.compile wraps exceptions in its own
        missing = [n for n in needles if n not in str(error)]
        assert not missing, f"{name}: the message lacks {missing}: {error}"
        return
    raise AssertionError(f"{name}: accepted")


def refuses_gradients(name, op, args, kwargs):
    """Each argument that requires grad, eagerly and compiled; and none of them where grad mode is off."""
    for i, argument in enumerate(args):
        learning = [a.detach().clone().requires_grad_(a is argument) for a in args]
        compiled = torch.compile(lambda *a: op(*a, **kwargs), fullgraph=True, backend="aot_eager")
        for call in (lambda: op(*learning, **kwargs), lambda: compiled(*learning)):
            says(f"{name}, argument {i}", call, "requires grad", "no backward pass", "flash_ladder::attention has one", ".detach()",
                 "torch.no_grad()")
        with torch.no_grad():
            op(*learning, **kwargs)


def learns_in_one_graph(device):
    """A step of a model around attention: torch.compile gives the same loss and gradients, in one graph."""
    attention = torch.ops.flash_ladder.attention

    def loss(x, weight):
        q, k, v = (x @ weight).unflatten(-1, (3, 2, 16)).permute(2, 0, 3, 1, 4)
        return attention(q, k, v, "causal_bottom_right").square().mean()

    x = torch.randn(3, 40, 8, device=device)
    for backend in ("eager", "aot_eager"):
        torch._dynamo.reset()
        results = []
        for function in (loss, torch.compile(loss, fullgraph=True, backend=backend)):
            weight = torch.linspace(-1, 1, 8 * 96, device=device).view(8, 96).requires_grad_()
            value = function(x, weight)
            value.backward()
            results.append((value.detach(), weight.grad))
        torch.testing.assert_close(*results)


def maps_over_examples(device):
    """torch.func: vmap works; what attention has no rule for is refused, never silently wrong."""
    attention = torch.ops.flash_ladder.attention
    q, k, v = (torch.randn(3, 2, 4, 33, 24, device=device) for _ in range(3))
    mapped = torch.func.vmap(lambda *a: attention(*a, "causal_top_left"))(q, k, v)
    torch.testing.assert_close(mapped, torch.stack([attention(*a, "causal_top_left") for a in zip(q, k, v)]))
    mapped = torch.func.vmap(lambda a, b: attention(a, b, b), in_dims=(1, None), out_dims=1)(q, k[:, 0])
    torch.testing.assert_close(mapped, torch.stack([attention(a, k[:, 0], k[:, 0]) for a in q.unbind(1)], 1))
    says("torch.func.grad", lambda: torch.func.grad(lambda a: attention(a, k[0], v[0]).sum())(q[0]), "autograd::Function", "functorch")


def main(library, device="cpu"):
    if not hasattr(torch.library, "opcheck"):
        not_run(f"this PyTorch ({torch.__version__}) has no torch.library.opcheck, which came with 2.4")
    if device == "cuda" and not torch.cuda.is_available():
        not_run("no GPU that PyTorch can use")
    try:
        torch.ops.load_library(library)
    except OSError as error:
        not_run(f"this PyTorch ({torch.__version__}) cannot load the library: {error}")
    torch.manual_seed(1)
    ops = torch.ops.flash_ladder
    calls = samples(device)
    registered = {schema.name.split("::")[1] for schema in torch._C._jit_get_all_schemas()
                  if schema.name.startswith("flash_ladder::")}
    assert registered == set(calls), f"registered but not tested here, or the reverse: {sorted(registered ^ set(calls))}"
    for name, sample in calls.items():
        if not sample:
            continue
        op = getattr(ops, name).default
        for args, kwargs in sample:
            torch.library.opcheck(op, args, kwargs)
        torch._dynamo.reset()
        compiles(name, op, sample)
        if not name.startswith("attention"):
            refuses_gradients(name, op, *sample[0])
        print(f"  {name}: {len(sample)} calls checked")

    learns_in_one_graph(device)
    maps_over_examples(device)
    print("every operator is registered as PyTorch wants it")


if __name__ == "__main__":
    main(*sys.argv[1:])
