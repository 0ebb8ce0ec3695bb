// SPDX-License-Identifier: Apache-2.0

package status

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"fastpath/src/state"
)

// MaxRequest is the longest request line in bytes, with its newline.
const MaxRequest = 4096

// The requests.
const (
	AskStatus     = "status"     // Reply.Status
	AskPrometheus = "prometheus" // the same as Prometheus text instead of JSON; see WritePrometheus
	AskFlows      = "flows"      // Reply.Flows; Filter as in ParseFilter
	AskExplain    = "explain"    // Reply.Explanation; Tuple as in ParseTuple
	AskFlush      = "flush"      // Reply.Flushed; Filter as in ParseFilter, none: everything
	AskNotify     = "notify"     // look at the kernel again; Kind and Values say why
)

// Request is one line of JSON from a client.
type Request struct {
	Request string            `json:"request"`
	Filter  []string          `json:"filter,omitempty"`
	Tuple   []string          `json:"tuple,omitempty"`
	Kind    string            `json:"kind,omitempty"`
	Values  map[string]string `json:"values,omitempty"`
}

// Reply is one line of JSON to a client. Error excludes the others.
type Reply struct {
	Error       string       `json:"error,omitempty"`
	Status      *Document    `json:"status,omitempty"`
	Flows       []state.Flow `json:"flows,omitempty"`
	Explanation *Explanation `json:"explanation,omitempty"`
	Flushed     *Flushed     `json:"flushed,omitempty"`
}

// Flushed is what was sent back to the slow path, to be judged again.
type Flushed struct {
	Engines int `json:"engine_flows"`
	// Flowtable flows are sent back all together or not at all: Filtered, they stayed.
	Flowtable int  `json:"flowtable_flows"`
	Filtered  bool `json:"filtered"`
}

// String is the answer for a person.
func (f Flushed) String() string {
	s := plural(f.Engines, "engine flow")
	if !f.Filtered {
		return s + " and " + plural(f.Flowtable, "flow") + " of the flowtable sent back to the slow path, to be judged again"
	}
	return s + " sent back to the slow path, to be judged again; flows of the flowtable can't be singled out: no kernel can"
}

// ParseRequest reads one request line. Its errors are one readable line.
func ParseRequest(line []byte) (Request, error) {
	var r Request
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("it ends too early")
		}
		return Request{}, fmt.Errorf("a request is one line of JSON: %s", clip(err.Error()))
	}
	if _, err := d.Token(); err != io.EOF {
		return Request{}, errors.New("a request is one line of JSON: something follows the object")
	}
	switch r.Request {
	case AskStatus, AskPrometheus:
	case AskExplain:
		if _, err := ParseTuple(r.Tuple); err != nil {
			return Request{}, err
		}
	case AskFlows, AskFlush:
		if _, err := ParseFilter(r.Filter); err != nil {
			return Request{}, err
		}
	case AskNotify:
		if r.Kind == "" {
			return Request{}, errors.New("notify without a kind")
		}
	default:
		return Request{}, fmt.Errorf("unknown request %q (there are %s)", clip(r.Request),
			strings.Join([]string{AskStatus, AskPrometheus, AskFlows, AskExplain, AskFlush, AskNotify}, ", "))
	}
	return r, nil
}

// clip keeps an error line readable whatever was sent.
func clip(s string) string {
	const most = 80
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}
