// SPDX-License-Identifier: Apache-2.0

// Command kpppd stands in for pppd under pppoe-server (its option -q), so that
// a session that pppoe-server negotiated is carried by the kernel.
//
// Debian's pppoe-server is built without kernel mode. It starts pppd with
//
//	pty "pppoe -n -I DEVICE -e SESSION:MAC -S 'SERVICE'" …
//
// and pppoe then copies each packet between the wire and a pty. kpppd replaces
// that by pppd's own plugin for an existing session and becomes pppd. Everything
// else that pppoe-server asks for stays.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const pppd = "/usr/sbin/pppd"

func main() {
	err := run(os.Args[1:])
	fmt.Fprintln(os.Stderr, "kpppd:", err)
	os.Exit(1)
}

func run(args []string) error {
	plugins, err := filepath.Glob("/usr/lib/pppd/*/rp-pppoe.so")
	if err != nil || len(plugins) == 0 {
		return errors.New("pppd has no rp-pppoe.so plugin")
	}
	kernel, err := kernelArgs(args, plugins[0])
	if err != nil {
		return err
	}
	return syscall.Exec(pppd, append([]string{pppd}, kernel...), os.Environ())
}

// kernelArgs replaces pty and its command by the plugin. pppd reads what
// follows plugin with it loaded, so that comes first.
func kernelArgs(args []string, plugin string) ([]string, error) {
	for i := 0; i+1 < len(args); i++ {
		if args[i] != "pty" {
			continue
		}
		device, session, err := relay(args[i+1])
		if err != nil {
			return nil, err
		}
		out := []string{"plugin", plugin, "nic-" + device, "pppoe-sess", session}
		return append(append(out, args[:i]...), args[i+2:]...), nil
	}
	return nil, fmt.Errorf("no pty COMMAND in %q: is this pppoe-server?", args)
}

// relay takes device and SESSION:MAC from pppoe's command line.
func relay(command string) (device, session string, err error) {
	words := strings.Fields(command)
	for i := 0; i+1 < len(words); i++ {
		switch words[i] {
		case "-I":
			device = words[i+1]
		case "-e":
			session = words[i+1]
		}
	}
	if device == "" || session == "" {
		return "", "", fmt.Errorf("no -I DEVICE and -e SESSION:MAC in %q", command)
	}
	return device, session, nil
}
