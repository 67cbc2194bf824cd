"""RapidFuzz, answering benches/edit.rs line by line.

    python3 rapidfuzz_edit.py FOLDER

The first line printed says who answers, or what is missing. Then each line read is a question, and each line printed its
answer in JSON. Seconds are processor time of the calls of RapidFuzz alone, on one thread.

A question is the name of two files of FOLDER: texts a line each, the queries and the others. `cdist` makes all distances
of the two. The distances are summed, and summed with weights, so that both sides can compare them.
"""

import json
import sys
import time


def say(**answer):
    print(json.dumps(answer), flush=True)


try:
    import numpy as np
    import rapidfuzz
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cdist
except ImportError as error:
    say(missing="rapidfuzz", why=str(error))
    sys.exit(0)

FOLDER = sys.argv[1]
say(name=f"RapidFuzz {rapidfuzz.__version__}")
lists = {}


def texts(name):
    if name not in lists:
        with open(f"{FOLDER}/{name}", encoding="utf-8") as file:
            lists[name] = file.read().split("\n")[:-1]
    return lists[name]


for line in sys.stdin:
    queries, others = (texts(name) for name in line.split())
    begun = time.process_time()
    found = cdist(queries, others, scorer=Levenshtein.distance, dtype=np.uint32, workers=1)
    seconds = time.process_time() - begun
    weights = np.arange(found.size, dtype=np.uint64).reshape(found.shape) % 1009
    say(
        seconds=seconds,
        count=found.size,
        sum=int(found.sum(dtype=np.uint64)),
        weighted=int((found.astype(np.uint64) * weights).sum()),
    )
