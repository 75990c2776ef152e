#!/usr/bin/env python3
"""Times a training step of a GPT-2 or a Llama in PyTorch: forward, backward, clipping to norm 1, AdamW, on random tokens.

The counterpart of `fptrain bench train`: same model, same step, same batch. Prints one JSON object. For a fair figure on a
CPU set the threads and the environment as described in docs/benchmarks.md (openblas-openmp, huge pages, ATEN_CPU_CAPABILITY). On a
GPU the model is compiled (torch.compile), attention is scaled_dot_product_attention, and AdamW is the fused one. bf16 is
autocast: weights, their gradients and AdamW's moments are fp32, products and attention bf16.
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

# Vocabularies of the larger models are padded to a multiple of 128, as fptrain's are.
PRESETS = {
    "gpt2": {"layers": 12, "heads": 12, "width": 768, "vocabulary": 50257},
    "gpt-10m": {"layers": 6, "heads": 6, "width": 384, "vocabulary": 65},
    "gpt2-xl": {"layers": 48, "heads": 25, "width": 1600, "vocabulary": 50304},
    "llama-3.2-1b": {"layers": 16, "heads": 32, "kv_heads": 8, "width": 2048, "ffn": 8192, "vocabulary": 128256, "theta": 500000.0},
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


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x):
        y = x.float()
        return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * self.gain


class LlamaBlock(nn.Module):
    def __init__(self, width, heads, kv_heads, ffn, seq_len, theta):
        super().__init__()
        self.heads, self.kv_heads, self.d = heads, kv_heads, width // heads
        self.norm1, self.norm2 = RmsNorm(width), RmsNorm(width)
        self.qkv = nn.Linear(width, (heads + 2 * kv_heads) * self.d, bias=False)
        self.projection = nn.Linear(width, width, bias=False)
        self.gate_up, self.down = nn.Linear(width, 2 * ffn, bias=False), nn.Linear(ffn, width, bias=False)
        angles = torch.outer(torch.arange(seq_len).float(), theta ** (-torch.arange(0, self.d, 2).float() / self.d))
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def rotate(self, x):  # [b, heads, t, d]; the halves of a head are rotated
        low, high = x.float().chunk(2, dim=-1)
        return torch.cat((low * self.cos - high * self.sin, high * self.cos + low * self.sin), dim=-1).to(x.dtype)

    def forward(self, x):
        b, t, c = x.shape
        sizes = [n * self.d for n in (self.heads, self.kv_heads, self.kv_heads)]
        q, k, v = (y.view(b, t, -1, self.d).transpose(1, 2) for y in self.qkv(self.norm1(x)).split(sizes, dim=2))
        y = F.scaled_dot_product_attention(self.rotate(q), self.rotate(k), v, is_causal=True, enable_gqa=True)
        x = x + self.projection(y.transpose(1, 2).reshape(b, t, c))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Model(nn.Module):
    def __init__(self, preset, seq_len, dropout):
        super().__init__()
        self.dropout, width, heads = dropout, preset["width"], preset["heads"]
        self.tokens = nn.Embedding(preset["vocabulary"], width)
        if "theta" in preset:
            self.positions, self.norm = None, RmsNorm(width)
            blocks = (LlamaBlock(width, heads, preset["kv_heads"], preset["ffn"], seq_len, preset["theta"]) for _ in range(preset["layers"]))
        else:
            self.positions, self.norm = nn.Embedding(seq_len, width), nn.LayerNorm(width)
            blocks = (Block(width, heads, seq_len, dropout) for _ in range(preset["layers"]))
        self.blocks = nn.ModuleList(blocks)
        self.head = nn.Linear(width, preset["vocabulary"], bias=False)
        self.head.weight = self.tokens.weight
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids, targets):
        x = self.tokens(ids)
        if self.positions is not None:
            x = x + self.positions(torch.arange(ids.shape[1], device=ids.device))
        x = F.dropout(x, self.dropout)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", choices=PRESETS, default="gpt2")
    parser.add_argument("--vocabulary", type=int, default=0, help="0: that of the preset")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--accumulate", type=int, default=1, help="batches a step (default: 1)")
    parser.add_argument("--seq-len", type=int, default=256)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--dtype", choices=("bf16", "fp32"), default="bf16", help="bf16: autocast, weights in fp32")
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--compile", action="store_true", help="torch.compile on a CPU too")
    return parser.parse_args()


def main():
    args = parse_arguments()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    preset = dict(PRESETS[args.preset])
    preset["vocabulary"] = args.vocabulary or preset["vocabulary"]
    on_gpu = args.device == "cuda"
    with torch.device(args.device) if on_gpu else contextlib.nullcontext():
        model = Model(preset, args.seq_len, args.dropout)
    compiled = args.compile or on_gpu
    forward = torch.compile(model) if compiled else model
    fused = {"fused": True} if on_gpu else {}
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, **fused)
    compute = torch.autocast(args.device, dtype=torch.bfloat16) if args.dtype == "bf16" else contextlib.nullcontext()
    seconds, cpu_seconds, losses = [], [], []
    for step in range(args.warmup + args.steps):
        batches = [torch.randint(preset["vocabulary"], (args.batch, args.seq_len + 1)).to(args.device) for _ in range(args.accumulate)]
        start, cpu_start = time.perf_counter(), time.process_time()
        for ids in batches:
            with compute:
                loss = forward(ids[:, :-1], ids[:, 1:])
            (loss / args.accumulate if args.accumulate > 1 else loss).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        if on_gpu:
            torch.cuda.synchronize()
        if step >= args.warmup:
            seconds.append(time.perf_counter() - start)
            cpu_seconds.append(time.process_time() - cpu_start)
    median = statistics.median(seconds)
    print(json.dumps({
        "model": args.preset, "torch": torch.__version__, "precision": args.dtype, "batch": args.batch,
        "seq_len": args.seq_len, "accumulate": args.accumulate, "dropout": args.dropout, "threads": args.threads,
        "device": torch.cuda.get_device_name() if on_gpu else "cpu", "compiled": compiled,
        "peak_bytes": torch.cuda.max_memory_reserved() if on_gpu else None,
        "parameters": sum(p.numel() for p in model.parameters()), "step_ms": median * 1e3,
        "step_ms_all": [s * 1e3 for s in seconds], "cpu_ms": statistics.median(cpu_seconds) * 1e3,
        "tokens_per_s": args.accumulate * args.batch * args.seq_len / median, "loss": losses[-1]}))


if __name__ == "__main__":
    main()
