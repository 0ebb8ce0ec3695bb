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
	AskStatus = "status" // Reply.Status
	AskFlows  = "flows"  // Reply.Flows; Filter as in ParseFilter
	AskNotify = "notify" // look at the kernel again; Kind and Values say why
)

// Request is one line of JSON from a client.
type Request struct {
	Request string            `json:"request"`
	Filter  []string          `json:"filter,omitempty"`
	Kind    string            `json:"kind,omitempty"`
	Values  map[string]string `json:"values,omitempty"`
}

// Reply is one line of JSON to a client. Error excludes the others.
type Reply struct {
	Error  string       `json:"error,omitempty"`
	Status *Document    `json:"status,omitempty"`
	Flows  []state.Flow `json:"flows,omitempty"`
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
	case AskStatus:
	case AskFlows:
		if _, err := ParseFilter(r.Filter); err != nil {
			return Request{}, err
		}
	case AskNotify:
		if r.Kind == "" {
			return Request{}, errors.New("notify without a kind")
		}
	default:
		return Request{}, fmt.Errorf("unknown request %q (there are %s, %s, %s)", clip(r.Request), AskStatus, AskFlows, AskNotify)
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
