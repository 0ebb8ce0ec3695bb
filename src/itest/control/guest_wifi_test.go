// SPDX-License-Identifier: Apache-2.0

//go:build guest

package control

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fastpath/src/itest/topo"
	"fastpath/src/testkit"
)

// openAP is an access point without encryption, as OpenWrt names its device.
const openAP = `interface=phy0-ap0
driver=nl80211
ssid=home
hw_mode=g
channel=1
`

// An access point comes long after the start, joins the bridge and the flowtable,
// and its station is accelerated; when it goes, the others keep what they have.
func TestWiFi(t *testing.T) {
	if _, err := os.Stat("/sys/class/ieee80211/phy0"); err != nil {
		t.Log("runs in a VM with mac80211_hwsim")
		return
	}
	r := build(t, topo.Bridge)
	r.start(t)
	r.want(t, lowest(topo.Bridge)...)
	conf := filepath.Join(t.TempDir(), "hostapd.conf")
	if err := os.WriteFile(conf, []byte(openAP), 0o600); err != nil {
		t.Fatal(err)
	}
	for radio, ns := range map[string]*testkit.Netns{"phy0": r.Router, "phy1": r.Host2} {
		// It comes back by itself when the namespace ends.
		if out, err := exec.Command("iw", "phy", radio, "set", "netns", "name", ns.Name).CombinedOutput(); err != nil {
			t.Fatalf("iw: %v: %s", err, out)
		}
	}
	r.Router.Run(t, "iw dev wlan0 del; iw phy phy0 interface add phy0-ap0 type __ap")
	ap := r.Router.Command("hostapd", conf)
	if err := ap.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ap.Process.Kill(); ap.Wait() })
	r.Router.Run(t, "ip link set phy0-ap0 master br-lan")
	r.want(t, "lan1", "lan2", "phy0-ap0", "wan")
	r.Host2.Run(t, "ip link set eth0 down; ip link set wlan1 up; iw dev wlan1 connect home")
	r.eventually(t, "the station is connected", func() bool {
		out, err := r.Host2.Sh("iw dev wlan1 link")
		return err == nil && strings.Contains(out, "Connected")
	})
	r.Host2.Run(t, "ip addr add "+topo.Host2v4+"/24 dev wlan1; ip addr add "+topo.Host2v6+"/64 dev wlan1 nodad; "+
		"ip route add default via "+topo.RouterLANv4+"; ip -6 route add default via "+topo.RouterLANv6)
	r.ways(t, r.Host2)
	r.settled(t)
	ap.Process.Kill()
	r.Router.Run(t, "iw dev phy0-ap0 del")
	r.want(t, lowest(topo.Bridge)...)
}
