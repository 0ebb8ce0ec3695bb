// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"fastpath/src/status"
	"fastpath/src/testkit"
)

// patience is for a busy machine; nothing here is measured by time.
const patience = 2 * time.Minute

// proc is a daemon of a test, in a network namespace of its own.
type proc struct {
	t       *testing.T
	ns      *testkit.Netns
	cmd     *exec.Cmd
	config  string
	run     string
	manager *net.UnixConn // what systemd would hear
	log     lockedBuffer
	done    chan error
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

const ports = "config port\n\toption device 'p0'\nconfig port\n\toption device 'p1'\n"

// newProc makes the namespace with two ports, and the files.
func newProc(t *testing.T) *proc {
	t.Helper()
	p := &proc{t: t, ns: testkit.NewNetns(t, "cmd"), config: configDir(t, good+ports), run: t.TempDir()}
	p.ns.Run(t, `
		ip link add p0 type veth peer name q0
		ip link add p1 type veth peer name q1
		ip link set p0 up
		ip link set p1 up`)
	p.listen()
	return p
}

// listen is what systemd does for a service.
func (p *proc) listen() {
	p.t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(p.run, "notify"), Net: "unixgram"})
	if err != nil {
		p.t.Fatal(err)
	}
	p.manager = conn
	p.t.Cleanup(func() { conn.Close() })
}

// start runs the daemon and waits until it is ready.
func (p *proc) start(env ...string) {
	p.t.Helper()
	p.cmd = p.ns.Command(binary, "run", "--config", p.config, "--run", p.run, "--level", "debug")
	p.cmd.Env = append(append(os.Environ(), "NOTIFY_SOCKET="+filepath.Join(p.run, "notify")), env...)
	p.cmd.Stderr = &p.log
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.done = make(chan error, 1)
	go func() { p.done <- p.cmd.Wait() }()
	p.t.Cleanup(func() { p.cmd.Process.Kill() })
	p.hear("READY=1")
}

// hear waits for the service manager to be told this.
func (p *proc) hear(want string) string {
	p.t.Helper()
	p.manager.SetReadDeadline(time.Now().Add(patience))
	buf := make([]byte, 4096)
	for {
		n, err := p.manager.Read(buf)
		if err != nil {
			p.t.Fatalf("the service manager never heard %s; log:\n%s", want, p.log.String())
		}
		if said := string(buf[:n]); strings.Contains(said, want) {
			return said
		}
	}
}

func (p *proc) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// ended waits for the daemon's exit code.
func (p *proc) ended() int {
	p.t.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		p.t.Fatalf("it doesn't end; log:\n%s", p.log.String())
		return -1
	}
}

// inside runs another command of fastpath against the same directories.
func (p *proc) inside(args ...string) result {
	p.t.Helper()
	return finish(p.t, p.ns.Command(binary, args...))
}

func (p *proc) document() status.Document {
	p.t.Helper()
	r := p.inside("status", "--json", "--run", p.run)
	var d status.Document
	if err := json.Unmarshal([]byte(r.stdout), &d); err != nil || r.code != 0 {
		p.t.Fatalf("status: %v, %+v", err, r)
	}
	return d
}

func (p *proc) exists(name string) bool {
	_, err := os.Stat(filepath.Join(p.run, name))
	return err == nil
}

