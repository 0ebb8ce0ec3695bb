// SPDX-License-Identifier: Apache-2.0

package status

import (
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
	conn, err := dial(runDir)
	if err != nil {
		return Reply{}, err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(limit))
	if err := json.NewEncoder(conn).Encode(r); err != nil {
		return Reply{}, fmt.Errorf("ask the daemon: %w", err)
	}
	var reply Reply
	switch err := json.NewDecoder(conn).Decode(&reply); {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return Reply{}, fmt.Errorf("the daemon runs but doesn't answer: %w", err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return Reply{}, fmt.Errorf("the daemon ended before it answered: %w", err)
	case err != nil:
		return Reply{}, fmt.Errorf("the daemon's answer: %w", err)
	}
	if reply.Error != "" {
		return Reply{}, errors.New(reply.Error)
	}
	return reply, nil
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

func dial(runDir string) (net.Conn, error) {
	conn, err := net.Dial("unix", filepath.Join(runDir, socketName))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, ErrNotRunning
	}
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	return conn, nil
}
