// Go: a goroutine for each box and channels between them; the runtime itself detaches goroutines that block.
//
// Answers each line of its input with a line of figures, like benches/peers/cpp/peer.hpp.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

type figures map[string]float64
type round func() figures

//go:noinline
func spin(iterations uint64) uint64 {
	x := uint32(1)
	for i := uint64(0); i < iterations; i++ {
		x = (x^x>>15)*1664525 + 1013904223
	}
	return uint64(x)
}

func calibrate() float64 {
	const iterations = 200000
	fastest, kept := math.Inf(1), uint64(0)
	for run := 0; run < 25; run++ {
		start := time.Now()
		kept += spin(iterations)
		fastest = math.Min(fastest, time.Since(start).Seconds())
	}
	runtime.KeepAlive(kept)
	return fastest * 1e9 / iterations
}

type settings struct {
	values         map[string]string
	nsPerIteration float64
}

func (s settings) number(name string) float64 {
	value, err := strconv.ParseFloat(s.values[name], 64)
	if err != nil {
		panic(name + " is missing or no number")
	}
	return value
}

func (s settings) count(name string) int { return int(s.number(name)) }

func (s settings) iterations(microseconds float64) uint64 {
	return uint64(math.Round(microseconds * 1e3 / s.nsPerIteration))
}

func check(what string, found, wanted uint64) {
	if found != wanted {
		panic(fmt.Sprintf("%s: %d, not %d", what, found, wanted))
	}
}

// chain sends one message round a ring.
func chain(s settings) round {
	boxes, messages := s.count("boxes"), s.count("messages")
	return func() figures {
		first := make(chan int, 1)
		before := first
		for idx := 0; idx < boxes; idx++ {
			from, to := before, make(chan int, 1)
			go func() {
				for message := range from {
					to <- message
				}
				close(to)
			}()
			before = to
		}
		start := time.Now()
		for message := 0; message < messages; message++ {
			first <- message
			check("message", uint64(<-before), uint64(message))
		}
		seconds := time.Since(start).Seconds()
		close(first)
		return figures{"hop_ns": seconds * 1e9 / float64((boxes+1)*messages)}
	}
}

func stages(s settings) round {
	count, messages, edge := s.count("stages"), s.count("messages"), s.count("edge")
	iterations, work, slowest, wanted := make([]uint64, count), 0.0, 0.0, uint64(0)
	for idx := range iterations {
		us := s.number("spin_us")
		if idx == count/2 {
			us *= s.number("slow")
		}
		iterations[idx] = s.iterations(us)
		work, slowest = work+us, math.Max(slowest, us)
		wanted += spin(iterations[idx]) * uint64(messages)
	}
	workers := s.number("workers")
	ideal := math.Max(work/workers, slowest) * float64(messages) / 1e6
	return func() figures {
		var sum uint64
		start := time.Now()
		first := make(chan []uint64, edge)
		go func() {
			for message := 0; message < messages; message++ {
				envelope := make([]uint64, 512)
				now := uint64(time.Since(start))
				for row := range envelope {
					envelope[row] = now
				}
				first <- envelope
			}
			close(first)
		}()
		before := first
		for _, steps := range iterations {
			from, to, steps := before, make(chan []uint64, edge), steps
			go func() {
				own := uint64(0)
				for envelope := range from {
					own += spin(steps)
					to <- envelope
				}
				atomic.AddUint64(&sum, own)
				close(to)
			}()
			before = to
		}
		latencies := make([]float64, 0, messages)
		for envelope := range before {
			latencies = append(latencies, float64(uint64(time.Since(start))-envelope[0])/1e3)
		}
		seconds := time.Since(start).Seconds()
		check("arrived", uint64(len(latencies)), uint64(messages))
		check("sum", atomic.LoadUint64(&sum), wanted)
		sort.Float64s(latencies)
		at := func(share float64) float64 { return latencies[int(math.Round(share*float64(messages-1)))] }
		return figures{
			"overhead_hop_ns": (seconds - ideal) * workers * 1e9 / float64((count+1)*messages),
			"envelopes_per_s": float64(messages) / seconds,
			"latency_p50_us":  at(0.5),
			"latency_p99_us":  at(0.99),
		}
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

var piece [1 << 16]byte

// write writes a file and syncs it to disk.
func write(path string, bytes int) {
	file, err := os.Create(path)
	must(err)
	for start := 0; start < bytes; start += len(piece) {
		_, err = file.Write(piece[:min(len(piece), bytes-start)])
		must(err)
	}
	must(syscall.Fdatasync(int(file.Fd())))
	must(file.Close())
}

func min(a, b int) int {
	if a < b {
		return a
	}
	return b
}

func blocking(s settings) round {
	tasks := s.count("tasks")
	var compute float64
	var block func(task int)
	if s.values["part"] == "file" {
		folder := filepath.Join(s.values["folder"], fmt.Sprintf("peer-%d", os.Getpid()))
		must(os.MkdirAll(folder, 0o755))
		bytes := s.count("kib") << 10
		compute = s.number("compute_us")
		block = func(task int) { write(filepath.Join(folder, fmt.Sprintf("task%d", task)), bytes) }
	} else {
		scale := s.number("scale")
		compute = s.number("compute_ms") * scale * 1e3
		pause := time.Duration(s.number("block_ms") * scale * 1e6)
		block = func(int) { time.Sleep(pause) }
	}
	before, after := s.iterations(compute), uint64(0)
	if s.values["part"] == "compute_block_compute" {
		before = s.iterations(compute / 2)
		after = before
	}
	device := make(chan struct{}, s.count("device"))
	return func() figures {
		var computing, peak int64
		var sum uint64
		work := func(iterations uint64) {
			if iterations == 0 {
				return
			}
			now := atomic.AddInt64(&computing, 1)
			for old := atomic.LoadInt64(&peak); old < now && !atomic.CompareAndSwapInt64(&peak, old, now); {
				old = atomic.LoadInt64(&peak)
			}
			atomic.AddUint64(&sum, spin(iterations))
			atomic.AddInt64(&computing, -1)
		}
		start := time.Now()
		var all sync.WaitGroup
		for task := 0; task < tasks; task++ {
			all.Add(1)
			go func(task int) {
				work(before)
				device <- struct{}{}
				block(task)
				<-device
				work(after)
				all.Done()
			}(task)
		}
		all.Wait()
		seconds := time.Since(start).Seconds()
		each := spin(before)
		if after > 0 {
			each += spin(after)
		}
		check("sum", sum, each*uint64(tasks))
		return figures{"makespan_ms": seconds * 1e3, "computing_peak": float64(peak)}
	}
}

func main() {
	workloads := map[string]func(settings) round{"B1": chain, "B5": stages, "B6": blocking}
	if len(os.Args) < 2 || workloads[os.Args[1]] == nil {
		os.Exit(3)
	}
	s := settings{map[string]string{}, calibrate()}
	for _, argument := range os.Args[2:] {
		if name, value, found := strings.Cut(argument, "="); found {
			s.values[name] = value
		}
	}
	runtime.GOMAXPROCS(s.count("workers"))
	measure := workloads[os.Args[1]](s)
	fmt.Printf("{\"name\": \"Go %s\", \"spin_ns_per_iteration\": %f}\n", strings.TrimPrefix(runtime.Version(), "go"), s.nsPerIteration)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		answer, err := json.Marshal(measure())
		if err != nil {
			panic(err)
		}
		fmt.Println(string(answer))
	}
}
