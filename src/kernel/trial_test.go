// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bufio"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
	"fastpath/src/testkit"
)

// monitor starts `nft monitor` and gives what it has printed until a table
// named sentinel shows up: that comes after everything before it.
func monitor(t *testing.T) (until func(sentinel string) string) {
	t.Helper()
	testkit.Need(t, has("nft"), "needs nft")
	cmd := exec.Command("nft", "monitor")
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	lines := make(chan string, 1024)
	go func() {
		r := bufio.NewReader(out)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				if err != io.EOF {
					t.Log("nft monitor:", err)
				}
				close(lines)
				return
			}
			lines <- line
		}
	}()
	return func(sentinel string) string {
		var seen strings.Builder
		for i := 0; ; i++ {
			// nft monitor doesn't say when it listens: ask until it answers.
			load(t, "add table inet "+sentinel+"\ndelete table inet "+sentinel)
			timeout := time.After(200 * time.Millisecond)
			for quiet := false; !quiet; {
				select {
				case line, ok := <-lines:
					if !ok {
						t.Fatal("nft monitor ended")
					}
					seen.WriteString(line)
					if strings.Contains(line, "delete table inet "+sentinel) {
						return seen.String()
					}
				case <-timeout:
					quiet = true
				}
			}
			if i > 300 {
				t.Fatal("nft monitor shows nothing")
			}
		}
	}
}

// silent looks three times, each with a fresh trial, and shows that nobody
// could have noticed.
func silent(t *testing.T) {
	k := newKernel(t)
	before := run(t, "nft list ruleset")
	until := monitor(t)
	until("begin")
	for range 3 {
		k.trial = trial{}
		observe(t, k)
	}
	seen := until("done")
	for line := range strings.Lines(seen) {
		if !strings.Contains(line, "table inet done") && !strings.Contains(line, "table inet begin") && !strings.Contains(line, "new generation") {
			t.Errorf("nft monitor saw %q", line)
		}
	}
	if after := run(t, "nft list ruleset"); after != before {
		t.Errorf("the ruleset was\n%s\nand is\n%s", before, after)
	}
}

func TestTrialIsSilent(t *testing.T) {
	inNamespace(t)
	load(t, fw4Ruleset)
	silent(t)
}

func TestVMTrialIsSilent(t *testing.T) {
	if !needVM(t) {
		return
	}
	load(t, fw4Ruleset)
	silent(t)
}

// TestTrialWithoutFlowtable: what this kernel says when it lacks nf_flow_table.
func TestTrialWithoutFlowtable(t *testing.T) {
	inNamespace(t)
	k := newKernel(t)
	o := observe(t, k)
	if o.Hooks.Ingress.OK {
		t.Log("this kernel has flowtables: nothing to see")
		return
	}
	for _, a := range []state.Ability{o.Hooks.Ingress, o.Hooks.Early} {
		if !strings.Contains(a.Reason, "nf_flow_table") || !strings.Contains(a.Reason, "ENOENT") {
			t.Errorf("reason %q", a.Reason)
		}
	}
	err := k.Apply(state.ReplaceTable{Table: state.Table{Rules: []state.Rule{state.Add.When()}}})
	if !errors.Is(err, ErrNoFlowtable) || strings.Contains(err.Error(), "\n") {
		t.Errorf("ReplaceTable: %v", err)
	}
	t.Log(err)
	if left := run(t, "nft list ruleset"); left != "" {
		t.Errorf("left behind: %s", left)
	}
	// A module may be loaded later, so the next look tries again.
	if tried := countTrials(k, func() { observe(t, k) }); tried != 1 {
		t.Errorf("tried %d times, want 1", tried)
	}
}

func countTrials(k *Kernel, f func()) (n int) {
	k.fault = func(call string) error {
		if call == "try the kernel's hooks" {
			n++
		}
		return nil
	}
	defer func() { k.fault = nil }()
	f()
	return n
}

// TestTrialCache: final answers are kept for the same links, number and time.
func TestTrialCache(t *testing.T) {
	inNamespace(t)
	k := newKernel(t)
	observe(t, k)
	k.trial.final = true
	look := func() { observe(t, k) }
	if n := countTrials(k, look); n != 0 {
		t.Errorf("nothing has changed: tried %d times", n)
	}
	k.trial.since = k.trial.since.Add(-2 * trialAge)
	if n := countTrials(k, look); n != 1 {
		t.Errorf("after a long time: tried %d times", n)
	}
	k.trial.final = true
	run(t, "ip link add x type bridge")
	if n := countTrials(k, look); n != 1 {
		t.Errorf("with another link: tried %d times", n)
	}
	k.trial.final = true
	if n := countTrials(k, func() { k.Observe(state.Query{HookNumber: 9}) }); n != 1 {
		t.Errorf("with another number: tried %d times", n)
	}
}

func TestTrialReasons(t *testing.T) {
	for _, c := range []struct {
		err   error
		early string
		final bool
	}{
		{unix.EOPNOTSUPP, "kernel 6.12 has no hook early_ingress: it refuses number 2", true},
		{unix.ENOENT, "nf_flow_table", false},
		{unix.ENOMEM, "out of memory", false},
	} {
		err := errors.Join(nil, c.err)
		if got := earlyReason(err, 2, "6.12"); !strings.Contains(got, c.early) || strings.Contains(got, "\n") {
			t.Errorf("%v: %q", c.err, got)
		}
		if final(err) != c.final {
			t.Errorf("%v: final %v", c.err, !c.final)
		}
	}
	for _, c := range []struct {
		err  error
		want string
	}{{unix.EOPNOTSUPP, "CONFIG_NF_CONNTRACK_MARK"}, {unix.ENOENT, "rules can't set conntrack marks"}} {
		if got := marksReason(errors.Join(nil, c.err)); !strings.Contains(got, c.want) || strings.Contains(got, "\n") {
			t.Errorf("%v: %q", c.err, got)
		}
	}
	if a := ability(nil, "unused"); a != (state.Ability{OK: true}) {
		t.Errorf("a yes is %+v", a)
	}
}
