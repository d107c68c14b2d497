"""Where the defaults of many fields come from."""

STUDY = "SPARe study (Lee et al. 2026, arXiv 2603.00357)"
SOUND = "choice: what is sound; the published simulator of SPARe takes"
LLAMA3 = "Grattafiori et al. 2024 (Llama 3, arXiv 2407.21783)"
NCCLX = "NCCLX (arXiv 2510.20171)"
BYTEROBUST = "ByteRobust (arXiv 2509.16293), restarts by requeue"
