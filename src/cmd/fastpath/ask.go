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
	if c.prometheus {
		if c.json {
			return c.wrongUse("status", "--json or --prometheus, not both")
		}
		if err := status.CopyPrometheus(c.runDir, c.stdout); err != nil {
			return c.fail("status", hint(err))
		}
		return exitOK
	}
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

// exitSlow is explain's answer that the connection isn't accelerated.
const exitSlow = 3

func explain(c *call) int {
	if _, err := status.ParseTuple(c.args); err != nil {
		return c.wrongUse("explain", "%v", err)
	}
	e, err := status.AskExplanation(c.runDir, c.args)
	if err != nil {
		return c.fail("explain", hint(err))
	}
	if c.json {
		printJSON(c.stdout, e)
	} else {
		fmt.Fprintln(c.stdout, e.Text)
	}
	if !e.Accelerated() {
		return exitSlow
	}
	return exitOK
}

func flush(c *call) int {
	if _, err := status.ParseFilter(c.args); err != nil {
		return c.wrongUse("flush", "%v", err)
	}
	f, err := status.AskToFlush(c.runDir, c.args)
	if err != nil {
		return c.fail("flush", hint(err))
	}
	fmt.Fprintln(c.stdout, f)
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
