// SPDX-License-Identifier: Apache-2.0

//go:build guest

package control

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"fastpath/src/itest/topo"
)

// 200 events of links and addresses that change nothing cost no step, and no flow leaves the
// fast path because of us. (Because of the kernel some do: at an event of a link
// it looks routes up anew. So the same storm comes first while we stand still.)
func TestStorm(t *testing.T) {
	r := build(t, topo.Bridge)
	r.Router.Run(t, "ip link add storm type dummy\nip link set storm up")
	r.start(t)
	r.want(t, lowest(topo.Bridge)...)
	r.settled(t)
	r.signal(t, syscall.SIGSTOP)
	alone := r.storm(t)
	r.signal(t, syscall.SIGCONT)
	r.settled(t)
	before, start := r.document(t), time.Now()
	with := r.storm(t)
	r.settled(t)
	after, took := r.document(t), time.Since(start)
	looks := after.Look.Count - before.Look.Count
	t.Logf("%d looks in %v; by the slow path: %d bytes, without us %d", looks, took, with, alone)
	if with > 2*alone+stormBytes/100 {
		t.Errorf("the storm sent %d bytes to the slow path, without us it sends %d", with, alone)
	}
	// Confirmation of early_ingress, which the transfers may well bring, takes the counting chains away.
	if steps := after.steps(); after.Plan.Time != before.Plan.Time && !strings.Contains(steps, "stop counting") {
		t.Errorf("the storm cost steps: %s", steps)
	}
	// One each 100 ms at most, and those of the minute.
	if most := int(took/(100*time.Millisecond)) + 2; looks > most {
		t.Errorf("more than %d looks in %v", most, took)
	}
}

func (r *router) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := r.daemon.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

const stormBytes = 20_000_000

// storm makes 200 events beside a transfer and returns the bytes of it that took the slow path.
func (r *router) storm(t *testing.T) int64 {
	t.Helper()
	var before int64
	c := r.transfer(topo.Serverv6, true, true, stormBytes)
	c.Steady = func() error { before = r.slowBytes(t); return nil }
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 50 {
			cmd := r.Router.Command("ip", "-batch", "-")
			cmd.Stdin = strings.NewReader(fmt.Sprintf(
				"link set storm alias a%d\nlink set storm alias b%[1]d\naddr add 10.99.0.%[1]d/32 dev storm\naddr del 10.99.0.%[1]d/32 dev storm\n", i))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("storm: %v: %s", err, out)
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	result, err := c.Run(t.Context())
	slow := r.slowBytes(t) - before
	<-done
	if err != nil || result.Received < result.Sent*99/100 {
		t.Errorf("%s: %+v, %v", c, result, err)
	}
	return slow
}

// An idle router stays idle and small: it wakes up once a minute. CPU and
// switches are logged only, since this CPU is emulated: where a look takes it
// longer than a minute's work may take, Go's own clock thread ticks on meanwhile.
// Their budget is held on a real CPU, by TestIdle of src/cmd/fastpath.
func TestIdle(t *testing.T) {
	r := build(t, topo.PPPoEVLAN)
	r.start(t)
	r.want(t, lowest(topo.PPPoEVLAN)...)
	r.settled(t)
	time.Sleep(6 * time.Second) // the sample after the table's change comes 5 s later
	start, cpu := r.switches(t), r.cpu(t)
	var steps []int // for each 5 s: they tell bursts from a steady tick
	for last := start; len(steps) < 12; {
		time.Sleep(5 * time.Second)
		now := r.switches(t)
		steps, last = append(steps, now-last), now
	}
	switches := r.switches(t) - start
	cpu = r.cpu(t) - cpu
	rss := r.procNumber(t, "status", `VmRSS:\s*(\d+) kB`)
	t.Logf("60 s without flows: %d voluntary switches %v, %v of emulated CPU, VmRSS %d kB", switches, steps, cpu, rss)
	const asleep = 10 // switches in 5 s: less than a look or a sample takes
	if awake := slices.DeleteFunc(slices.Clone(steps), func(n int) bool { return n < asleep }); len(awake) > 4 {
		t.Errorf("awake in %d of 12 times 5 s, want at most 4: a look or a sample may begin in one and end in the next", len(awake))
	}
	if rss > 12<<10 {
		t.Errorf("VmRSS %d kB, want at most 12 MB", rss)
	}
}

// switches are the voluntary ones of all the daemon's threads.
func (r *router) switches(t *testing.T) (sum int) {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", r.daemon.Process.Pid))
	if err != nil || len(tasks) == 0 {
		t.Fatalf("the daemon's threads: %q, %v", tasks, err)
	}
	for _, task := range tasks {
		sum += r.procNumber(t, filepath.Join("task", filepath.Base(task), "status"), `\nvoluntary_ctxt_switches:\s*(\d+)`)
	}
	return sum
}

// cpu is utime and stime: fields 14 and 15 of proc_pid_stat(5), 100 ticks a second.
func (r *router) cpu(t *testing.T) time.Duration {
	t.Helper()
	const upTo = `\) \S( \S+){10} ` // the name ends with ), then state and ten more
	utime := r.procNumber(t, "stat", upTo+`(?P<n>\d+)`)
	stime := r.procNumber(t, "stat", upTo+`\d+ (?P<n>\d+)`)
	return time.Duration(utime+stime) * 10 * time.Millisecond
}

// procNumber is the last group of a regular expression in a file of the daemon's in /proc.
func (r *router) procNumber(t *testing.T, file, expr string) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", r.daemon.Process.Pid, file))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(expr).FindSubmatch(text)
	if m == nil {
		t.Fatalf("no %s in %s: %s", expr, file, text)
	}
	n, err := strconv.Atoi(string(m[len(m)-1]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
