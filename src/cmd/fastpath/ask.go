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
		return c.printed("status", printJSON(c.stdout, doc))
	}
	return c.printed("status", doc.WriteText(c.stdout))
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
		return c.printed("flows", printJSON(c.stdout, struct {
			Flows []state.Flow `json:"flows"`
		}{flows}))
	}
	return c.printed("flows", status.WriteFlows(c.stdout, flows))
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

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// printed is the exit code after printing: a full disk or a closed pipe must show.
func (c *call) printed(command string, err error) int {
	if err != nil {
		return c.fail(command, err)
	}
	return exitOK
}
