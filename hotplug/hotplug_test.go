// SPDX-License-Identifier: Apache-2.0

// Package hotplug tests the scripts beside it under busybox ash, as procd and
// netifd run them.
package hotplug

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"fastpath/src/testkit"
)

// pidDir is the directory that the scripts name; a test puts its own in place.
const pidDir = "/var/run/fastpath"

// TestMain lets this binary, started under another name, play the daemon: it
// writes a line for each SIGUSR1 (a poke) and SIGUSR2 (the test's own mark).
func TestMain(m *testing.M) {
	if os.Getenv("HOTPLUG_TEST_PROCESS") == "" {
		os.Exit(m.Run())
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2)
	fmt.Println("ready")
	for s := range signals {
		if s == syscall.SIGUSR1 {
			fmt.Println("poked")
		} else {
			fmt.Println("mark")
		}
	}
}

// process is a running stand-in: its pid and the lines it wrote.
type process struct {
	pid   int
	lines <-chan string
}

// start runs this binary as NAME ARG.
func start(t *testing.T, name, arg string) process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(self, path); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, arg)
	cmd.Env = append(os.Environ(), "HOTPLUG_TEST_PROCESS=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 64)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		for range lines {
		}
		cmd.Wait()
	})
	p := process{cmd.Process.Pid, lines}
	if got := p.next(t); got != "ready" {
		t.Fatalf("stand-in said %q, want ready", got)
	}
	return p
}

func (p process) next(t *testing.T) string {
	t.Helper()
	select {
	case line, ok := <-p.lines:
		if !ok {
			t.Fatalf("process %d ended", p.pid)
		}
		return line
	case <-time.After(time.Minute):
		t.Fatalf("process %d wrote nothing within a minute", p.pid)
	}
	return ""
}

// wantPoke waits for a SIGUSR1.
func (p process) wantPoke(t *testing.T) {
	t.Helper()
	if got := p.next(t); got != "poked" {
		t.Errorf("process %d said %q, want poked", p.pid, got)
	}
}

// wantNoPoke fails if a SIGUSR1 came before the mark that it sends now.
func (p process) wantNoPoke(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(p.pid, syscall.SIGUSR2); err != nil {
		t.Fatalf("process %d: %v", p.pid, err)
	}
	if got := p.next(t); got != "mark" {
		t.Errorf("process %d said %q, want nothing but the mark", p.pid, got)
		p.next(t)
	}
}

// script is a copy of hotplug/KIND/60-fastpath that reads dir/pid.
func script(t *testing.T, kind, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(kind, "60-fastpath"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), pidDir+"/pid"); n != 1 {
		t.Fatalf("%s: %s/pid is named %d times, want once", kind, pidDir, n)
	}
	path := filepath.Join(t.TempDir(), "60-fastpath")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(text), pidDir, dir)), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// call runs the script with only env in its environment and returns the time
// it took. Any output or exit status but 0 fails the test: netifd logs both.
func call(t *testing.T, script string, env ...string) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "busybox", "ash", script)
	cmd.Env = env
	begin := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(begin)
	if err != nil || len(out) > 0 {
		t.Fatalf("%s with %q: %v, output %q", script, env, err, out)
	}
	return took
}

func needBusybox(t *testing.T) {
	t.Helper()
	_, err := exec.LookPath("busybox")
	testkit.Need(t, err == nil, "no busybox")
}