func TestDaemon(t *testing.T) {
	p := newProc(t)
	p.start()
	pid, err := os.ReadFile(filepath.Join(p.run, "pid"))
	if err != nil || strings.TrimSpace(string(pid)) != strconv.Itoa(p.cmd.Process.Pid) {
		t.Errorf("pid file %q, %v; want %d", pid, err, p.cmd.Process.Pid)
	}
	d := p.document()
	if d.Version != "9.8.7" || d.PID != p.cmd.Process.Pid || !d.Report.Enabled || d.Look.Count == 0 || len(d.Report.Ports) != 2 || d.Report.HookReason == "" {
		t.Errorf("status %+v", d)
	}
	if r := p.inside("status", "--run", p.run); r.code != 0 || !strings.Contains(r.stdout, "ccelerating") || !strings.Contains(r.stdout, "\np0") {
		t.Errorf("status for a person: %+v", r)
	}
	if r := p.inside("flows", "--json", "--run", p.run, "tcp"); r != (result{0, "{\n  \"flows\": []\n}\n", ""}) {
		t.Errorf("flows: %+v", r)
	}
	if r := p.inside("plan", "--config", p.config, "--run", p.run); r.code != 0 || r.stdout != "nothing to do\n" {
		t.Errorf("plan beside the daemon: %+v", r)
	}
	if r := p.inside("status", "--prometheus", "--run", p.run); r.code != 0 || !strings.HasPrefix(r.stdout, "# HELP fastpath_info ") || !strings.HasSuffix(r.stdout, "\n# EOF\n") {
		t.Errorf("metrics: %+v", r)
	}
	if r := p.inside("flush", "--run", p.run, "engine", "xdp"); r.code != 0 || !strings.HasPrefix(r.stdout, "0 engine flows sent back") || !strings.Contains(r.stdout, "can't be singled out") {
		t.Errorf("flush: %+v", r)
	}

	p.signal(syscall.SIGTERM)
	p.hear("STOPPING=1")
	if code := p.ended(); code != 0 || p.exists("pid") || p.exists("control.sock") {
		t.Errorf("stopped with %d, pid file %v, socket %v", code, p.exists("pid"), p.exists("control.sock"))
	}
	if strings.Contains(p.log.String(), "time=") || !strings.Contains(p.log.String(), "level=INFO") {
		t.Errorf("the log has time stamps, or nothing:\n%s", p.log.String())
	}
}

func TestSecondInstance(t *testing.T) {
	p := newProc(t)
	p.start()
	want := fmt.Sprintf("running already (pid %d)", p.cmd.Process.Pid)
	p.inside("run", "--config", p.config, "--run", p.run).oneLine(t, 1, want)
	p.inside("cleanup", "--run", p.run).oneLine(t, 1, want)
	if p.document().PID != p.cmd.Process.Pid {
		t.Error("the first one was disturbed")
	}
	p.signal(syscall.SIGINT)
	if code := p.ended(); code != 0 {
		t.Errorf("SIGINT: exit code %d", code)
	}
	if r := p.inside("cleanup", "--run", p.run); r != (result{}) {
		t.Errorf("cleanup after it: %+v", r)
	}
}

func TestReload(t *testing.T) {
	p := newProc(t)
	p.start()
	file := filepath.Join(p.config, "fastpath")
	if err := os.WriteFile(file, []byte(good+"\toption hook 'soon'\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGHUP)
	if said := p.hear("RELOADING=1"); !strings.Contains(said, "MONOTONIC_USEC=") {
		t.Errorf("said %q", said)
	}
	p.hear("READY=1")
	d := p.document()
	want := file + ":3: "
	if d.Config.InForce != status.LastGood || len(d.Config.Problems) != 1 || !strings.HasPrefix(d.Config.Problems[0], want) || len(d.Report.Ports) != 2 {
		t.Errorf("after a broken reload: %+v", d)
	}
	if !strings.Contains(p.log.String(), want) {
		t.Errorf("the log lacks %s:\n%s", want, p.log.String())
	}
	if r := p.inside("plan", "--config", p.config, "--run", p.run); r.code != 1 || !strings.Contains(r.stderr, want) {
		t.Errorf("plan with the broken file: %+v", r)
	}
}

// waitLooks waits until the daemon has looked more often than that.
func (p *proc) waitLooks(more uint64) {
	p.t.Helper()
	for end := time.Now().Add(patience); p.document().Look.Count <= more; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatalf("no look after %d", more)
		}
	}
}

