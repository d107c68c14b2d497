"""ReCycle: peers in other pipelines compute a lost stage's micro-batches."""
