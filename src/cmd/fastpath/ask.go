// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"fastpath/src/state"
	"fastpath/src/status"
)

func showStatus(c *call) int {
	doc, err := status.AskDocument(c.runDir)
	if err != nil {
		return c.fail("status", hint(err))
	}
	if c.json {
		printJSON(c.stdout, doc)
	} else {
		doc.WriteText(c.stdout)
	}
	return exitOK
}

func showFlows(c *call) int {
	if _, err := status.ParseFilter(c.args); err != nil {
		return c.wrongUse("flows", "%v", err)
	}
	flows, err := status.AskFlowList(c.runDir, c.args)
	if err != nil {
		return c.fail("flows", hint(err))
	}
	if c.json {
		if flows == nil {
			flows = []state.Flow{}
		}
		printJSON(c.stdout, struct {
			Flows []state.Flow `json:"flows"`
		}{flows})
	} else {
		status.WriteFlows(c.stdout, flows)
	}
	return exitOK
}

func notify(c *call) int {
	if len(c.args) == 0 {
		return c.wrongUse("notify", "which KIND?")
	}
	values := map[string]string{}
	for _, word := range c.args[1:] {
		key, value, ok := strings.Cut(word, "=")
		if !ok || key == "" {
			return c.wrongUse("notify", "%q is not KEY=VALUE", word)
		}
		values[key] = value
	}
	err := status.Tell(c.runDir, c.args[0], values)
	if err != nil && !errors.Is(err, status.ErrNotRunning) {
		return c.fail("notify", err)
	}
	return exitOK
}

// hint adds how to help it.
func hint(err error) error {
	if errors.Is(err, status.ErrNotRunning) {
		return fmt.Errorf("%w (start it: /etc/init.d/fastpath start, or systemctl start fastpath)", err)
	}
	return err
}

func printJSON(w io.Writer, v any) {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.Encode(v) // dispatch tells that writing failed
}
