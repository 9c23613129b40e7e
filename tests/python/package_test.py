"""`import flash_ladder` from the top of the repository: its functions, what `attention` chooses, and its words where the
library is missing.

  python3 package_test.py REPOSITORY PATH/libflash_ladder.so

Exits with 77, "not run", where there is no PyTorch of the version that the library was built with.
"""

import inspect
import os
import subprocess
import sys
import tempfile
import typing
import unittest

REPOSITORY, LIBRARY = sys.argv[1:3]


def not_run(reason):
    print(f"NOT RUN: Python package: {reason}")
    sys.exit(77)


try:
    import torch
except ImportError as error:
    not_run(f"no PyTorch for {sys.executable} ({error})")
try:
    torch.ops.load_library(LIBRARY)
except OSError as error:
    not_run(f"this PyTorch ({torch.__version__}) cannot load the library: {error}")

os.environ["LADDER_BUILD_DIR"] = os.path.dirname(LIBRARY)
sys.path.insert(0, REPOSITORY)
import flash_ladder  # noqa: E402

SCHEMAS = {schema.name.split("::")[1]: schema for schema in torch._C._jit_get_all_schemas()
           if schema.name.startswith("flash_ladder::")}


def problem(queries, keys=70):
    generator = torch.Generator().manual_seed(queries)
    return [torch.randn(2, heads, length, 24, generator=generator) for heads, length in ((4, queries), (2, keys), (2, keys))]


