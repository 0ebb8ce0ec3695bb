// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"fastpath/src/state"
)

var (
	fraglist = state.Offloads{GRO: true, GROList: true}
	plainGRO = state.Offloads{GRO: true}
	bulk     = state.Offloads{}
)

func offloadsOf(t *testing.T, k *Kernel, name string) state.Offloads {
	t.Helper()
	return link(t, observe(t, k), name).Feature.Offloads()
}

func setByHand(t *testing.T, k *Kernel, name string, o state.Offloads) {
	t.Helper()
	e, err := k.ethtool()
	must(t, err)
	defer e.close()
	index, err := k.indexOf(name)
	must(t, err)
	must(t, e.change(index, o))
}

func TestOffloadsAreSavedAndRestored(t *testing.T) {
	inNamespace(t)
	veth(t, "wan")
	k := newKernel(t)
	setByHand(t, k, "wan", fraglist)
	apply(t, k, state.SetOffloads{Port: "wan", Want: fraglist})
	if o := observe(t, k); len(o.Saved) != 0 {
		t.Errorf("nothing was changed, but saved: %v", o.Saved)
	}
	for _, want := range []state.Offloads{bulk, plainGRO, bulk} {
		apply(t, k, state.SetOffloads{Port: "wan", Want: want})
		if got := offloadsOf(t, k, "wan"); got != want {
			t.Errorf("wan has %v, want %v", got, want)
		}
		// The first value is the port's own; the later ones are ours.
		if o := observe(t, k); !reflect.DeepEqual(o.Saved, map[string]state.Offloads{"wan": fraglist}) {
			t.Errorf("saved %v", o.Saved)
		}
	}
	info, err := os.Stat(k.savedPath())
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("saved.json has mode %o", info.Mode().Perm())
	}
	// Another process, as after a crash, gives back what this one saved.
	next, err := New(k.runDir, k.log)
	must(t, err)
	defer next.Close()
	apply(t, next, state.RestoreOffloads{Port: "wan", Saved: fraglist})
	if got := offloadsOf(t, k, "wan"); got != fraglist {
		t.Errorf("after restoring wan has %v", got)
	}
	if left, _ := filepath.Glob(filepath.Join(k.runDir, "*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	apply(t, k, state.RestoreOffloads{Port: "wan"})
}

// TestOffloadsFixed: a feature that the driver won't change is named, and the
// others are as before.
func TestOffloadsFixed(t *testing.T) {
	inNamespace(t)
	veth(t, "wan")
	k := newKernel(t)
	setByHand(t, k, "wan", plainGRO)
	err := k.Apply(state.SetOffloads{Port: "wan", Want: state.Offloads{GROList: true, LRO: true}})
	if err == nil || !strings.HasSuffix(err.Error(), ": rx-lro stays off [fixed]") {
		t.Errorf("error %v", err)
	}
	if got := offloadsOf(t, k, "wan"); got != plainGRO {
		t.Errorf("wan has %v", got)
	}
	if o := observe(t, k); len(o.Saved) != 0 {
		t.Errorf("saved %v", o.Saved)
	}
}

// TestOffloadsOfAnotherDevice: a device that only has the same name gets no
// values that were never its own.
func TestOffloadsOfAnotherDevice(t *testing.T) {
	inNamespace(t)
	veth(t, "wan")
	k := newKernel(t)
	setByHand(t, k, "wan", fraglist)
	apply(t, k, state.SetOffloads{Port: "wan", Want: bulk})
	run(t, "ip link del wan")
	veth(t, "wan")
	setByHand(t, k, "wan", plainGRO)
	apply(t, k, state.RestoreOffloads{Port: "wan", Saved: fraglist})
	if got := offloadsOf(t, k, "wan"); got != plainGRO {
		t.Errorf("the new wan got %v", got)
	}
	if o := observe(t, k); len(o.Saved) != 0 {
		t.Errorf("not forgotten: %v", o.Saved)
	}
	// The same when it is set before it is restored: its own value is saved.
	apply(t, k, state.SetOffloads{Port: "wan", Want: bulk})
	run(t, "ip link del wan")
	veth(t, "wan")
	setByHand(t, k, "wan", fraglist)
	apply(t, k, state.SetOffloads{Port: "wan", Want: bulk})
	must(t, k.Cleanup())
	if got := offloadsOf(t, k, "wan"); got != fraglist {
		t.Errorf("after cleanup wan has %v", got)
	}
}

func TestOffloadsVanish(t *testing.T) {
	inNamespace(t)
	veth(t, "wan", "lan")
	k := newKernel(t)
	setByHand(t, k, "lan", fraglist)
	setByHand(t, k, "wan", fraglist)
	apply(t, k, state.SetOffloads{Port: "wan", Want: bulk})
	apply(t, k, state.SetOffloads{Port: "lan", Want: bulk})
	run(t, "ip link del wan")
	if err := k.Apply(state.SetOffloads{Port: "wan", Want: plainGRO}); !errors.Is(err, ErrVanished) {
		t.Errorf("setting a port that is gone: %v", err)
	}
	apply(t, k, state.RestoreOffloads{Port: "wan"})
}

// TestOffloadsOfARenamedPort: a port that was renamed is still the same one,
// whoever has its name now.
func TestOffloadsOfARenamedPort(t *testing.T) {
	inNamespace(t)
	veth(t, "lan")
	k := newKernel(t)
	setByHand(t, k, "lan", fraglist)
	apply(t, k, state.SetOffloads{Port: "lan", Want: bulk})
	rename := func() {
		for _, line := range []string{"lan down", "peer-lan name peer-lan9", "lan name lan9"} {
			run(t, "ip link set "+line)
		}
	}
	rename()
	if o := observe(t, k); !reflect.DeepEqual(o.Saved, map[string]state.Offloads{"lan9": fraglist}) {
		t.Errorf("saved %v, want lan9's", o.Saved)
	}
	apply(t, k, state.RestoreOffloads{Port: "lan9"})
	if got := offloadsOf(t, k, "lan9"); got != fraglist {
		t.Errorf("the renamed port has %v", got)
	}
	run(t, "ip link set lan9 name lan")
	run(t, "ip link set peer-lan9 name peer-lan")
	apply(t, k, state.SetOffloads{Port: "lan", Want: bulk})
	rename()
	veth(t, "lan")
	setByHand(t, k, "lan", plainGRO)
	apply(t, k, state.SetOffloads{Port: "lan", Want: bulk})
	if o := observe(t, k); !reflect.DeepEqual(o.Saved, map[string]state.Offloads{"lan": plainGRO, "lan9": fraglist}) {
		t.Errorf("saved %v, want both", o.Saved)
	}
	must(t, k.Cleanup())
	if lan, lan9 := offloadsOf(t, k, "lan"), offloadsOf(t, k, "lan9"); lan != plainGRO || lan9 != fraglist {
		t.Errorf("after cleanup lan has %v, lan9 %v", lan, lan9)
	}
}

// TestRestoreAsFarAsItGoes: what a port can't take any more is named and stays
// owed; the rest comes back.
func TestRestoreAsFarAsItGoes(t *testing.T) {
	inNamespace(t)
	veth(t, "wan")
	k := newKernel(t)
	setByHand(t, k, "wan", bulk)
	index, err := k.indexOf("wan")
	must(t, err)
	own := state.Offloads{GRO: true, LRO: true}
	must(t, k.storeSaved(savedPorts{index: {Name: "wan", Offloads: own}}))
	err = k.Apply(state.RestoreOffloads{Port: "wan", Saved: own})
	if err == nil || !strings.HasSuffix(err.Error(), ": rx-lro stays off [fixed]") {
		t.Errorf("error %v", err)
	}
	if got := offloadsOf(t, k, "wan"); got != plainGRO {
		t.Errorf("wan has %v, want %v", got, plainGRO)
	}
	if o := observe(t, k); o.Saved["wan"] != own {
		t.Errorf("saved %v, want %v", o.Saved, own)
	}
}

// TestSavedByAnOlderVersion: a file that says nothing of a feature doesn't
// decide about it, neither at once nor after the next change.
func TestSavedByAnOlderVersion(t *testing.T) {
	inNamespace(t)
	veth(t, "wan")
	k := newKernel(t)
	had := state.Offloads{GRO: true, RxVLAN: true}
	setByHand(t, k, "wan", state.Offloads{RxVLAN: true})
	index, err := k.indexOf("wan")
	must(t, err)
	text := fmt.Sprintf(`{"boot":"%s","ports":{"%d":{"name":"wan","offloads":{"rx-gro":true,"rx-gro-list":false,"rx-gro-hw":false,"rx-lro":false}}}}`,
		bootID(), index)
	old := func() { must(t, os.WriteFile(k.savedPath(), []byte(text), 0o600)) }
	old()
	if o := observe(t, k); o.Saved["wan"] != had {
		t.Errorf("saved %v, want %v", o.Saved["wan"], had)
	}
	apply(t, k, state.RestoreOffloads{Port: "wan"})
	if got := offloadsOf(t, k, "wan"); got != had {
		t.Errorf("restored %v, want %v", got, had)
	}
	old()
	apply(t, k, state.SetOffloads{Port: "wan", Want: bulk})
	if o := observe(t, k); o.Saved["wan"] != had {
		t.Errorf("after a change saved %v, want %v", o.Saved["wan"], had)
	}
	must(t, k.Cleanup())
	if got := offloadsOf(t, k, "wan"); got != had {
		t.Errorf("after cleanup %v, want %v", got, had)
	}
}

func TestSavedFile(t *testing.T) {
	k := newKernel(t)
	ports := savedPorts{3: {Name: "wan", Offloads: fraglist}}
	must(t, k.storeSaved(ports))
	got, err := k.loadSaved()
	if err != nil || !reflect.DeepEqual(got, ports) {
		t.Errorf("read %v, %v", got, err)
	}
	write := func(s string) { must(t, os.WriteFile(k.savedPath(), []byte(s), 0o600)) }
	for name, text := range map[string]string{
		"another boot": `{"boot":"00000000-0000-0000-0000-000000000000","ports":{"3":{"name":"wan","offloads":{}}}}`,
		"no ports":     `{"boot":"` + bootID() + `"}`,
		"cut off":      `{"boot":"` + bootID() + `","ports":{"3":{"na`,
		"empty":        "",
	} {
		write(text)
		if got, err := k.loadSaved(); err != nil || len(got) != 0 {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if _, err := os.Stat(k.savedPath() + ".broken"); err != nil {
		t.Errorf("what could not be read was not put aside: %v", err)
	}
	must(t, k.storeSaved(nil))
	must(t, k.storeSaved(nil))
	k.runDir = filepath.Join(k.runDir, "new", "folder")
	must(t, k.storeSaved(ports))
	k.runDir = "/proc/nowhere"
	if err := k.storeSaved(ports); err == nil || !strings.Contains(err.Error(), "/proc/nowhere") {
		t.Errorf("a folder that can't be: %v", err)
	}
}
