"""Modules around the operators."""

from typing import Literal

import torch

__all__ = ["MultiHeadAttention"]


class MultiHeadAttention(torch.nn.Module):
    """Multi-head attention (Vaswani et al. 2017, section 3.2.2) by torch.ops.flash_ladder.attention: what a layer of a
    transformer does with its tokens.

        width     numbers that stand for a token, a multiple of `heads`; D is width / heads, 256 at most
        kv_heads  heads of keys and values, of which `heads` is a multiple (grouped heads); as many where it is None
        mask      which keys a query sees
        bias      whether the four products add something

    Its parts are called query, key, value and out, each a torch.nn.Linear.
    """

    def __init__(self, width: int, heads: int, *, kv_heads: int | None = None,
                 mask: Literal["none", "causal_bottom_right", "causal_top_left"] = "none", bias: bool = True) -> None:
        super().__init__()
        kv_heads = heads if kv_heads is None else kv_heads
        if heads < 1 or width % heads:
            raise ValueError(f"heads: it is {heads}; accepted are numbers that divide the width, {width}")
        if kv_heads < 1 or heads % kv_heads:
            raise ValueError(f"kv_heads: it is {kv_heads}; accepted are numbers that divide the heads, {heads}")
        self.head_dim = width // heads
        self.mask = mask
        self.query = torch.nn.Linear(width, width, bias)
        self.key = torch.nn.Linear(width, kv_heads * self.head_dim, bias)
        self.value = torch.nn.Linear(width, kv_heads * self.head_dim, bias)
        self.out = torch.nn.Linear(width, width, bias)

    def forward(self, x: torch.Tensor, context: torch.Tensor | None = None) -> torch.Tensor:
        """Every token of x [B, Sq, width] looks at those of context [B, Sk, width], or at those of x; [B, Sq, width]."""
        context = x if context is None else context
        # [B, S, H * D] -> [B, H, S, D], rows of a head between those of the others: no copy.
        q, k, v = (product.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
                   for product in (self.query(x), self.key(context), self.value(context)))
        return self.out(torch.ops.flash_ladder.attention(q, k, v, self.mask, None).transpose(1, 2).flatten(2))
