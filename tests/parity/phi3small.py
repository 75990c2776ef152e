"""A slow reference implementation of phi-3-small from its published description, one token, head and block at a time."""
import math

import torch

CONFIG = {"architectures": ["Phi3SmallForCausalLM"], "model_type": "phi3small", "hidden_size": 48, "num_hidden_layers": 4,
          "num_attention_heads": 6, "num_key_value_heads": 2, "ff_intermediate_size": 40, "vocab_size": 203,
          "max_position_embeddings": 128, "layer_norm_epsilon": 1e-5, "hidden_act": "gegelu", "gegelu_limit": 0.7,
          "initializer_range": 0.02, "tie_word_embeddings": True, "rope_embedding_base": 1000.0, "rope_position_scale": 0.5,
          "mup_use_scaling": True, "mup_embedding_multiplier": 10.0, "mup_width_multiplier": 8.0, "mup_attn_multiplier": 1.0,
          "dummy_token_indices": [3, 77, 202], "dense_attention_every_n_layers": 2, "blocksparse_block_size": 4,
          "blocksparse_num_local_blocks": 2, "blocksparse_vert_stride": 3, "blocksparse_homo_head_pattern": False,
          "embedding_dropout_prob": 0.0, "attention_dropout_prob": 0.0, "ffn_dropout_prob": 0.0}


def make_weights(c, seed=5):
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape, around=0.0, std=0.08):
        return torch.randn(*shape, generator=generator) * std + around

    h, f = c["hidden_size"], c["ff_intermediate_size"]
    d = h // c["num_attention_heads"]
    w = {"model.embed_tokens.weight": normal(c["vocab_size"], h, std=0.2)}
    for n in range(c["num_hidden_layers"]):
        p = f"model.layers.{n}."
        rows = (c["num_attention_heads"] + 2 * c["num_key_value_heads"]) * d
        for name, out, inner in (("self_attn.query_key_value", rows, h), ("self_attn.dense", h, h), ("mlp.up_proj", 2 * f, h),
                                 ("mlp.down_proj", h, f)):
            w[f"{p}{name}.weight"], w[f"{p}{name}.bias"] = normal(out, inner), normal(out)
        for name in ("input_layernorm", "post_attention_layernorm"):
            w[f"{p}{name}.weight"], w[f"{p}{name}.bias"] = normal(h, around=1.0), normal(h)
    w["model.final_layernorm.weight"], w["model.final_layernorm.bias"] = normal(h, around=1.0), normal(h)
    return w


def norm(x, w, name, eps):
    return torch.nn.functional.layer_norm(x, x.shape[-1:], w[f"{name}.weight"], w[f"{name}.bias"], eps)


def rotate(x, position, c):
    """One head's vector at one position: halves, angles position * scale / base^(2i/d)."""
    half = len(x) // 2
    angles = torch.tensor([position * c["rope_position_scale"] * c["rope_embedding_base"] ** (-2 * i / len(x)) for i in range(half)])
    low, high = x[:half], x[half:]
    return torch.cat([low * angles.cos() - high * angles.sin(), high * angles.cos() + low * angles.sin()])


def sees(c, layer, head, q, k):
    if k > q:
        return False
    if (layer + 1) % c["dense_attention_every_n_layers"] == 0:
        return True
    stride = c["blocksparse_vert_stride"]
    qb, kb = q // c["blocksparse_block_size"], k // c["blocksparse_block_size"]
    step = 0 if c["blocksparse_homo_head_pattern"] else max(1, stride // c["num_attention_heads"])
    return qb - kb < c["blocksparse_num_local_blocks"] or (kb + head * step + 1) % stride == 0


def attention(x, w, p, layer, c):
    length, h = x.shape
    heads, kv_heads = c["num_attention_heads"], c["num_key_value_heads"]
    d, group = h // heads, heads // kv_heads
    # Rows of the fused projection: for each kv head its query heads, then its key, then its value.
    qkv = (x @ w[f"{p}query_key_value.weight"].T + w[f"{p}query_key_value.bias"]).view(length, kv_heads, group + 2, d)
    outputs = []
    for head in range(heads):
        kv = head // group
        q = torch.stack([rotate(qkv[t, kv, head % group], t, c) for t in range(length)])
        k = torch.stack([rotate(qkv[t, kv, group], t, c) for t in range(length)])
        scores = q @ k.T * (c["mup_attn_multiplier"] / d)
        mask = torch.tensor([[sees(c, layer, head, i, j) for j in range(length)] for i in range(length)])
        outputs.append(scores.masked_fill(~mask, -math.inf).softmax(-1) @ qkv[:, kv, group + 1])
    return torch.cat(outputs, -1) @ w[f"{p}dense.weight"].T + w[f"{p}dense.bias"]


def mlp(x, w, p, c):
    up = x @ w[f"{p}up_proj.weight"].T + w[f"{p}up_proj.bias"]
    limit = c["gegelu_limit"]
    a, b = up[:, 0::2].clamp(max=limit), up[:, 1::2].clamp(-limit, limit)
    return a * torch.sigmoid(1.702 * a) * (b + 1) @ w[f"{p}down_proj.weight"].T + w[f"{p}down_proj.bias"]


def logits(w, tokens, c):
    """[T] ids -> [T, V]; dummy ids at minus infinity."""
    eps = c["layer_norm_epsilon"]
    x = c["mup_embedding_multiplier"] * w["model.embed_tokens.weight"][tokens]
    for n in range(c["num_hidden_layers"]):
        p = f"model.layers.{n}."
        x = x + attention(norm(x, w, f"{p}input_layernorm", eps), w, f"{p}self_attn.", n, c)
        x = x + mlp(norm(x, w, f"{p}post_attention_layernorm", eps), w, f"{p}mlp.", c)
    out = norm(x, w, "model.final_layernorm", eps) @ w["model.embed_tokens.weight"].T / c["mup_width_multiplier"]
    dummy = torch.zeros(c["vocab_size"], dtype=torch.bool)
    dummy[c["dummy_token_indices"]] = True
    return out.masked_fill(dummy, -math.inf)
