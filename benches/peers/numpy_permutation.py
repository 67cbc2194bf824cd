"""NumPy, answering benches/permutation.rs line by line.

    python3 numpy_permutation.py FOLDER

The first line printed says who answers, or what is missing. Then each line read is a question, and each line printed its
answer in JSON. Seconds are processor time of the calls of NumPy alone, on one thread.

FOLDER has matrices of f32, or of u16 for lists, as bare numbers with names `NAME.COLUMNS.TYPE`. Questions:

    lists ROWS PIVOTS LENGTH          lists by f64 distances, written to `found.u16`; no time
    construct ROWS PIVOTS LENGTH      product, argpartition, sort
    product ROWS PIVOTS               squared distances alone
    select ROWS PIVOTS LENGTH         argpartition of given distances alone
    search ROWS LISTS PIVOTS QUERIES QUERY_LISTS CANDIDATES K      footrules of all lists, argpartition, distances of the
                                      candidates, the nearest; written to `found.u32`
"""

import json
import sys
import time


def say(**answer):
    print(json.dumps(answer), flush=True)


try:
    import numpy as np
except ImportError as error:
    say(missing="numpy", why=str(error))
    sys.exit(0)

FOLDER = sys.argv[1]
say(name=f"NumPy {np.__version__}")
kept = {}


def matrix(name):
    if name not in kept:
        _, columns, kind = name.split(".")
        numbers = np.fromfile(f"{FOLDER}/{name}", dtype={"f32": np.float32, "u16": np.uint16}[kind])
        kept[name] = numbers.reshape(-1, int(columns))
    return kept[name]


def product(rows, pivots):
    return (pivots * pivots).sum(1) - 2 * (rows @ pivots.T)


def select(distances, length):
    if length == distances.shape[1]:
        return np.argsort(distances, axis=1)
    nearest = np.argpartition(distances, length - 1, axis=1)[:, :length]
    order = np.argsort(np.take_along_axis(distances, nearest, 1), axis=1)
    return np.take_along_axis(nearest, order, 1)


def search(rows, lists, pivots, queries, query_lists, candidates, k):
    length, places = lists.shape[1], np.arange(lists.shape[1])
    found = np.empty((len(queries), k), dtype=np.uint32)
    for number, (query, own) in enumerate(zip(queries, query_lists)):
        positions = np.full(pivots, length, dtype=np.int32)
        positions[own] = places
        # What each number of a list adds to the measure, by place.
        table = np.abs(positions[None, :] - places[:, None]) - (length - positions)[None, :]
        measures = np.zeros(len(lists), dtype=np.int32)
        for place in places:
            measures += table[place].take(lists[:, place])
        near = np.argpartition(measures, candidates - 1)[:candidates]
        squares = ((rows[near] - query) ** 2).sum(1)
        best = np.argpartition(squares, k - 1)[:k]
        found[number] = near[best[np.argsort(squares[best])]]
    return found


for line in sys.stdin:
    what, *words = line.split()
    arguments = [matrix(word) if "." in word else int(word) for word in words]
    given = None
    if what == "lists":
        rows, pivots, length = arguments
        given = select(product(rows.astype(np.float64), pivots.astype(np.float64)), length)
        given.astype(np.uint16).tofile(f"{FOLDER}/found.u16")
        say(count=len(rows))
        continue
    if what == "select":
        rows, pivots, length = arguments
        given = product(rows, pivots)
    begun = time.process_time()
    if what == "construct":
        rows, pivots, length = arguments
        select(product(rows, pivots), length)
    elif what == "product":
        rows, pivots = arguments
        product(rows, pivots)
    elif what == "select":
        np.argpartition(given, length - 1, axis=1)
    else:
        rows, lists, pivots, queries, query_lists, candidates, k = arguments
        given = search(rows, lists, pivots, queries, query_lists, candidates, k)
        rows = queries
    seconds = time.process_time() - begun
    if what == "search":
        given.tofile(f"{FOLDER}/found.u32")
    say(seconds=seconds, count=len(rows))
