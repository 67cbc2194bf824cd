"""Faiss, answering benches/vector.rs line by line.

    python3 faiss_vectors.py FOLDER DIMENSIONS THREADS [SIMD-LEVEL]

The first line printed says who answers, or what is missing. Then each line read is a question, and each line printed its
answer in JSON. Seconds are those of Faiss's calls alone: processor time on one thread, wall time on several.

FOLDER has rows.f32, rows.u8 and queries.f32, row after row; lists.u32, a list for each row; start.f32, centroids that rows
are assigned to. What the last question found is written to ids.i64, values.f32, centroids.f32, codebook.f32 and codes.u8.
"""

import json
import os
import sys
import time


def say(**answer):
    print(json.dumps(answer), flush=True)


LEVEL = sys.argv[4] if len(sys.argv) > 4 else ""
if LEVEL:
    # Both are read when the libraries are loaded; OpenBLAS, which Faiss calls, has levels of its own.
    os.environ["FAISS_SIMD_LEVEL"] = LEVEL
    os.environ["OPENBLAS_CORETYPE"] = {"AVX2": "Haswell", "NONE": "Prescott"}[LEVEL]

try:
    import faiss
    import numpy as np
except ImportError as error:
    say(missing="faiss-cpu", why=str(error))
    sys.exit(0)

FOLDER, DIMENSIONS, THREADS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
TRAINED_MAX = 65_536
faiss.omp_set_num_threads(THREADS)
clock = time.process_time if THREADS == 1 else time.perf_counter


def numbers(name, width, kind="<f4"):
    return np.fromfile(f"{FOLDER}/{name}", dtype=kind).reshape(-1, width)


def write(name, array, kind):
    np.ascontiguousarray(array, dtype=kind).tofile(f"{FOLDER}/{name}")


def timed(work):
    before = clock()
    result = work()
    return clock() - before, result


