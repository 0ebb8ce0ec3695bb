// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"fastpath/src/itest/icount"
	"fastpath/src/itest/topo"
	"fastpath/src/state"
	"fastpath/src/status"
)

// absent is the error for a path that this kernel doesn't have.
type absent struct{ reason string }

func (a absent) Error() string { return a.reason }

// start runs the daemon until the flows are on the path.
func start(p icount.Path, flows int) (stop func() error, err error) {
	if err := topo.Plain.WriteConfig("/etc/config", topo.Engine{}); err != nil {
		return nil, err
	}
	if err := os.WriteFile("/etc/config/fastpath", []byte(p.Config()), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command("fastpath", "run")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stdout
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop = func() error {
		return errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait())
	}
	if err := carrying(p, flows); err != nil {
		return nil, errors.Join(err, stop())
	}
	return stop, nil
}

// carrying waits until the daemon has settled on the path and all flows are on it.
func carrying(p icount.Path, flows int) error {
	var last error
	var never absent
	refused := 0 // times in a row: a hook may need a second look
	err := wait("the flows on their path", func() bool {
		last = settled(p)
		if errors.As(last, &never) {
			refused++
			return refused == 10
		}
		refused = 0
		return last == nil && carried(p.Engine) == flows
	})
	if errors.As(last, &never) {
		return last
	}
	if err != nil {
		out, _ := exec.Command("fastpath", "status").CombinedOutput()
		return fmt.Errorf("%w: %v; status: %s", err, last, out)
	}
	return nil
}

// settled is nil once the daemon has what the path asks for; an absent says why
// this kernel won't have it.
func settled(p icount.Path) error {
	out, err := exec.Command("fastpath", "status", "--json").Output()
	if err != nil {
		return err
	}
	var doc status.Document
	if err := json.Unmarshal(out, &doc); err != nil {
		return err
	}
	r := doc.Report
	switch {
	case p.Hook == state.HookEarly && r.Hook == state.HookIngress:
		return absent{r.HookReason}
	case p.Hook != "" && r.Hook != p.Hook:
		return fmt.Errorf("hook %s: %s", r.Hook, r.HookReason)
	case p.Hook == state.HookEarly && doc.Early.Verdict != status.Confirmed: // the daemon looks closer until then
		return fmt.Errorf("early_ingress is %s", doc.Early.Verdict)
	}
	return ports(p, r.Ports)
}

// ports is nil when each port has what the path asks for.
func ports(p icount.Path, all []state.PortReport) error {
	for _, name := range []string{"lan1", "wan"} {
		i := slices.IndexFunc(all, func(r state.PortReport) bool { return r.Name == name })
		if i < 0 {
			return fmt.Errorf("no port %s", name)
		}
		switch r := all[i]; {
		case r.Engine != p.Engine:
			return fmt.Errorf("%s has engine %s: %s", name, r.Engine, r.EngineReason)
		case p.Receive != "" && r.Receive != p.Receive:
			return fmt.Errorf("%s receives by %s: %s", name, r.Receive, r.ReceiveReason)
		}
	}
	return nil
}

// carried is how many flows the engine has.
func carried(engine string) (n int) {
	out, err := exec.Command("fastpath", "flows", "--json").Output()
	var list struct{ Flows []state.Flow }
	if err != nil || json.Unmarshal(out, &list) != nil {
		return 0
	}
	for _, f := range list.Flows {
		if f.Engine == engine {
			n++
		}
	}
	return n
}

func wait(what string, ok func() bool) error {
	for range 600 {
		if ok() {
			return nil
		}
		time.Sleep(time.Second)
	}
	return fmt.Errorf("not within ten minutes: %s", what)
}
