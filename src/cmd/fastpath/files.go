// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"fastpath/src/config"
	"fastpath/src/uci"
)

func check(c *call) int {
	conf, err := config.Load(c.dirs())
	if err != nil {
		fmt.Fprintln(c.stdout, err) // one line for each problem
		conf, _ = config.LoadLenient(c.dirs())
	}
	for _, n := range conf.Notices {
		fmt.Fprintf(c.stdout, "notice: %s\n", n)
	}
	new(config.DropLists).Fill(&conf)
	for _, n := range conf.DropProblems {
		fmt.Fprintf(c.stdout, "notice: %s\n", n)
	}
	var problems config.Problems
	switch {
	case errors.As(err, &problems):
		return exitError
	case err != nil:
		return c.fail("check", err)
	}
	fmt.Fprintln(c.stdout, "no problems")
	return exitOK
}

func uciExport(c *call) int {
	if len(c.args) != 1 {
		return c.wrongUse("uci export", "it takes one FILE")
	}
	p, err := uci.Load(filepath.Base(c.args[0]), uci.Strict, filepath.Dir(c.args[0]))
	if err != nil {
		return c.fail("uci export", err)
	}
	uci.Export(c.stdout, p) // dispatch tells that writing failed
	return exitOK
}

func printVersion(c *call) int {
	fmt.Fprintln(c.stdout, bareVersion())
	return exitOK
}
