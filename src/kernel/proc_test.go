// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"fastpath/src/state"
)

func TestSessions(t *testing.T) {
	// %08X of a __be16: what it looks like depends on the CPU.
	asPrinted := func(id uint16) uint16 {
		return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, id))
	}
	text := "Id       Address              Device\n" +
		fmt.Sprintf("%08X 02:00:00:00:00:01 eth0.35\n", asPrinted(7)) +
		fmt.Sprintf("%08X aa:bb:cc:dd:ee:ff     wan\n", asPrinted(0x1234)) +
		fmt.Sprintf("%08X 02:00:00:00:00:02 a\u3000\u0085b\n", asPrinted(8)) +
		"zzzzzzzz 02:00:00:00:00:01 bad\n00000001 02:00 bad\nshort\n"
	want := []state.Session{
		{ID: 7, Peer: [6]byte{2, 0, 0, 0, 0, 1}, Device: "eth0.35"},
		{ID: 0x1234, Peer: [6]byte{0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}, Device: "wan"},
		{ID: 8, Peer: [6]byte{2, 0, 0, 0, 0, 2}, Device: "a\u3000\u0085b"},
	}
	if got := state.ParseSessions(strings.NewReader(text)); !slices.Equal(got, want) {
		t.Errorf("sessions %+v, want %+v", got, want)
	}
	if got := readProc(filepath.Join(t.TempDir(), "none"), state.ParseSessions); got != nil {
		t.Errorf("without the file: %+v", got)
	}
}

func TestConntrackEvents(t *testing.T) {
	for name, c := range map[string]struct {
		files  map[string]string
		reason string
	}{
		"not loaded yet": {nil, ""},
		"always":         {map[string]string{"nf_conntrack_max": "9", "nf_conntrack_events": "1\n"}, ""},
		"auto":           {map[string]string{"nf_conntrack_max": "9", "nf_conntrack_events": "2\n"}, ""},
		"off":            {map[string]string{"nf_conntrack_max": "9", "nf_conntrack_events": "0\n"}, "nf_conntrack_events is 0"},
		"not built":      {map[string]string{"nf_conntrack_max": "9"}, "CONFIG_NF_CONNTRACK_EVENTS"},
	} {
		dir := t.TempDir()
		for file, value := range c.files {
			must(t, os.WriteFile(filepath.Join(dir, file), []byte(value), 0o644))
		}
		if got := conntrackEvents(dir); got.OK != (c.reason == "") || !strings.Contains(got.Reason, c.reason) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestMarksNeedEvents: the same by the kernel's own file.
func TestMarksNeedEvents(t *testing.T) {
	inNamespace(t)
	k := newKernel(t)
	if o := observe(t, k); !o.Marks.OK {
		t.Errorf("marks: %+v", o.Marks)
	}
	must(t, os.WriteFile(filepath.Join(sysNetfilter, "nf_conntrack_events"), []byte("0"), 0o644))
	if o := observe(t, k); o.Marks.OK || !strings.Contains(o.Marks.Reason, "switched off") {
		t.Errorf("without events: %+v", o.Marks)
	}
}

// fakeUbus puts a program of that name before all others.
func fakeUbus(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "ubus"), []byte("#!/bin/sh\n"+script), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func TestInterfaces(t *testing.T) {
	k := newKernel(t)
	fakeUbus(t, `[ "$*" = "call network.interface dump" ] || exit 1
cat <<X
{"interface":[
 {"interface":"wan","up":true,"l3_device":"pppoe-wan","proto":"pppoe","device":"eth0.35","uptime":3,"data":{"zone":"wan"}},
 {"interface":"lan","up":true,"l3_device":"br-lan","proto":"static","device":"br-lan","ipv4-address":[]},
 {"interface":"vpn","up":false,"proto":"wireguard"}]}
X
`)
	want := []state.Interface{
		{Name: "lan", Proto: "static", Device: "br-lan", L3Device: "br-lan", Up: true},
		{Name: "vpn", Proto: "wireguard"},
		{Name: "wan", Proto: "pppoe", Device: "eth0.35", L3Device: "pppoe-wan", Up: true, Zone: "wan"},
	}
	got, late, err := k.interfaces()
	if err != nil || late || !reflect.DeepEqual(got, want) {
		t.Errorf("interfaces %+v, %v; want %+v", got, err, want)
	}
}

func TestInterfacesRecorded(t *testing.T) {
	b, err := os.ReadFile("../../../shared/fixtures/ubus-network.interface-dump.json")
	if err != nil {
		t.Log("the recorded dump is not here:", err)
		return
	}
	list, err := readInterfaces(b)
	must(t, err)
	for _, i := range list {
		if i.Name == "lan" && i.L3Device == "br-lan" && i.Proto == "static" && i.Up {
			return
		}
	}
	t.Errorf("no lan in %+v", list)
}

func TestInterfacesWithoutAnswer(t *testing.T) {
	inNamespace(t)
	k := newKernel(t)
	for name, script := range map[string]string{
		"failing": "exit 4\n", "garbage": "echo nonsense\n",
	} {
		fakeUbus(t, script)
		if list, _, err := k.interfaces(); err == nil || list != nil {
			t.Errorf("%s: %v, %v", name, list, err)
		}
	}
	// A look goes on without it.
	fakeUbus(t, "exit 4\n")
	if o := observe(t, k); o.Interfaces != nil || len(o.Links) == 0 {
		t.Errorf("observed %+v", o)
	}
	t.Setenv("PATH", t.TempDir())
	if list, _, err := k.interfaces(); err != nil || list != nil {
		t.Errorf("without ubus: %v, %v", list, err)
	}
}

// TestInterfacesLate: a look doesn't wait for a netifd that hangs. What it said
// last counts, and its answer is an event.
func TestInterfacesLate(t *testing.T) {
	inNamespace(t)
	k := newKernel(t)
	events := watch(t, k)
	const first, second = `{"interface":[{"interface":"lan","proto":"static"}]}`, `{"interface":[{"interface":"wan_4","proto":"dslite"}]}`
	fakeUbus(t, "echo '"+first+"'\n")
	if list, late, err := k.interfaces(); err != nil || late || len(list) != 1 {
		t.Fatalf("%v, %v, %v", list, late, err)
	}
	answer := filepath.Join(t.TempDir(), "go")
	fakeUbus(t, "while [ ! -e "+answer+" ]; do sleep 0.05; done; echo '"+second+"'\n")
	for range 3 { // one question only is under way
		if list, late, err := k.interfaces(); err != nil || !late || len(list) != 1 || list[0].Name != "lan" {
			t.Fatalf("while netifd hangs: %v, %v, %v", list, late, err)
		}
	}
	if o := observe(t, k); !o.NetifdLate {
		t.Error("a look doesn't tell that netifd is late")
	}
	must(t, os.WriteFile(answer, nil, 0o644))
	comes(t, events, "netifd's answer")
	if list, late, err := k.interfaces(); err != nil || late || len(list) != 1 || list[0].Name != "wan_4" {
		t.Errorf("after it: %v, %v, %v", list, late, err)
	}
}