class Side:
    """The data, indexes of it, and what the last question found."""

    def __init__(self):
        self.rows = numbers("rows.f32", DIMENSIONS)
        self.queries = numbers("queries.f32", DIMENSIONS)
        # By kind. Indexes own neither their quantizers nor what they refine.
        self.indexes, self.quantizer, self.refined, self.found = {}, None, None, None

    def sample(self, count):
        step = max(1, len(self.rows) // count)
        return np.ascontiguousarray(self.rows[::step][:count])

    def flat(self, rows):
        flat = faiss.IndexFlatL2(DIMENSIONS)
        flat.add(rows)
        return flat

    def make(self, kind, *values):
        """`index KIND VALUES`: all rows in an index of a kind, instead of an earlier one of the kind."""
        values = [int(value) for value in values]
        by_lists = {"lists": 0, "listsproduct": 8, "listsfast": 4}
        if kind in by_lists:
            self.quantizer = self.flat(numbers("centroids.f32", DIMENSIONS))
            self.indexes[kind] = self.of_lists(by_lists[kind], *values)
            return {}
        simple = {
            "l2": lambda: faiss.IndexFlatL2(DIMENSIONS),
            "ip": lambda: faiss.IndexFlatIP(DIMENSIONS),
            "panorama": lambda: faiss.IndexFlatL2Panorama(DIMENSIONS, *values),
            "sq8": lambda: faiss.IndexScalarQuantizer(DIMENSIONS, faiss.ScalarQuantizer.QT_8bit_direct),
            "product": lambda: faiss.IndexPQ(DIMENSIONS, *values, 8),
            "fast": lambda: faiss.IndexPQFastScan(DIMENSIONS, *values, 4),
        }
        index = self.indexes[kind] = simple[kind]()
        rows = numbers("rows.u8", DIMENSIONS, "u1").astype("f4") if kind == "sq8" else self.rows
        if not index.is_trained:
            index.train(self.sample(TRAINED_MAX))
        if kind in ("product", "fast"):
            write("codebook.f32", faiss.vector_to_array(index.pq.centroids), "<f4")
        index.add(rows)
        return {}

    def forget(self):
        """`forget`: gives the memory of all indexes back."""
        self.indexes, self.quantizer, self.refined = {}, None, None
        return {}

    def of_lists(self, bits, parts=0):
        count = self.quantizer.ntotal
        if bits == 0:
            index = faiss.IndexIVFFlat(self.quantizer, DIMENSIONS, count)
        elif bits == 8:
            index = faiss.IndexIVFPQ(self.quantizer, DIMENSIONS, count, parts, 8)
        else:
            index = faiss.IndexIVFPQFastScan(self.quantizer, DIMENSIONS, count, parts, 4)
        index.train(self.sample(TRAINED_MAX))
        if bits:
            write("codebook.f32", faiss.vector_to_array(index.pq.centroids), "<f4")
        if bits == 4:
            index.add(self.rows)
            # Refined by the rows themselves.
            refined = faiss.IndexRefineFlat(index, faiss.swig_ptr(self.rows))
            refined.k_factor = 10
            self.refined = index
            return refined
        # The lists of our side, so that both look into the same ones.
        lists = np.fromfile(f"{FOLDER}/lists.u32", dtype="<u4").astype("i8")
        index.add_core(len(self.rows), faiss.swig_ptr(self.rows), None, faiss.swig_ptr(lists))
        if bits == 8:
            index.use_precomputed_table = 1
            index.precompute_table()
        return index

    def search(self, kind, k, probes, count, together):
        """`search KIND K PROBES COUNT TOGETHER`: the first queries, so many together."""
        index, k, probes, count, together = self.indexes[kind], int(k), int(probes), int(count), int(together)
        if probes:
            faiss.extract_index_ivf(index).nprobe = probes
        parts = [self.queries[first : first + together] for first in range(0, count, together)]
        seconds, found = timed(lambda: [index.search(part, k) for part in parts])
        self.found = [np.concatenate(part) for part in zip(*found)]
        return {"seconds": seconds, "count": 1}

    def start(self, clusters, seed):
        """`start CLUSTERS SEED`: the rows with which both of Faiss's ways begin, untimed."""
        order = np.empty(len(self.rows), dtype="i4")
        faiss.rand_perm(faiss.swig_ptr(order), len(order), int(seed) + 1)
        write("start.f32", self.rows[order[: int(clusters)]], "<f4")
        return {}

    def kmeans(self, kind, iterations, seed):
        """`kmeans KIND ITERATIONS SEED`: clusters of all rows."""
        clusters = len(numbers("start.f32", DIMENSIONS))
        options = dict(niter=int(iterations), max_points_per_centroid=10**9, seed=int(seed))
        make = {"Kmeans": faiss.Kmeans, "SuperKmeans": getattr(faiss, "SuperKmeans", None)}[kind]
        kmeans = make(DIMENSIONS, clusters, **options)
        # From `start`.
        seconds, _ = timed(lambda: kmeans.train(self.rows))
        write("centroids.f32", kmeans.centroids, "<f4")
        return {"seconds": seconds, "count": 1}

    def train(self, lists, iterations):
        """`train LISTS ITERATIONS`: centroids for lists, untimed."""
        kmeans = faiss.Kmeans(DIMENSIONS, int(lists), niter=int(iterations), max_points_per_centroid=64)
        kmeans.train(self.rows)
        write("centroids.f32", kmeans.centroids, "<f4")
        return {}

    def assign(self):
        """`assign`: the nearest of the centroids for each row."""
        flat = self.flat(numbers("start.f32", DIMENSIONS))
        seconds, self.found = timed(lambda: flat.search(self.rows, 1))
        return {"seconds": seconds, "count": 1}

    def encode(self, kind):
        """`encode KIND`: the codes of all rows."""
        seconds, codes = timed(lambda: self.indexes[kind].sa_encode(self.rows))
        write("codes.u8", codes, "u1")
        return {"seconds": seconds, "count": 1}

    def graph(self, k):
        """`graph K`: the neighbours of each row, itself among them."""
        seconds, self.found = timed(lambda: self.indexes["l2"].search(self.rows, int(k) + 1))
        return {"seconds": seconds, "count": 1}

    def write_answers(self):
        """`answers`: what the last question found."""
        write("values.f32", self.found[0], "<f4")
        write("ids.i64", self.found[1], "<i8")
        return {}


def main():
    level = faiss.SIMDConfig.get_level_name() if hasattr(faiss, "SIMDConfig") else "unknown"
    name = f"faiss {faiss.__version__} ({level}; built with {faiss.get_compile_options().strip()})"
    say(name=name)
    side = Side()
    verbs = {
        "index": side.make,
        "forget": side.forget,
        "search": side.search,
        "start": side.start,
        "kmeans": side.kmeans,
        "train": side.train,
        "assign": side.assign,
        "encode": side.encode,
        "graph": side.graph,
        "answers": side.write_answers,
    }
    for question in sys.stdin:
        verb, *values = question.split()
        try:
            say(**verbs[verb](*values))
        except Exception as error:  # The bench prints what the peer cannot do.
            say(error=repr(error).replace("\n", " ")[:300])


main()
