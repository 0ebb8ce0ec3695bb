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
	Explain(t Tuple) (Explanation, error)
	// Flush sends the engines' flows that match back to the slow path; with
	// nil everything, the flowtable too.
	Flush(match func(state.Flow) bool) (Flushed, error)
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
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
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
	var out Reply
	var err error
	switch r.Request {
	case AskStatus:
		var d Document
		d, err = s.handler.Status()
		out.Status = &d
	case AskPrometheus:
		var d Document
		if d, err = s.handler.Status(); err == nil {
			replyText(conn, d)
			return
		}
	case AskFlows:
		if err = s.replyFlows(conn, r.Filter); err == nil {
			return
		}
	case AskExplain:
		out.Explanation, err = s.explain(r.Tuple)
	case AskFlush:
		out.Flushed, err = s.flush(r.Filter)
	case AskNotify:
		s.handler.Notify(r.Kind, r.Values)
	}
	if err != nil {
		out = Reply{Error: err.Error()}
	}
	reply(conn, out)
}

func (s *Server) explain(words []string) (*Explanation, error) {
	tuple, err := ParseTuple(words)
	if err != nil {
		return nil, err
	}
	e, err := s.handler.Explain(tuple)
	return &e, err
}

func (s *Server) flush(words []string) (*Flushed, error) {
	filter, err := ParseFilter(words)
	if err != nil {
		return nil, err
	}
	match := filter.Match
	if len(words) == 0 {
		match = nil
	}
	f, err := s.handler.Flush(match)
	return &f, err
}

// reply writes one line. A client that is gone is not our problem.
func reply(conn net.Conn, r Reply) {
	conn.SetWriteDeadline(time.Now().Add(clientTime))
	json.NewEncoder(conn).Encode(r)
}

// replyText writes the metrics.
func replyText(conn net.Conn, d Document) {
	conn.SetWriteDeadline(time.Now().Add(clientTime))
	w := bufio.NewWriter(conn)
	d.WritePrometheus(w)
	w.Flush()
}

// replyFlows writes the list flow by flow: thousands of them as one piece
// would be megabytes on a small router. The handler's loop goes on meanwhile.
func (s *Server) replyFlows(conn net.Conn, words []string) error {
	filter, err := ParseFilter(words)
	if err != nil {
		return err
	}
	flows, err := s.handler.Flows()
	if err != nil {
		return err
	}
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
		if _, err := w.Write(text); err != nil {
			return nil // the client is gone
		}
		sep = ","
	}
	w.WriteString("]}\n")
	w.Flush()
	return nil
}