class Package(unittest.TestCase):
    def test_it_is_the_repositorys_with_this_library(self):
        self.assertEqual(flash_ladder.library_path, LIBRARY)
        self.assertEqual(flash_ladder.__file__, os.path.join(REPOSITORY, "common/python/flash_ladder/__init__.py"))

    def test_every_operator_has_a_function_of_the_same_arguments(self):
        functions = {name for name in flash_ladder.__all__
                     if inspect.isfunction(getattr(flash_ladder, name))}
        self.assertEqual(functions, set(SCHEMAS))
        for name in functions:
            parameters = list(inspect.signature(getattr(flash_ladder, name)).parameters.values())
            arguments = SCHEMAS[name].arguments
            self.assertEqual([p.name for p in parameters], [a.name for a in arguments], name)
            for p, a in zip(parameters, arguments):
                self.assertEqual(p.kind is p.KEYWORD_ONLY, a.kwarg_only, f"{name}: {p.name}")
                default = None if p.default is p.empty else p.default
                self.assertEqual(default, a.default_value, f"{name}: {p.name}")

    def test_everything_public_has_types_and_a_docstring(self):
        for name in flash_ladder.__all__:
            member = getattr(flash_ladder, name)
            if inspect.isfunction(member):
                self.assertTrue(member.__doc__, name)
                typed = set(typing.get_type_hints(member))
                self.assertEqual(typed, {*inspect.signature(member).parameters, "return"}, name)
        self.assertTrue(os.path.exists(os.path.join(os.path.dirname(flash_ladder.__file__), "py.typed")))

    def test_attention_is_right_whichever_rung_it_chooses(self):
        chosen = set()
        for queries in (1, 3, 16, 17, 40):
            for mask in ("none", "causal_bottom_right", "causal_top_left"):
                q, k, v = problem(queries)
                chosen.add(flash_ladder.attention_rung(q, k, v, mask).forward)
                for scale in (None, 0.3):
                    out, lse = flash_ladder.attention_with_lse(q, k, v, mask, scale)
                    self.assertTrue(torch.equal(out, flash_ladder.attention(q, k, v, mask, scale)))
                    i, j = torch.arange(queries)[:, None], torch.arange(70)[None, :]
                    seen = {"none": j >= 0, "causal_bottom_right": j <= i + 70 - queries, "causal_top_left": j <= i}[mask]
                    k2, v2 = (t.double().repeat_interleave(2, 1) for t in (k, v))
                    s = (q.double() @ k2.mT * (24 ** -0.5 if scale is None else scale)).masked_fill(~seen, -torch.inf)
                    torch.testing.assert_close(lse.double(), torch.logsumexp(s, -1), rtol=1e-5, atol=1e-5)
                    torch.testing.assert_close(out.double(), torch.softmax(s, -1) @ v2, rtol=1e-5, atol=1e-5)
        self.assertEqual(chosen, {"flash_decode", "fa2_forward", "causal_forward"})

    def test_what_it_chooses(self):
        few, many = problem(16), problem(17)

        def forward(tensors, mask="none"):
            return flash_ladder.attention_rung(*tensors, mask).forward
        self.assertEqual(forward(few), "flash_decode")
        self.assertEqual(forward(few, "causal_bottom_right"), "flash_decode")
        self.assertEqual(forward(few, "causal_top_left"), "causal_forward")
        self.assertEqual(forward(many), "fa2_forward")
        self.assertEqual(forward(many, "causal_bottom_right"), "causal_forward")
        for dtype in (torch.float16, torch.bfloat16):
            halves = [t.to(dtype) for t in many]
            self.assertEqual(forward(halves, "causal_top_left"), "mma_forward")
            self.assertEqual(forward([t.to(dtype) for t in few]), "flash_decode")
            out, lse = flash_ladder.attention_with_lse(*halves, "causal_top_left")
            expected = flash_ladder.attention_with_lse(*(t.float() for t in halves), "causal_top_left")
            torch.testing.assert_close(out.float(), expected.out, rtol=2e-2, atol=2e-2)
            torch.testing.assert_close(lse, expected.lse, rtol=1e-4, atol=1e-4)
        with self.assertRaisesRegex(ValueError, "diagonal.*causal_top_left"):
            flash_ladder.attention(*few, mask="diagonal")

    def test_it_says_why(self):
        rung = flash_ladder.attention_rung(*problem(17), "causal_top_left")
        self.assertEqual((rung.forward, rung.backward), ("causal_forward", "plain_backward"))
        for line in ("forward causal_forward: ", "\n  not flash_decode: there are 17 queries", "\n  not mma_forward: tensor cores take 16 bits",
                     "\n  not fa2_forward: it knows no masks", "\nbackward plain_backward: "):
            self.assertIn(line, rung.why)

    def test_its_gradients_are_those_of_plain_attention(self):
        for mask in ("none", "causal_bottom_right", "causal_top_left"):
            for queries in (3, 40, 90):
                ours = [t.requires_grad_() for t in problem(queries)]
                plain = [t.detach().double().requires_grad_() for t in ours]
                dout = torch.randn(ours[0].shape, generator=torch.Generator().manual_seed(1))
                dlse = torch.randn(ours[0].shape[:3], generator=torch.Generator().manual_seed(2))
                i, j = torch.arange(queries)[:, None], torch.arange(70)[None, :]
                seen = {"none": j >= 0, "causal_bottom_right": j <= i + 70 - queries, "causal_top_left": j <= i}[mask]
                blind = ~seen.any(-1)
                s = (plain[0] @ plain[1].repeat_interleave(2, 1).mT * 0.3).masked_fill(~seen, -1e30)
                p = torch.softmax(s, -1) * seen
                expected = torch.autograd.grad((p @ plain[2].repeat_interleave(2, 1) * dout).sum()
                                               + (torch.logsumexp(s, -1) * dlse * ~blind).sum(), plain)
                out, lse = flash_ladder.attention_with_lse(*ours, mask, 0.3)
                for got, want in zip(torch.autograd.grad([out, lse], ours, [dout, dlse]), expected):
                    torch.testing.assert_close(got.double(), want, rtol=1e-4, atol=1e-4)

    def test_there_is_no_second_derivative(self):
        q, k, v = (t.requires_grad_() for t in problem(20))
        dq, = torch.autograd.grad(flash_ladder.attention(q, k, v).sum(), [q], create_graph=True)
        with self.assertRaisesRegex(RuntimeError, "flash_ladder::attention: it has no second derivative"):
            dq.sum().backward()

    def test_multi_head_attention_is_that_of_pytorch(self):
        torch.manual_seed(3)
        theirs = torch.nn.MultiheadAttention(48, 3, batch_first=True)
        torch.nn.init.normal_(theirs.in_proj_bias)
        ours = flash_ladder.MultiHeadAttention(48, 3)
        for part, weight, bias in zip((ours.query, ours.key, ours.value), theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3)):
            part.weight.data, part.bias.data = weight.detach().clone(), bias.detach().clone()
        ours.out.load_state_dict(theirs.out_proj.state_dict())
        x, context = torch.randn(2, 21, 48), torch.randn(2, 33, 48)
        for keys in (x, context):
            got, expected = ours(x, keys), theirs(x, keys, keys, need_weights=False)[0]
            torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
            weights = [part.weight for part in (ours.query, ours.key, ours.value, ours.out)]
            gradients = torch.autograd.grad(got.square().sum(), weights)
            joined, out = torch.autograd.grad(expected.square().sum(), [theirs.in_proj_weight, theirs.out_proj.weight])
            for ours_, theirs_ in zip(gradients, [*joined.chunk(3), out]):
                torch.testing.assert_close(ours_, theirs_, rtol=1e-4, atol=1e-4)

    def test_multi_head_attention_with_grouped_heads_and_a_mask(self):
        torch.manual_seed(4)
        grouped = flash_ladder.MultiHeadAttention(48, 6, kv_heads=2, mask="causal_bottom_right", bias=False)
        whole = flash_ladder.MultiHeadAttention(48, 6, mask="causal_bottom_right", bias=False)
        for name in ("query", "out"):
            getattr(whole, name).load_state_dict(getattr(grouped, name).state_dict())
        for name in ("key", "value"):
            rows = getattr(grouped, name).weight.detach().unflatten(0, (2, 8))
            getattr(whole, name).weight.data = rows.repeat_interleave(3, 0).flatten(0, 1)
        x = torch.randn(2, 20, 48)
        torch.testing.assert_close(grouped(x), whole(x), rtol=1e-4, atol=1e-5)
        changed = x.clone()
        changed[:, 12:] = 5
        self.assertTrue(torch.equal(grouped(changed)[:, :12], grouped(x)[:, :12]))
        for arguments, words in (((48, 5), "heads: it is 5.*48"), ((48, 6, 4), "kv_heads: it is 4.*6")):
            with self.assertRaisesRegex(ValueError, words):
                flash_ladder.MultiHeadAttention(*arguments[:2], kv_heads=arguments[2] if len(arguments) > 2 else None)

    def test_bad_input_is_refused_in_words(self):
        q, k, v = problem(20)
        with self.assertRaisesRegex(ValueError, "q: the dtype is Double; float32, float16 and bfloat16"):
            flash_ladder.attention(q.double(), k, v)
        with self.assertRaisesRegex(ValueError, r"q: the shape is \[4, 20, 24\] of rank 3; rank 4 is accepted"):
            flash_ladder.attention(q[0], k, v)

    def test_a_gradient_is_not_lost_silently(self):
        for place, name in enumerate("qkv"):
            tensors = problem(20)
            tensors[place].requires_grad_()
            with self.assertRaisesRegex(ValueError, f"{name}: it requires grad.*no backward pass.*flash_ladder::attention has.*{name}.detach()"):
                flash_ladder.fa2_forward(*tensors)
            self.assertTrue(flash_ladder.attention(*tensors).requires_grad)
            with torch.no_grad():
                self.assertFalse(flash_ladder.fa2_forward(*tensors).out.requires_grad)
                self.assertFalse(flash_ladder.attention(*tensors).requires_grad)
        x = torch.randn(3, 5, requires_grad=True)
        with self.assertRaisesRegex(ValueError, "x: it requires grad"):
            flash_ladder.block_softmax(x)

    def test_meta_tensors_give_shapes(self):
        q, k, v = (t.to("meta") for t in problem(20))
        out, lse = flash_ladder.attention_with_lse(q.half(), k.half(), v.half())
        self.assertEqual(flash_ladder.attention(q, k, v).shape, q.shape)
        self.assertEqual([d.shape for d in flash_ladder.attention_backward(q, q, k, v, q, q[..., 0])], [q.shape, k.shape, v.shape])
        self.assertEqual((out.shape, out.dtype, out.device.type), (q.shape, torch.float16, "meta"))
        self.assertEqual((lse.shape, lse.dtype), (q.shape[:3], torch.float32))
        out, lse = flash_ladder.flash_decode_parts(q, k, v, splits=5)
        self.assertEqual((out.shape, lse.shape), ((5, *q.shape), (5, *q.shape[:3])))
        out, lse = flash_ladder.merge_partials(out, lse)
        self.assertEqual((out.shape, lse.shape), (q.shape, q.shape[:3]))
        self.assertEqual(flash_ladder.safe_softmax(torch.empty(3, 5, device="meta")).shape, (3, 5))
        with self.assertRaisesRegex(ValueError, "splits.*pass a number"):
            flash_ladder.flash_decode_parts(q, k, v)

    def test_without_a_library_it_says_what_to_do(self):
        # Torch first, then nothing but the repository on the path: another flash_ladder may be installed here.
        program = "import torch, typing, pathlib, sys; sys.path[1:] = []; import flash_ladder"
        with tempfile.TemporaryDirectory() as folder:
            def said():
                return subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True,
                                      env={**os.environ, "LADDER_BUILD_DIR": folder}).stderr
            missing = said()
            for words in ("ImportError", folder, "./ladder test", "pip install ."):
                self.assertIn(words, missing)
            with open(os.path.join(folder, "libflash_ladder.so"), "w") as broken:
                broken.write("not a library")
            self.assertIn("built with another one", said())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
