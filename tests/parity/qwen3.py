"""A slow reference implementation of Qwen3 (dense) from its published description, one token and one head at a time."""
import math

import torch

CONFIG = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 48, "intermediate_size": 80,
          "num_hidden_layers": 3, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 12, "vocab_size": 211,
          "max_position_embeddings": 128, "rms_norm_eps": 1e-6, "hidden_act": "silu", "initializer_range": 0.02,
          "tie_word_embeddings": False, "attention_bias": False, "attention_dropout": 0.0, "rope_theta": 1000000.0,
          "rope_scaling": None, "use_sliding_window": False}


def make_weights(c, seed=11):
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape, around=0.0, std=0.08):
        return torch.randn(*shape, generator=generator) * std + around

    h, f, d = c["hidden_size"], c["intermediate_size"], c["head_dim"]
    q_rows, kv_rows = c["num_attention_heads"] * d, c["num_key_value_heads"] * d
    w = {"model.embed_tokens.weight": normal(c["vocab_size"], h)}
    for n in range(c["num_hidden_layers"]):
        p = f"model.layers.{n}."
        for name, out, inner in (("self_attn.q_proj", q_rows, h), ("self_attn.k_proj", kv_rows, h), ("self_attn.v_proj", kv_rows, h),
                                 ("self_attn.o_proj", h, q_rows), ("mlp.gate_proj", f, h), ("mlp.up_proj", f, h),
                                 ("mlp.down_proj", h, f)):
            w[f"{p}{name}.weight"] = normal(out, inner)
        for name in ("self_attn.q_norm", "self_attn.k_norm"):
            w[f"{p}{name}.weight"] = normal(d, around=1.0, std=0.3)
        for name in ("input_layernorm", "post_attention_layernorm"):
            w[f"{p}{name}.weight"] = normal(h, around=1.0)
    w["model.norm.weight"] = normal(h, around=1.0)
    if not c["tie_word_embeddings"]:
        w["lm_head.weight"] = normal(c["vocab_size"], h)
    return w


def norm(x, gain, c):
    return gain * x / (x.square().mean(-1, keepdim=True) + c["rms_norm_eps"]).sqrt()


def rotate(x, position, c):
    """One head's vector at one position: halves, angles position / base^(2i/d)."""
    half = len(x) // 2
    angles = torch.tensor([position * c["rope_theta"] ** (-2 * i / len(x)) for i in range(half)])
    low, high = x[:half], x[half:]
    return torch.cat([low * angles.cos() - high * angles.sin(), high * angles.cos() + low * angles.sin()])


def attention(x, w, p, c):
    d, group = c["head_dim"], c["num_attention_heads"] // c["num_key_value_heads"]

    def head_of(name, head, t):
        rows = slice(head * d, (head + 1) * d)
        return w[f"{p}{name}_proj.weight"][rows] @ x[t]

    outputs = []
    for head in range(c["num_attention_heads"]):
        kv, length = head // group, len(x)
        # The norm is over each head by itself, and comes before the rotation.
        q = torch.stack([rotate(norm(head_of("q", head, t), w[f"{p}q_norm.weight"], c), t, c) for t in range(length)])
        k = torch.stack([rotate(norm(head_of("k", kv, t), w[f"{p}k_norm.weight"], c), t, c) for t in range(length)])
        v = torch.stack([head_of("v", kv, t) for t in range(length)])
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        outputs.append((q @ k.T / math.sqrt(d)).masked_fill(future, -math.inf).softmax(-1) @ v)
    return torch.cat(outputs, -1) @ w[f"{p}o_proj.weight"].T


def mlp(x, w, p):
    gate, up = x @ w[f"{p}gate_proj.weight"].T, x @ w[f"{p}up_proj.weight"].T
    return (gate * torch.sigmoid(gate) * up) @ w[f"{p}down_proj.weight"].T


def logits(w, tokens, c):
    """[T] ids -> [T, V]."""
    x = w["model.embed_tokens.weight"][tokens]
    for n in range(c["num_hidden_layers"]):
        p = f"model.layers.{n}."
        x = x + attention(norm(x, w[f"{p}input_layernorm.weight"], c), w, f"{p}self_attn.", c)
        x = x + mlp(norm(x, w[f"{p}post_attention_layernorm.weight"], c), w, f"{p}mlp.")
    head = "model.embed_tokens.weight" if c["tie_word_embeddings"] else "lm_head.weight"
    return norm(x, w["model.norm.weight"], c) @ w[head].T