func writePID(t *testing.T, dir, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "pid"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestActions(t *testing.T) {
	needBusybox(t)
	dir := t.TempDir()
	daemon := start(t, "fastpath", "run")
	writePID(t, dir, strconv.Itoa(daemon.pid)+"\n")
	tests := []struct {
		kind string
		env  string
		want bool
	}{
		{"iface", "ACTION=ifup", true},
		{"iface", "ACTION=ifdown", true},
		{"iface", "ACTION=ifupdate", false},
		{"iface", "ACTION=ifupdate IFUPDATE_ADDRESSES=1", true},
		{"iface", "ACTION=ifupdate IFUPDATE_ROUTES=1", true},
		{"iface", "ACTION=ifupdate IFUPDATE_PREFIXES=1", true},
		{"iface", "ACTION=ifupdate IFUPDATE_DATA=1", true},
		{"iface", "ACTION=ifup-failed", false},
		{"iface", "ACTION=free", false},
		{"iface", "ACTION=reload", false},
		{"iface", "ACTION=create", false},
		{"iface", "", false},
		{"net", "ACTION=add", true},
		{"net", "ACTION=remove", true},
		{"net", "ACTION=move", true},
		{"net", "ACTION=change", false},
		{"net", "ACTION=bind", false},
		{"net", "", false},
	}
	for _, tt := range tests {
		t.Run(tt.kind+" "+tt.env, func(t *testing.T) {
			env := append(strings.Fields(tt.env), "INTERFACE=wan", "DEVICE=eth1")
			call(t, script(t, tt.kind, dir), env...)
			if tt.want {
				daemon.wantPoke(t)
			} else {
				daemon.wantNoPoke(t)
			}
		})
	}
}

func TestForeignProcessIsLeft(t *testing.T) {
	needBusybox(t)
	for _, who := range []struct{ name, arg string }{
		{"sleeper", "run"},
		{"fastpath", "status"},
		{"fastpathd", "run"},
		{"notfastpath", "run"},
	} {
		t.Run(who.name+" "+who.arg, func(t *testing.T) {
			dir := t.TempDir()
			other := start(t, who.name, who.arg)
			writePID(t, dir, strconv.Itoa(other.pid)+"\n")
			call(t, script(t, "iface", dir), "ACTION=ifup")
			other.wantNoPoke(t)
		})
	}
}

// An ordinary program dies of SIGUSR1: the pid file of a daemon that crashed
// must not end whoever has its number now.
func TestStalePIDFile(t *testing.T) {
	needBusybox(t)
	dir := t.TempDir()
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	writePID(t, dir, strconv.Itoa(cmd.Process.Pid)+"\n")
	call(t, script(t, "net", dir), "ACTION=add")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signal() != syscall.SIGTERM {
		t.Errorf("sleep ended by %v, want the test's own SIGTERM", status.Signal())
	}
	call(t, script(t, "net", dir), "ACTION=add") // nobody has the number now
}

// Were one of these taken for a number, kill would hit this test's own process
// group (0), everything (-1) or init.
func TestPIDFileContents(t *testing.T) {
	needBusybox(t)
	dir := t.TempDir()
	daemon := start(t, "fastpath", "run")
	pid := strconv.Itoa(daemon.pid)
	path := script(t, "iface", dir)
	call(t, path, "ACTION=ifup") // no file at all
	for _, text := range []string{"", "\n", "0\n", "1\n", "-1\n", "-" + pid, "fastpath\n", pid + " 1\n", "1 " + pid + "\n",
		"99999999999999999999\n", "$(kill " + pid + ")\n", "*\n", "\x00\xff\n", "../" + pid + "\n", pid + "/../1\n"} {
		t.Run(strconv.Quote(text), func(t *testing.T) {
			writePID(t, dir, text)
			call(t, path, "ACTION=ifup")
			daemon.wantNoPoke(t)
		})
	}
	for _, text := range []string{pid, pid + "\n", "  " + pid + "\n"} {
		t.Run(strconv.Quote(text), func(t *testing.T) {
			writePID(t, dir, text)
			call(t, path, "ACTION=ifup")
			daemon.wantPoke(t)
		})
	}
	if err := os.Remove(filepath.Join(dir, "pid")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "pid"), 0o755); err != nil {
		t.Fatal(err)
	}
	call(t, path, "ACTION=ifup")
}

func TestStoppedDaemon(t *testing.T) {
	needBusybox(t)
	dir := t.TempDir()
	daemon := start(t, "fastpath", "run")
	writePID(t, dir, strconv.Itoa(daemon.pid)+"\n")
	if err := syscall.Kill(daemon.pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	call(t, script(t, "iface", dir), "ACTION=ifup")
	if err := syscall.Kill(daemon.pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	daemon.wantPoke(t)
}

// The best of many calls: what the script itself takes, however busy the
// machine is.
func TestReturnsAtOnce(t *testing.T) {
	needBusybox(t)
	dir := t.TempDir()
	daemon := start(t, "fastpath", "run")
	writePID(t, dir, strconv.Itoa(daemon.pid)+"\n")
	path := script(t, "iface", dir)
	best := time.Hour
	for range 50 {
		best = min(best, call(t, path, "ACTION=ifup"))
	}
	daemon.wantPoke(t)
	t.Logf("best of 50 calls: %v", best)
	if best > 50*time.Millisecond {
		t.Errorf("takes %v, netifd's queue waits no longer than 50ms", best)
	}
}
