// SPDX-License-Identifier: Apache-2.0

// Command fastpath makes a Linux router forward faster, and says why when it
// can't. This package is flags, wiring and signals; `fastpath --help` lists
// the commands, and each has a help of its own.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"fastpath/src/config"
)

// version is set by -ldflags "-X main.version=1.2.3".
var version string

// The exit codes that all commands share.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

// command is one sub-command. Its run gets the arguments after the flags.
type command struct {
	name  string
	args  string // what follows the flags, for the usage line
	short string
	long  string // what it does, its exit codes, an example
	flags func(*flag.FlagSet, *options)
	run   func(*call) int
}

// options are the flags of all commands; each declares those that it has.
type options struct {
	config     string
	runDir     string
	json       bool
	prometheus bool
	level      string
}

// call is one run of a command.
type call struct {
	options
	args   []string
	stdout io.Writer
	stderr io.Writer
}

func main() { os.Exit(dispatch(os.Args[1:], os.Stdout, os.Stderr)) }

// output remembers that writing failed: a full disk must show in the exit code.
type output struct {
	io.Writer
	err error // the first one
}

func (o *output) Write(p []byte) (n int, err error) {
	n, err = o.Writer.Write(p)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

func dispatch(args []string, stdout, stderr io.Writer) int {
	out := &output{Writer: stdout}
	code := choose(args, out, stderr)
	if out.err != nil {
		fmt.Fprintf(stderr, "fastpath: %v\n", out.err)
		return exitError
	}
	return code
}

// choose runs the command that the first words name.
func choose(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprintln(stderr, "fastpath: which command? (see fastpath --help)")
		return exitUsage
	}
	switch args[0] {
	case "-h", "-help", "--help", "help":
		usage(stdout)
		return exitOK
	case "-V", "-version", "--version":
		args = []string{"version"}
	}
	name, rest := args[0], args[1:]
	if name == "uci" && len(rest) > 0 && rest[0] == "export" {
		name, rest = "uci export", rest[1:]
	}
	for _, c := range commands() {
		if c.name == name {
			return c.start(rest, stdout, stderr)
		}
	}
	fmt.Fprintf(stderr, "fastpath: unknown command %q (see fastpath --help)\n", name)
	return exitUsage
}

func (c command) start(args []string, stdout, stderr io.Writer) int {
	call := &call{stdout: stdout, stderr: stderr}
	set := flag.NewFlagSet(c.name, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	if c.flags != nil {
		c.flags(set, &call.options)
	}
	err := set.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		c.help(set, stdout)
		return exitOK
	}
	if err == nil {
		err = c.misused(set)
	}
	if err != nil {
		return call.wrongUse(c.name, "%v", err)
	}
	call.args = set.Args()
	return c.run(call)
}

// misused finds what flag lets through. An empty DIR would be the working directory.
func (c command) misused(set *flag.FlagSet) (err error) {
	if c.args == "" && set.NArg() > 0 {
		return fmt.Errorf("it takes no argument %q", set.Arg(0))
	}
	set.Visit(func(f *flag.Flag) {
		if f.Value.String() == "" {
			err = fmt.Errorf("flag needs an argument: -%s", f.Name)
		}
	})
	return err
}

func usage(w io.Writer) {
	fmt.Fprint(w, "fastpath makes a Linux router forward faster, and says why when it can't.\n\nCommands:\n")
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-12s %s\n", c.name, c.short)
	}
	fmt.Fprint(w, `
fastpath COMMAND --help tells more about each of them.
Exit codes: 0 done, 1 an error (one line on stderr), 2 wrong use; plan and explain have their own.
`)
}

func (c command) help(set *flag.FlagSet, w io.Writer) {
	line := "fastpath " + c.name
	flags := false
	set.VisitAll(func(*flag.Flag) { flags = true })
	if flags {
		line += " [flags]"
	}
	fmt.Fprintf(w, "%s\n\n%s\n", strings.TrimSpace(line+" "+c.args), strings.TrimSpace(c.long))
	if flags {
		fmt.Fprint(w, "\nFlags:\n")
	}
	set.VisitAll(func(f *flag.Flag) {
		value, text := flag.UnquoteUsage(f)
		fmt.Fprintf(w, "  --%s", f.Name)
		if value != "" {
			fmt.Fprintf(w, " %s", value)
		}
		fmt.Fprintf(w, "\n        %s", text)
		if f.DefValue != "" && f.DefValue != "false" {
			fmt.Fprintf(w, " (default %s)", f.DefValue)
		}
		fmt.Fprintln(w)
	})
}

// fail prints an error, each of several as a line of its own, and what they
// have in common once.
func (c *call) fail(command string, err error) int {
	for _, line := range slices.Compact(strings.Split(err.Error(), "\n")) {
		fmt.Fprintf(c.stderr, "fastpath %s: %s\n", command, line)
	}
	return exitError
}

// wrongUse prints the one line of a wrong argument.
func (c *call) wrongUse(command, format string, args ...any) int {
	fmt.Fprintf(c.stderr, "fastpath %s: %s (see fastpath %s --help)\n", command, fmt.Sprintf(format, args...), command)
	return exitUsage
}

// dirs are where the configuration is. Only the system's own has an override.
func (o options) dirs() config.Dirs {
	if o.config == config.System().Config {
		return config.System()
	}
	return config.Dirs{Config: o.config}
}

// bareVersion is the version without a v, for package tools.
func bareVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && strings.HasPrefix(info.Main.Version, "v") {
		return info.Main.Version[1:]
	}
	return "0.0.0"
}
