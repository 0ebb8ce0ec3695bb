// SPDX-License-Identifier: Apache-2.0

package status

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"fastpath/src/state"
)

const (
	socketName = "control.sock"
	// clientTime is what a client has for its whole request, and then again
	// to take its reply: who opens the socket and says nothing is dropped.
	clientTime = 5 * time.Second
	// maxClients at once; one more is told to come back later.
	maxClients = 256
)

// Handler answers requests. Many clients call it at once.
type Handler interface {
	Status() (Document, error)
	Flows() ([]state.Flow, error)
	Notify(kind string, values map[string]string)
}

// Server answers on the control socket until it is closed.
type Server struct {
	listener net.Listener
	handler  Handler
	log      *slog.Logger
	slots    chan struct{}
}

// Listen opens <runDir>/control.sock for root alone and answers on it. The
// caller holds the instance lock, so that a socket found there is a dead
// daemon's and is removed.
func Listen(runDir string, h Handler, log *slog.Logger) (*Server, error) {
	path := filepath.Join(runDir, socketName)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	// The mode must be right from the first moment, hence not chmod.
	old := syscall.Umask(0o177)
	l, err := net.Listen("unix", path)
	syscall.Umask(old)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	s := &Server{listener: l, handler: h, log: log, slots: make(chan struct{}, maxClients)}
	go s.accept()
	return s, nil
}

// Close removes the socket; no new client is answered.
func (s *Server) Close() error {
	if err := s.listener.Close(); err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	return nil
}

func (s *Server) accept() {
	for {
		conn, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of file descriptors: it may pass
			s.log.Error("control socket", "error", err)
			time.Sleep(time.Second)
			continue
		}
		select {
		case s.slots <- struct{}{}:
			go func() {
				defer func() { <-s.slots }()
				s.serve(conn)
			}()
		default:
			reply(conn, Reply{Error: fmt.Sprintf("busy: %d clients are being answered", maxClients)})
			conn.Close()
		}
	}
}

// serve answers one client. A bug in reading a request or in writing an
// answer costs that client its answer, not the router its daemon.
func (s *Server) serve(conn net.Conn) {
	defer conn.Close()
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("control socket: panic in a request", "panic", p, "stack", string(debug.Stack()))
			reply(conn, Reply{Error: "internal error, see the log"})
		}
	}()
	conn.SetReadDeadline(time.Now().Add(clientTime))
	line, err := bufio.NewReaderSize(conn, MaxRequest).ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		reply(conn, Reply{Error: fmt.Sprintf("a request has at most %d bytes", MaxRequest)})
		return
	case errors.Is(err, os.ErrDeadlineExceeded):
		reply(conn, Reply{Error: fmt.Sprintf("no request within %v", clientTime)})
		return
	case err != nil && len(line) == 0: // it just closed
		return
	}
	r, err := ParseRequest(line)
	if err != nil {
		reply(conn, Reply{Error: err.Error()})
		return
	}
	s.answer(conn, r)
}

func (s *Server) answer(conn net.Conn, r Request) {
	switch r.Request {
	case AskStatus:
		d, err := s.handler.Status()
		if err != nil {
			reply(conn, Reply{Error: err.Error()})
			return
		}
		reply(conn, Reply{Status: &d})
	case AskFlows:
		filter, err := ParseFilter(r.Filter)
		if err != nil {
			reply(conn, Reply{Error: err.Error()})
			return
		}
		flows, err := s.handler.Flows()
		if err != nil {
			reply(conn, Reply{Error: err.Error()})
			return
		}
		replyFlows(conn, filter, flows)
	case AskNotify:
		s.handler.Notify(r.Kind, r.Values)
		reply(conn, Reply{})
	}
}

// reply writes one line. A client that is gone is not our problem.
func reply(conn net.Conn, r Reply) {
	conn.SetWriteDeadline(time.Now().Add(clientTime))
	json.NewEncoder(conn).Encode(r)
}

// replyFlows writes the list flow by flow: thousands of them as one piece
// would be megabytes on a small router.
func replyFlows(conn net.Conn, filter Filter, flows []state.Flow) {
	w := bufio.NewWriter(conn)
	w.WriteString(`{"flows":[`)
	sep := ""
	for _, f := range flows {
		if !filter.Match(f) {
			continue
		}
		text, err := json.Marshal(f)
		if err != nil {
			continue // plain strings and numbers: can't happen
		}
		conn.SetWriteDeadline(time.Now().Add(clientTime))
		w.WriteString(sep)
		w.Write(text)
		sep = ","
	}
	w.WriteString("]}\n")
	w.Flush()
}
