// SPDX-License-Identifier: Apache-2.0

// Package files tests what lies on the router besides the binary.
package files

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"fastpath/src/testkit"
)

// router is where a copy of the init script finds its surroundings.
type router struct {
	init string // the script
	dir  string // in place of /var/run/fastpath
}

// newRouter copies the init script and gives it a RAM size in KiB and a
// stand-in for the binary that prints how it was called.
func newRouter(t *testing.T, kib int) router {
	t.Helper()
	_, err := exec.LookPath("busybox")
	testkit.Need(t, err == nil, "no busybox")
	dir := t.TempDir()
	prog := filepath.Join(dir, "fastpath")
	write(t, prog, "#!/bin/sh\necho \"fastpath $*\"\n")
	meminfo := filepath.Join(dir, "meminfo")
	write(t, meminfo, "MemTotal:       "+strconv.Itoa(kib)+" kB\nMemFree:  7 kB\n")
	text, err := os.ReadFile("fastpath.init")
	if err != nil {
		t.Fatal(err)
	}
	script := string(text)
	run := filepath.Join(dir, "run")
	for from, to := range map[string]string{
		"PROG=/usr/sbin/fastpath\n": "PROG=" + prog + "\n",
		"RUN=/var/run/fastpath\n":   "RUN=" + run + "\n",
		"</proc/meminfo":            "<" + meminfo,
	} {
		if strings.Count(script, from) != 1 {
			t.Fatalf("fastpath.init: want exactly one %q", from)
		}
		script = strings.Replace(script, from, to, 1)
	}
	init := filepath.Join(dir, "fastpath.init")
	write(t, init, script)
	return router{init, run}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// run is /etc/init.d/fastpath ACTION; it returns the recorded calls.
func (r router) run(action string, env ...string) (string, error) {
	cmd := exec.Command("busybox", "ash", "testdata/rc.common", r.init, action)
	cmd.Env = append(env, "PATH="+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("init %s with %q: %w\n%s", action, env, err, out)
	}
	return strings.ReplaceAll(string(out), filepath.Dir(r.init)+"/fastpath", "/usr/sbin/fastpath"), nil
}

func (r router) call(t *testing.T, action string, env ...string) string {
	t.Helper()
	out, err := r.run(action, env...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

const (
	head = `procd_open_service fastpath
config_load fastpath
config_get_bool enabled main enabled 0
`
	instance = `procd_open_instance
procd_set_param command /usr/sbin/fastpath run
procd_set_param file /usr/sbin/fastpath
procd_set_param respawn
procd_set_param stdout 1
procd_set_param stderr 1
procd_set_param env GOMEMLIMIT=64MiB
procd_close_instance
`
	tail = `procd_add_reload_trigger fastpath network firewall
procd_close_service set
`
)

func TestInit(t *testing.T) {
	ran := newRouter(t, 1024*1024) // the daemon has run since boot
	if err := os.Mkdir(ran.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	fresh := newRouter(t, 1024*1024)
	tests := []struct {
		name   string
		router router
		action string
		env    []string
		want   string
	}{
		{"on", fresh, "start", []string{"ENABLED=1"}, head + instance + tail},
		{"on in words", fresh, "start", []string{"ENABLED=true"}, head + instance + tail},
		{"off: no instance, but the triggers", fresh, "start", []string{"ENABLED=0"}, head + tail},
		{"not written", fresh, "start", nil, head + tail},
		{"nonsense", fresh, "start", []string{"ENABLED=maybe"}, head + tail},
		{"reload while running", fresh, "reload", []string{"ENABLED=1", "RUNNING=1"},
			"procd_running fastpath\n" + head + instance + tail + "procd_send_signal fastpath\n"},
		{"switched on", fresh, "reload", []string{"ENABLED=1", "RUNNING=0"}, "procd_running fastpath\n" + head + instance + tail},
		{"switched off", ran, "reload", []string{"ENABLED=0", "RUNNING=1"},
			"procd_running fastpath\n" + head + tail + "procd_running fastpath\nfastpath cleanup\n"},
		{"stop", ran, "stop", []string{"ENABLED=1", "RUNNING=1"}, "procd_kill fastpath\nprocd_running fastpath\nfastpath cleanup\n"},
		{"stop of a dead one", fresh, "stop", []string{"RUNNING=0"}, "procd_kill fastpath\nprocd_running fastpath\nfastpath cleanup\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.router.call(t, tt.action, tt.env...); got != tt.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, tt.want)
			}
		})
	}
}

// cleanup is refused while a daemon has the lock, so stop waits for its end.
func TestStopWaitsForDaemon(t *testing.T) {
	r := newRouter(t, 1024*1024)
	if err := os.Mkdir(r.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	lock, err := os.Create(filepath.Join(r.dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	var out string
	go func() {
		var err error
		out, err = r.run("stop", "RUNNING=1")
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("did not wait: %v\n%s", err, out)
	case <-time.After(300 * time.Millisecond):
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil || !strings.HasSuffix(out, "fastpath cleanup\n") {
		t.Errorf("after the daemon's end: %v\n%s", err, out)
	}
}

func TestInitMemory(t *testing.T) {
	tests := []struct {
		mib  int
		want []string
	}{
		{64, []string{"procd_set_param env GOMEMLIMIT=16MiB", "procd_append_param env GOGC=50"}},
		{128, []string{"procd_set_param env GOMEMLIMIT=16MiB", "procd_append_param env GOGC=50"}},
		{256, []string{"procd_set_param env GOMEMLIMIT=16MiB"}},
		{512, []string{"procd_set_param env GOMEMLIMIT=32MiB"}},
		{16384, []string{"procd_set_param env GOMEMLIMIT=128MiB"}},
	}
	for _, tt := range tests {
		t.Run(strconv.Itoa(tt.mib)+"MiB", func(t *testing.T) {
			var got []string
			for _, line := range strings.Split(newRouter(t, tt.mib*1024).call(t, "start", "ENABLED=1"), "\n") {
				if strings.Contains(line, " env ") {
					got = append(got, line)
				}
			}
			if strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// The numbers stand between those of OpenWrt's own scripts.
func TestInitOrder(t *testing.T) {
	text, err := os.ReadFile("fastpath.init")
	if err != nil {
		t.Fatal(err)
	}
	number := func(name string) int {
		m := regexp.MustCompile(`(?m)^` + name + `=(\d+)$`).FindSubmatch(text)
		if m == nil {
			t.Fatalf("no %s=", name)
		}
		n, _ := strconv.Atoi(string(m[1]))
		return n
	}
	if start := number("START"); start <= 20 {
		t.Errorf("START=%d, want after firewall (19) and network (20)", start)
	}
	if stop := number("STOP"); stop >= 90 {
		t.Errorf("STOP=%d, want before network (90)", stop)
	}
}

// systemd itself must know every word of the unit.
func TestUnit(t *testing.T) {
	_, err := exec.LookPath("systemd-analyze")
	testkit.Need(t, err == nil, "no systemd-analyze")
	text, err := os.ReadFile("fastpath.service")
	if err != nil {
		t.Fatal(err)
	}
	// verify wants the command to exist; /bin/true stands in for it.
	unit := filepath.Join(t.TempDir(), "fastpath.service")
	write(t, unit, strings.ReplaceAll(string(text), "/usr/sbin/fastpath", "/bin/true"))
	if err := os.Chmod(unit, 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("systemd-analyze", "verify", unit).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
