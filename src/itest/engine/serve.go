// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bufio"
	"bytes"
	"encoding/gob"
	"fmt"
	"io"
	"os/exec"
	"strings"
)

// A router in a process of its own: Serve is in the process, Launch outside.

const ready = "ready\n"

// Serve reads a Spec from in, forwards in the current network namespace until
// in ends, and writes the Stats to out. Each further Spec changes the Devices.
func Serve(in io.Reader, out io.Writer) error { return serve(in, out, func(*Router) {}) }

// serve is Serve with something beside the router, which ends with the process.
func serve(in io.Reader, out io.Writer, beside func(*Router)) error {
	var spec Spec
	specs := gob.NewDecoder(in)
	if err := specs.Decode(&spec); err != nil {
		return err
	}
	r, err := Start(spec)
	if err == nil {
		go beside(r)
	}
	for err == nil {
		if _, err := io.WriteString(out, ready); err != nil {
			return err
		}
		spec = Spec{} // what is empty isn't in the stream
		if err = specs.Decode(&spec); err == nil {
			err = r.Devices(spec.Devices)
		}
	}
	if err != io.EOF {
		return err
	}
	st, err := r.Stats()
	if err != nil {
		return err
	}
	if err := gob.NewEncoder(out).Encode(st); err != nil {
		return err
	}
	return r.Close()
}

// Process is a running router.
type Process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	specs  *gob.Encoder // to stdin
	stdout *bufio.Reader
	stderr bytes.Buffer
	ended  bool
}

// Launch starts cmd, which must call Serve with its standard input and output,
// and waits until it forwards. If it can't, the error is what it wrote to stderr.
func Launch(cmd *exec.Cmd, spec Spec) (*Process, error) {
	p := &Process{cmd: cmd}
	cmd.Stderr = &p.stderr
	var err error
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	p.specs = gob.NewEncoder(p.stdin)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.stdout = bufio.NewReader(out)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if err := p.tell(spec); err != nil {
		p.Kill()
		return nil, err
	}
	return p, nil
}

// tell hands it a Spec and waits until it has done what that says.
func (p *Process) tell(spec Spec) error {
	if err := p.specs.Encode(spec); err != nil {
		return err
	}
	if line, err := p.stdout.ReadString('\n'); err != nil || line != ready {
		p.Kill() // so that stderr is complete
		return fmt.Errorf("%s", strings.TrimSuffix(p.stderr.String(), "\n"))
	}
	return nil
}

// Devices changes the router's devices; see Router.Devices.
func (p *Process) Devices(names ...string) error { return p.tell(Spec{Devices: names}) }

// PID is the process's.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill ends it at once, by SIGKILL, if it hasn't ended.
func (p *Process) Kill() {
	if !p.ended {
		p.ended = true
		_ = p.cmd.Process.Kill() // it may be gone
		_ = p.cmd.Wait()         // and says how
	}
}

// Finish lets it end in order and returns what it counted.
func (p *Process) Finish() (Stats, error) {
	defer p.Kill()
	var st Stats
	if err := p.stdin.Close(); err != nil {
		return st, err
	}
	if err := gob.NewDecoder(p.stdout).Decode(&st); err != nil {
		return st, fmt.Errorf("statistics of the router: %w; %s", err, p.stderr.String())
	}
	p.ended = true
	if err := p.cmd.Wait(); err != nil {
		return st, fmt.Errorf("the router ended with %w: %s", err, p.stderr.String())
	}
	return st, nil
}