func TestLooksAgain(t *testing.T) {
	p := newProc(t)
	p.start()
	for name, poke := range map[string]func(){
		"SIGUSR1": func() { p.signal(syscall.SIGUSR1) },
		"notify": func() {
			if r := p.inside("notify", "--run", p.run, "iface", "ACTION=ifup", "INTERFACE=wan"); r != (result{}) {
				t.Errorf("notify: %+v", r)
			}
		},
		"a new device": func() { p.ns.Run(t, "ip link add late type veth peer name late1") },
	} {
		t.Run(name, func(t *testing.T) {
			before := p.document().Look.Count
			poke()
			p.waitLooks(before)
		})
	}
}

// A daemon that hangs must not hold up netifd's hotplug.
func TestNotifyDoesNotWait(t *testing.T) {
	p := newProc(t)
	p.start()
	p.signal(syscall.SIGSTOP)
	if r := p.inside("notify", "--run", p.run, "net", "ACTION=add"); r != (result{}) {
		t.Errorf("notify: %+v", r)
	}
	p.signal(syscall.SIGCONT)
	p.waitLooks(p.document().Look.Count - 1)
}

func TestKilled(t *testing.T) {
	p := newProc(t)
	p.start()
	p.signal(syscall.SIGKILL)
	p.ended()
	if !p.exists("pid") || !p.exists("control.sock") {
		t.Fatal("this test wants what a dead daemon leaves")
	}
	p.inside("status", "--run", p.run).oneLine(t, 1, "fastpath is not running (start it: ")
	if r := p.inside("notify", "--run", p.run, "iface"); r != (result{}) {
		t.Errorf("notify to a dead daemon: %+v", r)
	}
	p.start()
	if d := p.document(); d.PID != p.cmd.Process.Pid || len(d.Look.Problems) != 0 {
		t.Errorf("the next one: %+v", d)
	}
}

func TestWatchdog(t *testing.T) {
	p := newProc(t)
	p.start("WATCHDOG_USEC=400000")
	for range 5 {
		p.hear("WATCHDOG=1")
	}
}

func TestGarbageOnSocket(t *testing.T) {
	p := newProc(t)
	p.start()
	rng := rand.New(rand.NewPCG(3, 4))
	for _, size := range []int{1, 10, 1000, 100_000} {
		junk := make([]byte, size)
		for i := range junk {
			junk[i] = byte(rng.Uint32())
		}
		conn, err := net.Dial("unix", filepath.Join(p.run, "control.sock"))
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(patience))
		conn.Write(append(junk, '\n')) // it may hang up in the middle
		back, _ := io.ReadAll(conn)
		conn.Close()
		var r status.Reply
		if json.Unmarshal(back, &r) != nil || r.Error == "" || bytes.Count(back, []byte("\n")) != 1 {
			t.Errorf("%d bytes of junk get %q, want one line with an error", size, back)
		}
	}
	if d := p.document(); d.PID != p.cmd.Process.Pid || len(d.Look.Problems) != 0 {
		t.Errorf("after it: %+v", d)
	}
}

// A user without rights gets one line each, and changes nothing.
func TestNotAllowed(t *testing.T) {
	testkit.NeedNetns(t)
	const nobody = 65534
	dir, err := os.MkdirTemp("", "fastpath-nobody")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "fastpath")
	if err := os.WriteFile(config, []byte(good+ports), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"run", "--config", dir, "--run", dir + "/run"},
		{"plan", "--config", dir, "--run", dir + "/run"},
		{"cleanup", "--run", dir + "/run"},
	} {
		cmd := exec.Command(binary, args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags: syscall.CLONE_NEWNET,
			Credential: &syscall.Credential{Uid: nobody, Gid: nobody},
		}
		r := finish(t, cmd)
		if r.code != 1 || r.stdout != "" || !strings.Contains(r.stderr, "CAP_NET_ADMIN") || strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("%s: %+v, want one line with CAP_NET_ADMIN", args[0], r)
		}
	}
	cmd := exec.Command(binary, "run", "--run", "/proc/fastpath")
	finish(t, cmd).oneLine(t, 1, "run directory")
}
