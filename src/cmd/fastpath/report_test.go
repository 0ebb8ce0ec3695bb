// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"fastpath/src/testkit"
)

// planted are words that no report may hold.
var planted = []string{
	"bob@isp.example", "hunter2-pppoe", "WGprivateKEYwgprivateKEY=", "psk-of-wireguard", "wifi-sae-passphrase", "home-ssid-name",
	"unknown-option-word", "word-in-a-comment", "mobile-pin-9876", "radius-shared", "203.0.113.77", "2001:db8:77:1::9", "aa:bb:cc:dd:ee:77",
	"dd:ee:77", "ddns-token-word",
}

// secretFiles are files of /etc/config in which they are.
var secretFiles = map[string]string{
	"network": `# word-in-a-comment
config interface 'wan'
	option proto 'pppoe'
	option device 'p1'
	option username 'bob@isp.example'
	option password 'hunter2-pppoe'
	option foo 'unknown-option-word'
	option macaddr 'aa:bb:cc:dd:ee:77'

config interface 'lan'
	option proto 'static'
	option device 'p0'
	option ipaddr '192.168.1.1'

config interface 'wg0'
	option proto 'wireguard'
	option private_key 'WGprivateKEYwgprivateKEY='
	list addresses '2001:db8:77:1::9/64'

config wireguard_wg0
	option preshared_key 'psk-of-wireguard'
	option endpoint_host '203.0.113.77'

config interface 'wwan'
	option pincode 'mobile-pin-9876'
`,
	"wireless": "config wifi-iface\n\toption ssid 'home-ssid-name'\n\toption key 'wifi-sae-passphrase'\n\toption auth_secret 'radius-shared'\n",
	"ddns":     "config service\n\toption token 'ddns-token-word'\n",
	"uhttpd":   "config uhttpd main\n\toption key '/proc/version'\n\toption username 'root'\n",
	"firewall": `config zone
	option name 'lan'
	list network 'lan'

config zone
	option name 'wan'
	list network 'wan'

config redirect
	option name 'to 203.0.113.77'
	option src_dip '203.0.113.77'
	option password 'hunter2-pppoe'
`,
	"sqm":      "config queue\n\toption interface 'p1'\n\toption comment 'of bob@isp.example'\n\toption script 'root.qos'\n",
	"turboacc": "config turboacc 'config'\n\toption sw_flow '0'\n\toption key 'wifi-sae-passphrase'\n",
}

// programsOf are what OpenWrt's own programs might say of them.
var programsOf = map[string]string{
	"ubus": `echo '{"interface":[{"interface":"wan","up":true,"proto":"pppoe","l3_device":"p1","device":"p1",
"data":{"username":"bob@isp.example"},"ipv4-address":[{"address":"203.0.113.77"}]}]}'`,
	"logread": `echo "fastpath: level=ERROR msg=refused password=hunter2-pppoe peer=aa:bb:cc:dd:ee:77 ip=203.0.113.77 v6=2001:db8:77:1::9"
echo "fastpath: the last error"`,
}

// leaky is a router with secrets in all places.
func leaky(t *testing.T) *proc {
	p := newProc(t)
	for name, text := range secretFiles {
		if err := os.WriteFile(filepath.Join(p.config, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	bin := t.TempDir()
	for name, script := range programsOf {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	p.ns.Run(t, "ip link set p1 address aa:bb:cc:dd:ee:77; ip addr add 203.0.113.77/24 dev p1")
	return p
}

// TestReport: with and without a daemon it has every section, and no secret.
func TestReport(t *testing.T) {
	p := leaky(t)
	without := p.report(t)
	want(t, without, "can't ask the daemon: fastpath is not running")
	p.start()
	with := p.report(t)
	want(t, with, "pid ", "looks 1, steps ")
	for _, text := range []string{without, with} {
		want(t, text, "fastpath 9.8.7", "== system", "/proc/version: Linux version", "== configuration "+p.config+"/network",
			"option proto 'pppoe'", "option username '(left out)'", "option foo '(left out)'", "== configuration "+p.config+"/turboacc",
			"option comment 'of (left out)'", "option script 'root.qos'", "flowtable at ingress: ", "link ", "p0: \"veth\" up true", "mac aa:bb:cc:xx:xx:xx", "rx-gro ",
			"qdisc ", "interface wan: pppoe", "== plan", "hook off: ", "port p0 [lan]", "the last error", "option src_dip '203.0.x.x'",
			"option ipaddr '192.168.1.1'")
		for _, word := range planted {
			if strings.Contains(text, word) {
				t.Errorf("%q is in the report:\n%s", word, text)
			}
		}
	}
}

func (p *proc) report(t *testing.T) string {
	t.Helper()
	r := p.inside("report", "--config", p.config, "--run", p.run)
	if r.code != exitOK || r.stderr != "" {
		t.Errorf("exit code %d, stderr %q", r.code, r.stderr)
	}
	return r.stdout
}

func want(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("the report has no %q:\n%s", w, text)
		}
	}
}

// TestReportWithoutRights: a user without rights gets what can be read, and in
// the place of the rest why not.
func TestReportWithoutRights(t *testing.T) {
	testkit.NeedNetns(t)
	dir, err := os.MkdirTemp("", "fastpath-nobody")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"fastpath": 0o644, "network": 0o600} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(good), mode); err != nil {
			t.Fatal(err)
		}
	}
	const nobody = 65534
	cmd := exec.Command(binary, "report", "--config", dir, "--run", filepath.Join(dir, "run"))
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET, Credential: &syscall.Credential{Uid: nobody, Gid: nobody},
	}
	r := finish(t, cmd)
	if r.code != exitOK || r.stderr != "" {
		t.Errorf("exit code %d, stderr %q", r.code, r.stderr)
	}
	want(t, r.stdout, "== configuration "+dir+"/fastpath", "can't read network: ", "can't read all of the kernel: ", "CAP_NET_ADMIN is missing",
		"link 1 lo", "none, since not all of the kernel could be read", "can't ask the daemon")
	if strings.Contains(r.stdout, fmt.Sprintf("%s/network\n", dir)) {
		t.Errorf("a file that can't be read is shown:\n%s", r.stdout)
	}
}
