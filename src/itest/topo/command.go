// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"fastpath/src/testkit"
)

const terminate = syscall.SIGTERM

// ip runs ip's commands in one go, in the namespace, or in ours if it is nil.
func ip(ns *testkit.Netns, commands ...string) error {
	args := []string{"-batch", "-"}
	if ns != nil {
		args = append([]string{"-n", ns.Name}, args...)
	}
	_, err := feed(exec.Command("ip", args...), strings.Join(commands, "\n")+"\n")
	return err
}

// feed runs a command with text as its input and returns its output.
func feed(cmd *exec.Cmd, text string) (string, error) {
	cmd.Stdin = strings.NewReader(text)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s; its input:\n%s", strings.Join(cmd.Args, " "), err, out, text)
	}
	return string(out), nil
}

// sysctl sets pairs of name (below /proc/sys) and value in the namespace.
func sysctl(ns *testkit.Netns, pairs ...string) error {
	return ns.Inside(func() error {
		for i := 0; i < len(pairs); i += 2 {
			if err := os.WriteFile(filepath.Join("/proc/sys", pairs[i]), []byte(pairs[i+1]), 0); err != nil {
				return err
			}
		}
		return nil
	})
}
