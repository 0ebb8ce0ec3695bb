// SPDX-License-Identifier: Apache-2.0

package status

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fastpath/src/state"
)

// handler answers with fixed things and counts.
type handler struct {
	flows    []state.Flow
	err      error
	notified atomic.Int64
	panics   atomic.Bool
}

func (h *handler) Status() (Document, error) {
	if h.panics.Load() {
		panic("a bug")
	}
	return Document{Version: "1.2.3", PID: 42}, h.err
}
func (h *handler) Flows() ([]state.Flow, error) { return h.flows, h.err }
func (h *handler) Explain(t Tuple) (Explanation, error) {
	return Explanation{Path: PathSlow, Text: fmt.Sprint(t)}, h.err
}
func (h *handler) Flush(match func(state.Flow) bool) (Flushed, error) {
	f := Flushed{Filtered: match != nil}
	for _, flow := range h.flows {
		if match == nil || match(flow) {
			f.Engines++
		}
	}
	return f, h.err
}
func (h *handler) Notify(kind string, _ map[string]string) { h.notified.Add(1) }

func serve(t *testing.T, h *handler) (runDir string) {
	t.Helper()
	dir := t.TempDir()
	s, err := Listen(dir, h, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// raw sends bytes as they are and returns what comes back until the end.
func raw(t *testing.T, dir string, send []byte, closeWrite bool) string {
	t.Helper()
	conn, err := net.Dial("unix", filepath.Join(dir, socketName))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	conn.Write(send) // the server may hang up in the middle
	if closeWrite {
		conn.(*net.UnixConn).CloseWrite()
	}
	back, _ := io.ReadAll(conn)
	return string(back)
}

func TestServer(t *testing.T) {
	h := &handler{flows: []state.Flow{filterFlow, {Proto: "udp"}}}
	dir := serve(t, h)

	info, err := os.Stat(filepath.Join(dir, socketName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket's mode is %v, %v; want 0600", info.Mode(), err)
	}
	doc, err := AskDocument(dir)
	if err != nil || doc.Version != "1.2.3" {
		t.Errorf("status: %+v, %v", doc, err)
	}
	flows, err := AskFlowList(dir, nil)
	if err != nil || !reflect.DeepEqual(flows, h.flows) {
		t.Errorf("flows: %+v, %v", flows, err)
	}
	flows, err = AskFlowList(dir, []string{"tcp", "port", "443"})
	if err != nil || !reflect.DeepEqual(flows, h.flows[:1]) {
		t.Errorf("filtered flows: %+v, %v", flows, err)
	}
	e, err := AskExplanation(dir, []string{"tcp", "192.0.2.1:1", "192.0.2.2:2"})
	if err != nil || e.Text != "{tcp [192.0.2.1:1 192.0.2.2:2]}" {
		t.Errorf("explain: %+v, %v", e, err)
	}
	for words, want := range map[string]Flushed{"": {Engines: 2}, "udp": {Engines: 1, Filtered: true}, "tcp port 1": {Filtered: true}} {
		if f, err := AskToFlush(dir, strings.Fields(words)); err != nil || f != want {
			t.Errorf("flush %s: %+v, %v; want %+v", words, f, err, want)
		}
	}
	var metrics strings.Builder
	if err := CopyPrometheus(dir, &metrics); err != nil {
		t.Error(err)
	}
	if _, err := scrape(metrics.String()); err != nil || !strings.Contains(metrics.String(), `version="1.2.3"`) {
		t.Errorf("metrics: %v\n%s", err, metrics.String())
	}
	if err := Tell(dir, "iface", map[string]string{"ACTION": "ifup"}); err != nil {
		t.Error(err)
	}
	if _, err := Ask(dir, Request{Request: AskNotify, Kind: "net"}); err != nil {
		t.Error(err)
	}
	for end := time.Now().Add(time.Minute); h.notified.Load() != 2; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d notifies arrived, want 2", h.notified.Load())
		}
	}
}

func TestServerErrors(t *testing.T) {
	dir := serve(t, &handler{err: errors.New("the kernel is on holiday")})
	tuple := []string{"tcp", "192.0.2.1:1", "192.0.2.2:2"}
	var metrics strings.Builder
	if err := CopyPrometheus(dir, &metrics); err == nil || err.Error() != "the kernel is on holiday" || metrics.Len() > 0 {
		t.Errorf("metrics: %v, %q", err, metrics.String())
	}
	for _, request := range []string{AskStatus, AskFlows, AskExplain, AskFlush} {
		_, err := Ask(dir, Request{Request: request, Tuple: tuple})
		if err == nil || err.Error() != "the kernel is on holiday" {
			t.Errorf("%s: %v", request, err)
		}
	}
	if _, err := AskDocument(t.TempDir()); !errors.Is(err, ErrNotRunning) {
		t.Errorf("nobody there: %v, want ErrNotRunning", err)
	}
}

func TestServerDeadSocket(t *testing.T) {
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, socketName))
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close() // as after kill -9
	if _, err := AskDocument(dir); !errors.Is(err, ErrNotRunning) {
		t.Errorf("a dead daemon's socket: %v, want ErrNotRunning", err)
	}
	s, err := Listen(dir, &handler{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := AskDocument(dir); err != nil {
		t.Error(err)
	}
}

func TestServerPanic(t *testing.T) {
	h := &handler{}
	dir := serve(t, h)
	h.panics.Store(true)
	if _, err := AskDocument(dir); err == nil || !strings.Contains(err.Error(), "internal error") {
		t.Errorf("a bug in an answer: %v", err)
	}
	h.panics.Store(false)
	if _, err := AskDocument(dir); err != nil {
		t.Errorf("after it: %v", err)
	}
}

// oneErrorLine is what every piece of garbage gets.
func oneErrorLine(t *testing.T, back string) {
	t.Helper()
	var r Reply
	if strings.Count(back, "\n") != 1 || json.Unmarshal([]byte(back), &r) != nil || r.Error == "" {
		t.Errorf("the answer is %.200q, want one line with an error", back)
	}
}

func TestServerGarbage(t *testing.T) {
	dir := serve(t, &handler{})
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		b := make([]byte, 1+rng.IntN(2000))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		oneErrorLine(t, raw(t, dir, b, true))
	}
	oneErrorLine(t, raw(t, dir, []byte("\n"), false))
	oneErrorLine(t, raw(t, dir, []byte("GET / HTTP/1.0\r\n\r\n"), false))
	oneErrorLine(t, raw(t, dir, []byte(`{"request":`+strings.Repeat("[", 4000)+"\n"), false))
	huge := raw(t, dir, []byte(strings.Repeat(" ", 1<<20)), false) // no newline at all
	if oneErrorLine(t, huge); !strings.Contains(huge, "at most 4096 bytes") {
		t.Errorf("a huge line gets %q", huge)
	}
	oneErrorLine(t, raw(t, dir, []byte(`{"request":"status"`+strings.Repeat(" ", MaxRequest)+"}\n"), false))
	if back := raw(t, dir, nil, true); back != "" {
		t.Errorf("who says nothing gets %q", back)
	}
	if _, err := AskDocument(dir); err != nil {
		t.Errorf("after the garbage: %v", err)
	}
}

