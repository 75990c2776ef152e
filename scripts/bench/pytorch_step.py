#!/usr/bin/env python3
"""Times a GPT-2 training step in PyTorch: forward, backward, clipping to norm 1, AdamW, on random tokens.

The other side of `fptrain bench train`: same model, same step, same batch. Prints one JSON object. For a fair figure
set the threads and the environment as docs/benchmarks.md says (openblas-openmp, huge pages, ATEN_CPU_CAPABILITY).
"""
import argparse
import contextlib
import json
import math
import os
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

PRESETS = {  # layers, heads, width, vocabulary
    "gpt2": (12, 12, 768, 50257),
    "gpt-10m": (6, 6, 384, 65),
}


class Attention(nn.Module):
    def __init__(self, width, heads, seq_len, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        hidden = torch.ones(seq_len, seq_len, dtype=torch.bool).triu(1)
        self.register_buffer("hidden", hidden, persistent=False)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in self.qkv(x).split(c, dim=2))
        if hasattr(F, "scaled_dot_product_attention"):  # PyTorch 2
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout, is_causal=True)
        else:
            scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(c // self.heads))
            p = F.softmax(scores.masked_fill(self.hidden[:t, :t], float("-inf")), dim=-1)
            y = F.dropout(p, self.dropout) @ v
        return F.dropout(self.projection(y.transpose(1, 2).reshape(b, t, c)), self.dropout)


class Block(nn.Module):
    def __init__(self, width, heads, seq_len, dropout):
        super().__init__()
        self.dropout = dropout
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, seq_len, dropout)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + F.dropout(self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh")), self.dropout)


class Gpt2(nn.Module):
    def __init__(self, layers, heads, width, vocabulary, seq_len, dropout):
        super().__init__()
        self.dropout = dropout
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(seq_len, width)
        self.blocks = nn.ModuleList(Block(width, heads, seq_len, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids, targets):
        x = F.dropout(self.tokens(ids) + self.positions(torch.arange(ids.shape[1])), self.dropout)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", choices=PRESETS, default="gpt2")
    parser.add_argument("--vocabulary", type=int, default=0, help="0: that of the preset")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--seq-len", type=int, default=256)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--dtype", choices=("bf16", "fp32"), default="bf16", help="bf16: autocast, weights in fp32")
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    return parser.parse_args()


def main():
    args = parse_arguments()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    layers, heads, width, vocabulary = PRESETS[args.preset]
    vocabulary = args.vocabulary or vocabulary
    model = Gpt2(layers, heads, width, vocabulary, args.seq_len, args.dropout)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1)
    compute = torch.autocast("cpu", dtype=torch.bfloat16) if args.dtype == "bf16" else contextlib.nullcontext()
    seconds, cpu_seconds, losses = [], [], []
    for step in range(args.warmup + args.steps):
        ids = torch.randint(vocabulary, (args.batch, args.seq_len + 1))
        start, cpu_start = time.perf_counter(), time.process_time()
        with compute:
            loss = model(ids[:, :-1], ids[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        if step >= args.warmup:
            seconds.append(time.perf_counter() - start)
            cpu_seconds.append(time.process_time() - cpu_start)
    median = statistics.median(seconds)
    print(json.dumps({
        "model": args.preset, "torch": torch.__version__, "precision": args.dtype, "batch": args.batch,
        "seq_len": args.seq_len, "dropout": args.dropout, "threads": args.threads,
        "parameters": sum(p.numel() for p in model.parameters()), "step_ms": median * 1e3,
        "step_ms_all": [s * 1e3 for s in seconds], "cpu_ms": statistics.median(cpu_seconds) * 1e3,
        "tokens_per_s": args.batch * args.seq_len / median, "loss": losses[-1]}))


if __name__ == "__main__":
    main()
