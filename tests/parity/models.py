"""Tiny random models of every family that transformers has."""
import torch
from transformers import (GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM,
                          Phi3Config, Phi3ForCausalLM, Qwen2Config, Qwen2ForCausalLM)

VOCAB = 211  # odd, so that the vocabulary is padded


def randomize(model):
    """Larger weights than the usual init, biases and gains included, so that every term shows in the logits."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            gain = p.dim() == 1 and name.endswith("weight")
            p.copy_(torch.randn(p.shape) * (0.1 if gain else 0.08) + (1.0 if gain else 0.0))
    return model.eval()


def gpt2(**more):
    return GPT2LMHeadModel(GPT2Config(vocab_size=VOCAB, n_embd=48, n_layer=3, n_head=4, n_positions=96, resid_pdrop=0.0, embd_pdrop=0.0,
                                      attn_pdrop=0.0, bos_token_id=0, eos_token_id=0, **more))


def llama_config(**more):
    return dict(vocab_size=VOCAB, hidden_size=48, intermediate_size=80, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=6,
                max_position_embeddings=256, rms_norm_eps=1e-5, attn_implementation="eager") | more


LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32)


def llama2():
    return LlamaForCausalLM(LlamaConfig(**llama_config()))


def llama31():
    return LlamaForCausalLM(LlamaConfig(**llama_config(num_key_value_heads=2, rope_theta=500000.0, rope_scaling=LLAMA3)))


def llama32():
    return LlamaForCausalLM(LlamaConfig(**llama_config(num_key_value_heads=3, rope_theta=500000.0, tie_word_embeddings=True, head_dim=16,
                                                       rope_scaling=dict(LLAMA3, factor=32.0))))


def qwen2(**more):
    return Qwen2ForCausalLM(Qwen2Config(**llama_config(num_key_value_heads=2, rms_norm_eps=1e-6, rope_theta=1000000.0, **more)))


def mistral(**more):
    return MistralForCausalLM(MistralConfig(**llama_config(num_key_value_heads=2, head_dim=12, sliding_window=9, **more)))


def phi3(**more):
    return Phi3ForCausalLM(Phi3Config(**(llama_config(pad_token_id=VOCAB - 1, bos_token_id=1, eos_token_id=2, resid_pdrop=0.0, sliding_window=None,
                                                      original_max_position_embeddings=256) | more)))


def phi3_mini_4k():
    return phi3(sliding_window=9)


def longrope(half):
    return dict(type="longrope", short_factor=[1.0 + 0.05 * i for i in range(half)], long_factor=[1.1 + 0.9 * i for i in range(half)])


def phi3_mini_128k():
    return phi3(original_max_position_embeddings=32, max_position_embeddings=1024, rope_scaling=longrope(4))


def phi3_medium():
    return phi3(num_key_value_heads=2, hidden_size=72)


# name -> (maker, length of the sequences tried)
MODELS = {"gpt2": (gpt2, [40]), "gpt2-untied": (lambda: gpt2(tie_word_embeddings=False, n_inner=100), [40]), "llama-2": (llama2, [40]),
          "llama-3.1": (llama31, [70]), "llama-3.2": (llama32, [70]), "phi-3-mini-4k": (phi3_mini_4k, [8, 33]),
          "phi-3-mini-128k": (phi3_mini_128k, [32, 33, 60]), "phi-3-medium": (phi3_medium, [40]),
          "mistral": (mistral, [8, 33]), "qwen-2": (qwen2, [40]), "qwen-2-tied": (lambda: qwen2(tie_word_embeddings=True), [40])}


def make(name):
    torch.manual_seed(sum(map(ord, name)))
    return randomize(MODELS[name][0]())
