// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"
)

func TestKernelArgs(t *testing.T) {
	const relay = "/usr/sbin/pppoe -n -I line.35 -e 7:52:54:00:00:00:05 -S ''"
	for _, c := range []struct {
		name string
		args []string
		want string // joined by spaces; "": an error
	}{
		{"as pppoe-server does", []string{"pty", relay, "file", "/o", "10.0.0.1:10.0.0.2", "nodetach"},
			"plugin /p.so nic-line.35 pppoe-sess 7:52:54:00:00:00:05 file /o 10.0.0.1:10.0.0.2 nodetach"},
		{"pty last", []string{"nodetach", "pty", relay},
			"plugin /p.so nic-line.35 pppoe-sess 7:52:54:00:00:00:05 nodetach"},
		{"no pty", []string{"nodetach"}, ""},
		{"pty without a command", []string{"nodetach", "pty"}, ""},
		{"another command", []string{"pty", "ssh host"}, ""},
		{"no session", []string{"pty", "pppoe -I line -e"}, ""},
	} {
		got, err := kernelArgs(slices.Clone(c.args), "/p.so")
		if (err != nil) != (c.want == "") || strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, error %v; want %q", c.name, strings.Join(got, " "), err, c.want)
		}
	}
}
