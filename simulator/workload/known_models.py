"""Models whose dimensions are published, by name."""

from __future__ import annotations

from collections.abc import Mapping

from faultline.simulator.workload.transformer import Transformer

GPT3_175B = Transformer(
    hidden=12_288,
    ffn_hidden=4 * 12_288,
    heads=96,
    layers=96,
    sequence_tokens=2_048,
    vocabulary=50_257,
    learned_positions=True,
    biases=True,
)
"""Brown et al. 2020, Language models are few-shot learners, table 2.1."""

LLAMA2_7B = Transformer(
    hidden=4_096,
    ffn_hidden=11_008,
    heads=32,
    layers=32,
    sequence_tokens=4_096,
    vocabulary=32_000,
    ffn_matrices=3,
    tied_embeddings=False,
)
"""Touvron et al. 2023, Llama 2: Open foundation and fine-tuned chat models."""

LLAMA3_8B = Transformer(
    hidden=4_096,
    ffn_hidden=14_336,
    heads=32,
    layers=32,
    sequence_tokens=8_192,
    vocabulary=128_256,
    key_value_heads=8,
    ffn_matrices=3,
    tied_embeddings=False,
)
"""Grattafiori et al. 2024, The Llama 3 herd of models, table 3."""

LLAMA3_70B = Transformer(
    hidden=8_192,
    ffn_hidden=28_672,
    heads=64,
    layers=80,
    sequence_tokens=8_192,
    vocabulary=128_256,
    key_value_heads=8,
    ffn_matrices=3,
    tied_embeddings=False,
)
"""Grattafiori et al. 2024, table 3."""

LLAMA3_405B = Transformer(
    hidden=16_384,
    ffn_hidden=53_248,
    heads=128,
    layers=126,
    sequence_tokens=8_192,
    vocabulary=128_256,
    key_value_heads=8,
    ffn_matrices=3,
    tied_embeddings=False,
)
"""Grattafiori et al. 2024, table 3."""

NTP_480B = Transformer(
    hidden=20_480,
    ffn_hidden=4 * 20_480,
    heads=128,
    layers=100,
    sequence_tokens=16_384,
    vocabulary=128_256,
)
"""Arfeen et al. 2025, Nonuniform tensor parallelism, arXiv 2504.06095.

The paper calls it 480B; with these dimensions the layers alone have 503 billion parameters. The
vocabulary is not stated; Llama 3's is assumed.
"""

KNOWN_MODELS: Mapping[str, Transformer] = {
    "gpt3-175b": GPT3_175B,
    "llama2-7b": LLAMA2_7B,
    "llama3-8b": LLAMA3_8B,
    "llama3-70b": LLAMA3_70B,
    "llama3-405b": LLAMA3_405B,
    "ntp-480b": NTP_480B,
}
"""All published models, by name."""
