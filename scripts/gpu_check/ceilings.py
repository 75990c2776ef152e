#!/usr/bin/env python3
"""Measures this device through PyTorch, as one line of JSON: a copy, products of the shapes of GPT-2 1.5B and Llama 3 8B,
and scaled_dot_product_attention by cuDNN with and without deterministic algorithms. Medians, random operands.

  scripts/gpu_check/ceilings.py [--device cuda|cpu]      cpu: small shapes, to try the script
"""
import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as F

# name: outputs and inputs of a layer, multiplied with 8192 tokens
LAYERS = {
    "gpt2-xl qkv": (4800, 1600), "gpt2-xl projection": (1600, 1600), "gpt2-xl up": (6400, 1600), "gpt2-xl down": (1600, 6400),
    "llama-3-8b qkv": (6144, 4096), "llama-3-8b projection": (4096, 4096), "llama-3-8b gate_up": (28672, 4096), "llama-3-8b down": (4096, 14336),
}
# heads, kv heads, head size, (batch, length), ...
ATTENTION = {"gpt2-xl": (25, 25, 64, ((8, 1024), (2, 4096), (1, 8192))), "llama-3-8b": (32, 8, 128, ((8, 1024), (2, 4096), (1, 8192)))}


class Bench:
    def __init__(self, device):
        self.device, self.gpu = device, device == "cuda"
        self.rows, self.refused = [], []
        self.scale = 1 if self.gpu else 16  # divisor of shapes on a CPU

    def random(self, *shape):
        return torch.randn(*shape, device=self.device, dtype=torch.bfloat16)

    def seconds(self, work):
        """Median time of a call on the device; two calls warm up."""
        work()
        work()
        times = []
        for _ in range(10 if self.gpu else 2):
            if self.gpu:
                a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                a.record()
                work()
                b.record()
                b.synchronize()
                times.append(a.elapsed_time(b) / 1e3)
            else:
                begin = time.perf_counter()
                work()
                times.append(time.perf_counter() - begin)
        return statistics.median(times)

    def add(self, name, value, unit):
        self.rows.append({"name": name, "value": value, "unit": unit})

    def copy(self):
        elements = (1 << 31) // (self.scale * self.scale)
        x = torch.randint(0, 255, (elements,), device=self.device, dtype=torch.uint8)
        y = torch.empty_like(x)
        self.add("copy", 2 * elements / self.seconds(lambda: y.copy_(x)) / 1e9, "GB/s")

    def products(self):
        tokens = 8192 // self.scale
        n = 8192 // self.scale
        a, b = self.random(n, n), self.random(n, n)
        self.add("product 8192x8192x8192", 2 * n**3 / self.seconds(lambda: a @ b) / 1e12, "TFLOP/s")
        for name, (outputs, inputs) in LAYERS.items():
            outputs, inputs = outputs // self.scale, inputs // self.scale
            x, w, dy = self.random(tokens, inputs), self.random(outputs, inputs), self.random(tokens, outputs)
            flops = 2 * tokens * outputs * inputs
            self.add(f"{name}, forward", flops / self.seconds(lambda x=x, w=w: F.linear(x, w)) / 1e12, "TFLOP/s")
            self.add(f"{name}, weight gradient", flops / self.seconds(lambda x=x, dy=dy: dy.t() @ x) / 1e12, "TFLOP/s")

    def attention(self):
        for model, (heads, kv_heads, d, shapes) in ATTENTION.items():
            for batch, length in shapes:
                length //= self.scale
                q, k, v = (self.random(batch, n, length, d).requires_grad_() for n in (heads, kv_heads, kv_heads))
                flops = 4 * batch * heads * d * length * (length + 1) / 2
                for deterministic in (True, False):
                    name = f"attention {model}, B={batch} T={length * self.scale}, {'deterministic' if deterministic else 'by chance'}"
                    try:
                        self.both_passes(name, flops, deterministic, q, k, v)
                    except (RuntimeError, AttributeError) as e:  # also a PyTorch that is too old for it
                        self.refused.append((name, str(e).splitlines()[0][:200]))

    def both_passes(self, name, flops, deterministic, q, k, v):
        torch.use_deterministic_algorithms(deterministic)
        if hasattr(torch.utils, "deterministic"):
            torch.utils.deterministic.fill_uninitialized_memory = False  # it would be included in the times
        grouped = {"enable_gqa": True} if k.shape[1] != q.shape[1] and self.gpu else {}
        if k.shape[1] != q.shape[1] and not grouped:
            k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1).detach().requires_grad_() for x in (k, v))

        def forward():
            if not self.gpu:
                return F.scaled_dot_product_attention(q, k, v, is_causal=True)
            from torch.nn.attention import SDPBackend, sdpa_kernel
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                return F.scaled_dot_product_attention(q, k, v, is_causal=True, **grouped)
        o = forward()
        d_o = torch.randn_like(o)
        self.add(f"{name}, forward", flops / self.seconds(forward) / 1e12, "TFLOP/s")
        backward = self.seconds(lambda: torch.autograd.grad(o, (q, k, v), d_o, retain_graph=True))
        self.add(f"{name}, backward", 2.5 * flops / backward / 1e12, "TFLOP/s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    bench = Bench(parser.parse_args().device)
    bench.products()  # first, so that an idle GPU reaches its clocks
    bench.copy()
    bench.attention()
    name = torch.cuda.get_device_name() if bench.gpu else "cpu"
    print(json.dumps({"torch": torch.__version__, "device": name, "rows": bench.rows, "refused": bench.refused}))


if __name__ == "__main__":
    main()
