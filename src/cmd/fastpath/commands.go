// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"slices"

	"fastpath/src/config"
	"fastpath/src/status"
)

const defaultRunDir = "/var/run/fastpath"

func configFlag(set *flag.FlagSet, o *options) {
	set.StringVar(&o.config, "config", config.System().Config, "`DIR` of the files fastpath, network and firewall; with the default, those in /var/run/uci go first")
}

func runFlag(set *flag.FlagSet, o *options) {
	set.StringVar(&o.runDir, "run", defaultRunDir, "`DIR` of the run state: lock, pid, control.sock, saved.json")
}

func jsonFlag(set *flag.FlagSet, o *options) {
	set.BoolVar(&o.json, "json", false, "print JSON")
}

func prometheusFlag(set *flag.FlagSet, o *options) {
	set.BoolVar(&o.prometheus, "prometheus", false, "print Prometheus' text format 0.0.4")
}

func levelFlag(set *flag.FlagSet, o *options) {
	set.StringVar(&o.level, "level", "info", "log from `LEVEL` on: debug, info, warn, error")
}

func flags(list ...func(*flag.FlagSet, *options)) func(*flag.FlagSet, *options) {
	return func(set *flag.FlagSet, o *options) {
		for _, f := range list {
			f(set, o)
		}
	}
}

// commands are all commands in the order of the help.
func commands() []command {
	return slices.Concat(changing(), asking(), reading())
}

// changing are the commands that deal with the kernel themselves.
func changing() []command {
	return []command{
		{name: "run", short: "the daemon, in the foreground", run: run, flags: flags(configFlag, runFlag, levelFlag), long: `
Accelerates as the configuration says, until SIGTERM or SIGINT; then everything
is taken away and every port gets its own settings back. SIGHUP reads the
configuration again, SIGUSR1 looks at the kernel again. Logs to stderr; tells
systemd (Type=notify, WatchdogSec) how it is.

Exit codes: 0 stopped, 1 an error or another instance runs already, 2 wrong use.
Example:    fastpath run --level debug`},
		{name: "plan", short: "prints what run would change, changes nothing", run: plan, flags: flags(configFlag, runFlag), long: `
Looks at the kernel and prints the steps from there to what the configuration
asks for; the hook with its reason, and notices, go to stderr. With a daemon
running this is "nothing to do", unless the files were changed since it read them.

Exit codes: 0 nothing to do, 1 an error or wrong configuration, 2 there are
            steps (or wrong use, with a line on stderr).
Example:    fastpath plan`},
		{name: "cleanup", short: "removes everything of ours from the kernel", run: cleanup, flags: flags(configFlag, runFlag, levelFlag), long: `
Removes our tables, gives every port the settings back that it had before us,
and clears our bit (option ct_mark) in the marks of all connections, as after a
daemon that was killed. Refused while a daemon runs.

Exit codes: 0 done, 1 an error or a daemon runs, 2 wrong use.
Example:    fastpath cleanup`},
	}
}

// asking are the commands that speak to the daemon.
func asking() []command {
	return []command{
		{name: "status", short: "what is accelerated, and why not more", run: showStatus, flags: flags(runFlag, jsonFlag, prometheusFlag), long: `
Asks the daemon. First what share of the packets was accelerated, and by which
path: the slow path and the engines are counted, the flowtable's share is
computed from the counters of the connections and marked so. Then for each port
the hook, the receive mode and the engine, each with its reason; what came in,
what its engine forwarded, passed to the kernel or dropped, and why; then
problems, and what would be worth changing.

Exit codes: 0 answered, 1 no daemon runs, 2 wrong use.
Example:    fastpath status --json`},
		{name: "flows", args: "[FILTER]", short: "the accelerated flows", run: showFlows, flags: flags(runFlag, jsonFlag), long: `
Asks the daemon for the connections that the fast path carries. An engine knows
its flows exactly. Of the flowtable's the kernel tells addresses and counters
only; in, out and encap are computed.
` + status.FilterHelp + `

Exit codes: 0 answered, 1 no daemon runs, 2 wrong use.
Example:    fastpath flows engine xdp tcp 192.168.1.10 port 443`},
		{name: "explain", args: "TUPLE", short: "why a connection is or isn't accelerated", run: explain, flags: flags(runFlag, jsonFlag), long: `
Asks the daemon which path a connection takes, and prints one sentence: the
engine or the flowtable that carries it, or the first thing that keeps it on the
slow path, with the rule if it was one.
` + status.TupleHelp + `

Exit codes: 0 accelerated, 1 an error or no daemon runs, 2 wrong use, 3 on the
            slow path, or no such connection.
Example:    fastpath explain tcp 192.168.1.20:51000 93.184.216.34:443`},
		{name: "flush", args: "[FILTER]", short: "sends flows back to the slow path", run: flush, flags: flags(runFlag), long: `
Sends accelerated flows back to the slow path, to be judged again by the rules
that hold now; the connections go on. Without a filter all of them; with one
only those of the engines that fit: a flowtable's can't be singled out.
` + status.FilterHelp + `

Exit codes: 0 done, 1 an error or no daemon runs, 2 wrong use.
Example:    fastpath flush 192.168.1.10`},
		{name: "notify", args: "KIND [KEY=VALUE...]", short: "tells the daemon that something changed", run: notify, flags: flags(runFlag), long: `
Hands over to the daemon, which looks at the kernel again, and returns at once.
KIND and the values only go into the log.

Exit codes: 0 handed over, or no daemon runs; 1 an error; 2 wrong use.
Example:    fastpath notify iface ACTION=ifup INTERFACE=wan`},
	}
}

// reading are the commands that need neither.
func reading() []command {
	return []command{
		{name: "check", short: "checks the configuration", run: check, flags: flags(configFlag), long: `
Reads the configuration as run does and prints every problem as
file:line: reason; then notices: what is valid but probably not meant.

Exit codes: 0 valid, 1 there are problems, 2 wrong use.
Example:    fastpath check --config /tmp/new`},
		{name: "report", short: "everything that a bug report needs", run: showReport, flags: flags(configFlag, runFlag), long: `
Prints what router this is, its configuration, links, what the kernel can do,
our tables, the plan, the daemon's status, and the end of its log. What can't
be read, without root or without a daemon, is said in its place; nothing is
changed. User names, passwords and keys are left out wherever they occur, of
MACs the second half, of public IPv4 addresses too, of IPv6 addresses all
but the first 32 bits. Sets of addresses are not printed.

Exit codes: 0 done, 2 wrong use.
Example:    fastpath report > report.txt`},
		{name: "uci export", args: "FILE", short: "prints a UCI file as uci export does", run: uciExport, long: `
Reads FILE strictly and prints it in canonical form.

Exit codes: 0 done, 1 the file can't be read (file:line: reason), 2 wrong use.
Example:    fastpath uci export /etc/config/network`},
		{name: "version", short: "prints the version", run: printVersion, long: `
Prints the bare version, as --version and -V do.

Exit codes: 0 done, 2 wrong use.
Example:    fastpath version`},
	}
}
