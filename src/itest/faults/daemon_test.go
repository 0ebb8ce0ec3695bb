// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"fastpath/src/state"
	"fastpath/src/status"
)

// daemon is a running `fastpath run`, a black box.
type daemon struct {
	cmd *exec.Cmd
	log lockedBuffer
	end chan error
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

// writeConfig is for plain Linux: no network, no firewall file; the sections
// name the devices. Veth devices are virtual, so it takes force.
func (l *lab) writeConfig(engine string) {
	l.Helper()
	var b strings.Builder
	fmt.Fprint(&b, "config fastpath 'main'\n\toption enabled '1'\n")
	for _, port := range []string{"br-lan", "w0"} {
		fmt.Fprintf(&b, "config port\n\toption device '%s'\n\toption engine '%s'\n\toption force '1'\n", port, engine)
	}
	config, _ := l.dirs()
	if err := os.MkdirAll(config, 0o755); err != nil {
		l.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(config, "fastpath"), []byte(b.String()), 0o644); err != nil {
		l.Fatal(err)
	}
}

// dirs are the configuration and run directories of the lab's daemon.
func (l *lab) dirs() (config, run string) {
	base := filepath.Join(work, l.router.Name)
	return filepath.Join(base, "config"), filepath.Join(base, "run")
}

// startDaemon starts it, unless this is the kernel alone, and waits until it answers.
func (l *lab) startDaemon() {
	l.Helper()
	if l.engine == "" {
		return
	}
	path, err := program()
	if err != nil {
		l.Fatal(err)
	}
	config, run := l.dirs()
	l.writeConfig(l.engine)
	d := &daemon{cmd: l.router.Command(path, "run", "--config", config, "--run", run), end: make(chan error, 1)}
	d.cmd.Stderr = &d.log
	if err := d.cmd.Start(); err != nil {
		l.Fatal(err)
	}
	go func() { d.end <- d.cmd.Wait() }()
	l.Cleanup(func() {
		d.cmd.Process.Kill() // it may have ended
		if l.Failed() {
			l.Logf("the daemon's log:\n%s", d.log.String())
		}
	})
	l.daemon = d
	eventually(l, "the daemon answers", func() bool { return l.ask("status", "--json") != "" })
	l.attached()
}

// broken are engines that once didn't start: to wait for them again shows nothing new.
var broken sync.Map

// attached waits until the status shows the engine on all three ports.
func (l *lab) attached() {
	l.Helper()
	_, known := broken.Load(l.engine)
	for deadline := time.Now().Add(patience); l.ports() < 3; time.Sleep(20 * time.Millisecond) {
		if known || time.Now().After(deadline) {
			broken.Store(l.engine, true)
			l.Fatalf("engine %s doesn't start on all ports: %s", l.engine, l.ask("status"))
		}
	}
}

// ports is on how many the engine runs.
func (l *lab) ports() (n int) {
	l.Helper()
	for _, p := range l.document().Report.Ports {
		if p.Engine == l.engine {
			n++
		}
	}
	return n
}

// ask runs a command of fastpath; "" if it fails.
func (l *lab) ask(command string, args ...string) string {
	l.Helper()
	path, err := program()
	if err != nil {
		l.Fatal(err)
	}
	_, run := l.dirs()
	var stderr bytes.Buffer
	cmd := l.router.Command(path, append([]string{command, "--run", run}, args...)...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	return string(out)
}

// document is what `status --json` says.
func (l *lab) document() (d status.Document) {
	l.Helper()
	if err := json.Unmarshal([]byte(l.ask("status", "--json")), &d); err != nil {
		l.Fatalf("status --json: %v", err)
	}
	return d
}

// flows is what `flows --json` says.
func (l *lab) flows(filter ...string) []state.Flow {
	l.Helper()
	var answer struct{ Flows []state.Flow }
	if err := json.Unmarshal([]byte(l.ask("flows", append([]string{"--json"}, filter...)...)), &answer); err != nil {
		l.Fatalf("flows --json: %v", err)
	}
	return answer.Flows
}

// signal sends one to the daemon, if there is one.
func (l *lab) signal(s syscall.Signal) {
	l.Helper()
	if l.daemon == nil {
		return
	}
	if err := l.daemon.cmd.Process.Signal(s); err != nil {
		l.Fatal(err)
	}
}

// killDaemon ends it by SIGKILL.
func (l *lab) killDaemon() {
	l.Helper()
	l.signal(syscall.SIGKILL)
	if l.daemon != nil {
		<-l.daemon.end
	}
}

// stopDaemon ends it in order, and checks that it could.
func (l *lab) stopDaemon() {
	l.Helper()
	if l.daemon == nil {
		return
	}
	l.signal(syscall.SIGTERM)
	if err := <-l.daemon.end; err != nil {
		l.Errorf("the daemon ended with: %v", err)
	}
	if left := l.router.Run(l, "nft list tables"); strings.Contains(left, "fastpath") {
		l.Errorf("the daemon left tables behind:\n%s", left)
	}
	if left := l.router.Run(l, "ip link"); strings.Contains(left, "xdp") {
		l.Errorf("the daemon left XDP programs behind:\n%s", left)
	}
	l.daemon = nil
}
