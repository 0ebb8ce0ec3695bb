// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fastpath/src/testkit"
	"fastpath/src/uci"
)

// functions stands in for the router's /lib/functions.sh: it records the calls.
const functions = `default_postinst() { echo "default_postinst $(basename "$1") $2"; }
default_prerm() { echo "default_prerm $(basename "$1") $2"; }
`

// ash runs a script as opkg does and returns what it printed.
func ash(t *testing.T, env []string, args ...string) string {
	t.Helper()
	_, err := exec.LookPath("busybox")
	testkit.Need(t, err == nil, "no busybox")
	cmd := exec.Command("busybox", append([]string{"ash"}, args...)...)
	cmd.Env = append(env, "PATH="+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("ash %q with %q: %v\n%s", args, env, err, out)
	}
	return string(out)
}

// extract writes the members below dir.
func extract(t *testing.T, gz []byte, dir string) {
	t.Helper()
	for _, m := range readTarGz(t, gz) {
		path := filepath.Join(dir, m.Name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil && !strings.HasSuffix(m.Name, "/") {
			err = os.WriteFile(path, m.data, os.FileMode(m.Mode))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestInstallScripts(t *testing.T) {
	_, control := unpack(t, build(t))
	scripts := t.TempDir()
	extract(t, control, scripts)
	root := t.TempDir() // an OpenWrt root below IPKG_INSTROOT
	if err := os.Mkdir(filepath.Join(root, "lib"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "lib/functions.sh"), []byte(functions), 0o644); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, script, arg string
		env               []string
		want              string
	}{
		{"install", "postinst", "configure", []string{"IPKG_INSTROOT=" + root}, "default_postinst postinst configure\n"},
		{"install without scripts", "postinst", "configure", []string{"IPKG_INSTROOT=" + root, "IPKG_NO_SCRIPT=1"}, ""},
		{"install where no OpenWrt is", "postinst", "configure", []string{"IPKG_INSTROOT=" + scripts}, ""},
		{"remove", "prerm", "remove", []string{"IPKG_INSTROOT=" + root}, "default_prerm prerm remove\n"},
		{"remove where no OpenWrt is", "prerm", "remove", []string{"IPKG_INSTROOT=" + scripts}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := ash(t, tt.env, filepath.Join(scripts, tt.script), tt.arg); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// What default_postinst does last is to start the service with the shipped
// configuration. No instance of the daemon may come of it.
func TestInstallStartsNothing(t *testing.T) {
	data, _ := unpack(t, build(t))
	root := t.TempDir()
	extract(t, data, root)
	config := filepath.Join(root, "etc/config/fastpath")
	shipped, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	// A router on which it never ran, whatever this machine has.
	init := filepath.Join(root, "etc/init.d/fastpath")
	script, err := os.ReadFile(init)
	if err != nil {
		t.Fatal(err)
	}
	here := bytes.Replace(script, []byte("RUN=/var/run/fastpath\n"), []byte("RUN="+root+"/run\n"), 1)
	if bytes.Equal(here, script) {
		t.Fatal("the script's run directory is somewhere else")
	}
	if err := os.WriteFile(init, here, 0o755); err != nil {
		t.Fatal(err)
	}
	start := func() string {
		return ash(t, []string{"ENABLED=" + enabled(t, config)}, "../../files/testdata/rc.common", init, "start")
	}
	if got := start(); strings.Contains(got, "procd_open_instance") || !strings.Contains(got, "procd_add_reload_trigger fastpath") {
		t.Errorf("start after install: want no instance, but the triggers:\n%s", got)
	}

	// The same with the toggle on: the test can tell the difference.
	on := bytes.Replace(shipped, []byte("option enabled '0'"), []byte("option enabled '1'"), 1)
	if err := os.WriteFile(config, on, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := start(); !strings.Contains(got, "procd_open_instance") {
		t.Errorf("start with enabled '1': no instance:\n%s", got)
	}
}

// enabled is fastpath.main.enabled of a configuration file, "" when not written.
func enabled(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	p, errs := uci.Parse(path, text, uci.Strict)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, s := range p.Sections {
		if o := s.Option("enabled"); s.Name == "main" && o != nil {
			return o.Values[0].Text
		}
	}
	return ""
}
