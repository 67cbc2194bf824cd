"""RapidFuzz, answering benches/edit.rs line by line.

    python3 rapidfuzz_edit.py FOLDER

The first line printed says who answers, or what is missing. Then each line read is a question, and each line printed its
answer in JSON. Seconds are processor time of the calls of RapidFuzz alone, on one thread.

A question is the name of two files of FOLDER: texts a line each, the queries and the others. `cdist` makes all distances
of the two. The distances are summed, and summed with weights, so that both sides can compare them.

`pair PEER QUERIES OTHERS` is the distance of the first texts of two files, by `rapidfuzz` or by `edlib` (`pip install edlib`); its
answer has the distance, or says that the peer is missing.
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

try:
    import edlib
except ImportError:
    edlib = None

FOLDER = sys.argv[1]
say(name=f"RapidFuzz {rapidfuzz.__version__}")
lists = {}


def texts(name):
    if name not in lists:
        with open(f"{FOLDER}/{name}", encoding="utf-8") as file:
            lists[name] = file.read().split("\n")[:-1]
    return lists[name]


def pair(peer, a, b):
    if peer == "rapidfuzz":
        return Levenshtein.distance(a, b)
    return edlib.align(a, b, mode="NW", task="distance")["editDistance"]


for line in sys.stdin:
    words = line.split()
    if words[0] == "pair":
        a, b = (texts(name)[0] for name in words[2:])
        if words[1] == "edlib" and edlib is None:
            say(missing="edlib")
            continue
        begun = time.process_time()
        distance = pair(words[1], a, b)
        say(seconds=time.process_time() - begun, count=1, distance=distance)
        continue
    queries, others = (texts(name) for name in words)
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
