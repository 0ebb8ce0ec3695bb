// SPDX-License-Identifier: Apache-2.0

package status

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestNoAnswer: the owner learns whether the daemon hangs or has ended.
func TestNoAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		limit time.Duration
		serve func(net.Conn)
		want  string
	}{
		"it hangs":             {50 * time.Millisecond, func(net.Conn) {}, "the daemon runs but doesn't answer: "},
		"it ends":              {time.Minute, func(c net.Conn) { c.Read(make([]byte, MaxRequest)); c.Close() }, "the daemon ended before it answered: "},
		"it ends halfway":      {time.Minute, func(c net.Conn) { c.Read(make([]byte, MaxRequest)); c.Write([]byte(`{"fl`)); c.Close() }, "the daemon ended before it answered: "},
		"it ends in a comment": {time.Minute, func(c net.Conn) { c.Read(make([]byte, MaxRequest)); c.Write([]byte("# HELP x\n")); c.Close() }, "the daemon"},
		"it answers rubbish":   {time.Minute, func(c net.Conn) { c.Write([]byte("rubbish\n")) }, "the daemon's answer: "},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l, err := net.Listen("unix", filepath.Join(dir, socketName))
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					c.serve(conn)
				}
			}()
			_, err = ask(dir, Request{Request: AskStatus}, c.limit)
			if err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if strings.HasPrefix(name, "it ends") { // the others hold the connection open
				var b strings.Builder
				if err := CopyPrometheus(dir, &b); err == nil || !strings.HasPrefix(err.Error(), c.want) || b.Len() > 0 {
					t.Errorf("metrics: got %v, %q; want %q", err, b.String(), c.want)
				}
			}
		})
	}
}
