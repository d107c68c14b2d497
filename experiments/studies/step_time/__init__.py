"""training steps predicted from kernels and links, beside published ones (Megatron-LM to GB200)."""