func TestServerManyClients(t *testing.T) {
	h := &handler{}
	for i := range 1000 { // so that an answer doesn't fit into a socket's buffer
		h.flows = append(h.flows, state.Flow{Proto: "tcp", Orig: state.Tuple{Src: fmt.Sprint(i)}})
	}
	dir := serve(t, h)
	for range 50 { // half open: connected and silent, or gone after half a line
		conn, err := net.Dial("unix", filepath.Join(dir, socketName))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(conn, `{"request":`)
		defer conn.Close()
	}
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			if i%20 != 0 {
				if _, err := AskDocument(dir); err != nil {
					t.Error(err)
				}
				return
			}
			flows, err := AskFlowList(dir, nil)
			if err != nil || len(flows) != len(h.flows) {
				t.Errorf("%d flows, %v", len(flows), err)
			}
		})
	}
	wg.Wait()
}

// The limit protects a small router's memory; it must end with the clients.
func TestServerBusy(t *testing.T) {
	dir := serve(t, &handler{})
	var silent []net.Conn
	for range maxClients {
		conn, err := net.Dial("unix", filepath.Join(dir, socketName))
		if err != nil {
			t.Fatal(err)
		}
		silent = append(silent, conn)
	}
	conn, err := net.Dial("unix", filepath.Join(dir, socketName))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || !strings.Contains(line, "busy") {
		t.Errorf("one client too many gets %q, %v", line, err)
	}
	for _, c := range silent {
		c.Close()
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if _, err := AskDocument(dir); err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal("still busy a minute after the clients left")
		}
	}
}

func TestServerSilentClient(t *testing.T) {
	dir := serve(t, &handler{})
	oneErrorLine(t, raw(t, dir, []byte(`{"requ`), false)) // returns when the server's patience ends
}
