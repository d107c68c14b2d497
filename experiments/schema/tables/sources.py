"""Where the defaults of many fields come from."""

STUDY = "SPARe study (Lee et al. 2026, arXiv 2603.00357)"
SOUND = "choice: what is sound; the published simulator of SPARe takes"
BYTEROBUST = "ByteRobust (arXiv 2509.16293), restarts by requeue"
