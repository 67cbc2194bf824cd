"""CLBlast's product of matrices on an OpenCL device, answering benches/gpu.rs line by line.

    python3 clblast_dense.py DEVICE

DEVICE is the device's name. The first line printed says who answers, or what is missing. Each line read is a question, `gemm N f64|f32`, and
each line printed its answer in JSON: the least seconds of C = A B^T by the wall clock, the matrices on the device. Needs libclblast (Debian: libclblast1) and an OpenCL
loader, and no package of Python.
"""

import array
import ctypes
import json
import math
import random
import sys
import time

ROUNDS = 5


def say(**answer):
    print(json.dumps(answer), flush=True)


def library(names):
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            why = str(error)
    say(missing="clblast", why=why)
    sys.exit(0)


cl = library(["libOpenCL.so.1", "libOpenCL.so"])
blast = library(["libclblast.so.1", "libclblast.so"])
for name in ("clCreateContext", "clCreateCommandQueue", "clCreateBuffer"):
    getattr(cl, name).restype = ctypes.c_void_p
handle, size = ctypes.c_void_p, ctypes.c_size_t
NAME, ALL, BLOCKING = 0x102B, 0xFFFFFFFF, 1
COLUMNS, PLAIN, TRANSPOSED = 102, 111, 112


def check(code, call):
    if code:
        raise RuntimeError(f"{call}: {code}")


def devices():
    """All devices of all platforms."""
    count = ctypes.c_uint()
    if cl.clGetPlatformIDs(0, None, ctypes.byref(count)):
        return
    platforms = (handle * count.value)()
    check(cl.clGetPlatformIDs(count, platforms, None), "clGetPlatformIDs")
    for platform in platforms:
        kind = ctypes.c_ulong(ALL)
        if cl.clGetDeviceIDs(handle(platform), kind, 0, None, ctypes.byref(count)):
            continue
        found = (handle * count.value)()
        check(cl.clGetDeviceIDs(handle(platform), kind, count, found, None), "clGetDeviceIDs")
        yield from found


def name_of(device):
    text = ctypes.create_string_buffer(1024)
    check(cl.clGetDeviceInfo(handle(device), NAME, size(1024), text, None), "clGetDeviceInfo")
    return text.value.decode().strip()


wanted = sys.argv[1].strip()
device = next((device for device in devices() if name_of(device) == wanted), None)
if device is None:
    say(missing="clblast", why=f"no OpenCL device is called {wanted}")
    sys.exit(0)
code = ctypes.c_int()
one = (handle * 1)(device)
context = handle(cl.clCreateContext(None, 1, one, None, None, ctypes.byref(code)))
check(code.value, "clCreateContext")
queue = handle(cl.clCreateCommandQueue(context, handle(device), ctypes.c_ulong(0), ctypes.byref(code)))
check(code.value, "clCreateCommandQueue")


def buffer(numbers):
    length = size(len(numbers) * numbers.itemsize)
    made = handle(cl.clCreateBuffer(context, ctypes.c_ulong(1), length, None, ctypes.byref(code)))
    check(code.value, "clCreateBuffer")
    at = (ctypes.c_char * length.value).from_buffer(numbers)
    check(cl.clEnqueueWriteBuffer(queue, made, BLOCKING, size(0), length, at, 0, None, None), "clEnqueueWriteBuffer")
    return made


def gemm(n, letter):
    """The least seconds, after a check of some entries."""
    # Rows of one long list, each from another place on.
    chance = random.Random(n)
    numbers = array.array(letter, (chance.random() - 0.5 for _ in range(2 * n)))
    a, b = (array.array(letter) for _ in range(2))
    for column in range(n):
        first, second = column * 7 % n, column * 13 % n
        a.extend(numbers[first : first + n])
        b.extend(numbers[second : second + n])
    c = array.array(letter, bytes(n * n * a.itemsize))
    on_device = [buffer(matrix) for matrix in (a, b, c)]
    call, number = (blast.CLBlastDgemm, ctypes.c_double) if letter == "d" else (blast.CLBlastSgemm, ctypes.c_float)
    best = math.inf
    for _ in range(ROUNDS + 1):
        begun = time.perf_counter()
        status = call(
            COLUMNS, PLAIN, TRANSPOSED, size(n), size(n), size(n), number(1.0),
            on_device[0], size(0), size(n), on_device[1], size(0), size(n), number(0.0),
            on_device[2], size(0), size(n), ctypes.byref(queue), None,
        )
        check(status, "gemm")
        check(cl.clFinish(queue), "clFinish")
        best = min(best, time.perf_counter() - begun)
    length = size(len(c) * c.itemsize)
    at = (ctypes.c_char * length.value).from_buffer(c)
    check(cl.clEnqueueReadBuffer(queue, on_device[2], BLOCKING, size(0), length, at, 0, None, None), "clEnqueueReadBuffer")
    for row, column in ((0, 0), (n - 1, n // 2), (n // 3, n - 1)):
        expected = math.fsum(a[k * n + row] * b[k * n + column] for k in range(n))
        assert abs(c[column * n + row] - expected) < n * (1e-14 if letter == "d" else 1e-6), (row, column)
    for made in on_device:
        check(cl.clReleaseMemObject(made), "clReleaseMemObject")
    return best


say(name=f"CLBlast on {wanted}")
for line in sys.stdin:
    what, n, precision = line.split()
    try:
        if what != "gemm":
            raise RuntimeError(f"{what} is no question")
        say(seconds=gemm(int(n), "d" if precision == "f64" else "f"), count=1)
    except (RuntimeError, MemoryError) as error:
        say(error=str(error))
