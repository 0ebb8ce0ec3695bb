// SPDX-License-Identifier: Apache-2.0

package status

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"fastpath/src/state"
)

// ErrNotRunning means that nobody answers on the control socket.
var ErrNotRunning = errors.New("fastpath is not running")

// askTime is generous: the daemon answers between two looks at the kernel.
const askTime = 30 * time.Second

// Ask sends one request to the daemon that runs in runDir and returns its
// answer. Errors: ErrNotRunning, or what the daemon said.
func Ask(runDir string, r Request) (Reply, error) { return ask(runDir, r, askTime) }

func ask(runDir string, r Request, limit time.Duration) (Reply, error) {
	conn, err := send(runDir, r, limit)
	if err != nil {
		return Reply{}, err
	}
	defer conn.Close()
	return read(json.NewDecoder(conn))
}

// send connects and asks.
func send(runDir string, r Request, limit time.Duration) (net.Conn, error) {
	conn, err := dial(runDir)
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Now().Add(limit))
	if err := json.NewEncoder(conn).Encode(r); err != nil {
		conn.Close()
		return nil, fmt.Errorf("ask the daemon: %w", err)
	}
	return conn, nil
}

func read(d *json.Decoder) (Reply, error) {
	var reply Reply
	if err := d.Decode(&reply); err != nil {
		return Reply{}, noAnswer(err)
	}
	if reply.Error != "" {
		return Reply{}, errors.New(reply.Error)
	}
	return reply, nil
}

// noAnswer says what became of the daemon.
func noAnswer(err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("the daemon runs but doesn't answer: %w", err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return fmt.Errorf("the daemon ended before it answered: %w", err)
	}
	return fmt.Errorf("the daemon's answer: %w", err)
}

// AskDocument asks for the status.
func AskDocument(runDir string) (Document, error) {
	reply, err := Ask(runDir, Request{Request: AskStatus})
	if err != nil {
		return Document{}, err
	}
	if reply.Status == nil {
		return Document{}, errors.New("the daemon's answer has no status")
	}
	return *reply.Status, nil
}

// AskFlowList asks for the flows that fit the filter's words.
func AskFlowList(runDir string, filter []string) ([]state.Flow, error) {
	reply, err := Ask(runDir, Request{Request: AskFlows, Filter: filter})
	return reply.Flows, err
}

// CopyPrometheus asks for the metrics and copies them to w.
func CopyPrometheus(runDir string, w io.Writer) error {
	conn, err := send(runDir, Request{Request: AskPrometheus}, askTime)
	if err != nil {
		return err
	}
	defer conn.Close()
	text, err := io.ReadAll(conn)
	switch {
	case err != nil:
		return noAnswer(err)
	case bytes.HasPrefix(text, []byte("{")): // metrics begin with a comment
		_, err := read(json.NewDecoder(bytes.NewReader(text)))
		return err
	case !bytes.HasSuffix(text, []byte(metricsEnd)):
		return noAnswer(io.ErrUnexpectedEOF)
	}
	_, err = w.Write(text)
	return err
}

// AskExplanation asks which path a connection takes, and why.
func AskExplanation(runDir string, tuple []string) (Explanation, error) {
	reply, err := Ask(runDir, Request{Request: AskExplain, Tuple: tuple})
	if err != nil {
		return Explanation{}, err
	}
	if reply.Explanation == nil {
		return Explanation{}, errors.New("the daemon's answer has no explanation")
	}
	return *reply.Explanation, nil
}

// AskToFlush sends flows back to the slow path: those of the engines that fit
// the filter's words, or without any everything.
func AskToFlush(runDir string, filter []string) (Flushed, error) {
	reply, err := Ask(runDir, Request{Request: AskFlush, Filter: filter})
	if err != nil {
		return Flushed{}, err
	}
	if reply.Flushed == nil {
		return Flushed{}, errors.New("the daemon's answer doesn't tell what it flushed")
	}
	return *reply.Flushed, nil
}

// Tell hands a notify over and doesn't wait for the answer: netifd's hotplug
// stands still meanwhile.
func Tell(runDir, kind string, values map[string]string) error {
	conn, err := dial(runDir)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Second))
	if err := json.NewEncoder(conn).Encode(Request{Request: AskNotify, Kind: kind, Values: values}); err != nil {
		return fmt.Errorf("notify the daemon: %w", err)
	}
	return nil
}

// dial doesn't go through net.Dial, which brings a DNS resolver of 250 kB.
func dial(runDir string) (net.Conn, error) {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: filepath.Join(runDir, socketName), Net: "unix"})
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, ErrNotRunning
	}
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	return conn, nil
}
