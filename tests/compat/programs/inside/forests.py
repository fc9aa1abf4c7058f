"""Fits forests in joblib's workers (loky), and compares the scores of each round with the first ones."""

from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_score

WORKERS = 3


def scores(seed: int) -> float:
    data, labels = make_classification(n_samples=300, n_features=12, random_state=seed)
    forest = RandomForestClassifier(n_estimators=8, random_state=seed)
    return float(np.mean(cross_val_score(forest, data, labels, cv=3)))


first, rounds, faults = None, 0, 0
with Parallel(n_jobs=WORKERS, backend="loky") as workers:
    while True:
        found = workers(delayed(scores)(seed) for seed in range(WORKERS))
        first = first or found
        rounds, faults = rounds + 1, faults + (found != first)
        Path("new").write_text(f"{rounds} {faults} of forests in {WORKERS} workers\n")
        Path("new").rename("state")
