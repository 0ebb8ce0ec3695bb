// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"fastpath/src/state"
)

// savedFile is saved.json: the receive offloads that each port had before we
// changed them, and sysctls. It is of no use after a reboot.
type savedFile struct {
	Boot    string                 `json:"boot"` // /proc/sys/kernel/random/boot_id
	Ports   savedPorts             `json:"ports"`
	Sysctls map[string]savedSysctl `json:"sysctls,omitempty"`
}

// savedPorts are by interface index: the kernel gives one once per boot, so a
// port that was renamed is still the same one, and another device that has its
// name now is not taken for it. (The MAC says less: netifd sets it, ports of a
// switch share it.)
type savedPorts map[int]savedPort

type savedPort struct {
	Name     string         `json:"name"` // at the time, for the reader
	Offloads state.Offloads `json:"offloads"`
	// old: the file is of a version that didn't know rx-vlan-hw-parse.
	old bool
}

// UnmarshalJSON notices what isn't there.
func (p *savedPort) UnmarshalJSON(b []byte) error {
	var f struct {
		Name     string
		Offloads struct {
			state.Offloads
			RxVLAN *bool `json:"rx-vlan-hw-parse"`
		}
	}
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	*p = savedPort{Name: f.Name, Offloads: f.Offloads.Offloads, old: f.Offloads.RxVLAN == nil}
	if !p.old {
		p.Offloads.RxVLAN = *f.Offloads.RxVLAN
	}
	return nil
}

// own is what the port had before us, where it has now what now says: what a
// version didn't know it hasn't changed.
func (p savedPort) own(now state.Features) state.Offloads {
	if p.old {
		p.Offloads.RxVLAN = now.RxVLAN.On
	}
	return p.Offloads
}

func (k *Kernel) savedPath() string { return filepath.Join(k.runDir, "saved.json") }

func bootID() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b))
}

// loadSaved reads the ports of saved.json.
func (k *Kernel) loadSaved() (savedPorts, error) {
	f, err := k.loadFile()
	return f.Ports, err
}

// loadFile reads saved.json; a missing one is empty. One that can't be
// understood is put aside, because every later step would fail on it.
func (k *Kernel) loadFile() (savedFile, error) {
	none := savedFile{Ports: savedPorts{}}
	b, err := os.ReadFile(k.savedPath())
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return savedFile{}, fmt.Errorf("saved settings: %w", err)
	}
	var f savedFile
	if err := json.Unmarshal(b, &f); err != nil {
		aside := k.savedPath() + ".broken"
		k.log.Error("saved settings can't be read, ports keep what they have", "file", aside, "err", err)
		return none, os.Rename(k.savedPath(), aside)
	}
	if f.Boot != bootID() {
		return none, nil
	}
	if f.Ports == nil {
		f.Ports = savedPorts{}
	}
	return f, nil
}

// storeSaved replaces the ports of saved.json.
func (k *Kernel) storeSaved(ports savedPorts) error {
	f, err := k.loadFile()
	if err != nil {
		return err
	}
	f.Ports = ports
	return k.storeFile(f)
}

// storeFile replaces saved.json as a whole, or removes it when nothing is left.
func (k *Kernel) storeFile(f savedFile) error {
	if err := k.inject("write saved.json"); err != nil {
		return fmt.Errorf("saved settings: %w", err)
	}
	if len(f.Ports)+len(f.Sysctls) == 0 {
		if err := os.Remove(k.savedPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("saved settings: %w", err)
		}
		return nil
	}
	f.Boot = bootID()
	b, err := json.Marshal(f)
	if err == nil {
		err = os.MkdirAll(k.runDir, 0o755)
	}
	if err == nil {
		err = replaceFile(k.savedPath(), append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("saved settings: %w", err)
	}
	return nil
}

// replaceFile writes a file so that after a crash it is the old or the new one.
func replaceFile(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// saved is what Observe tells: by the names that the devices have now. One that
// is gone isn't among them; what it had stays in the file until Cleanup.
func (k *Kernel) saved(links []state.Link) (map[string]state.Offloads, error) {
	ports, err := k.loadSaved()
	out := make(map[string]state.Offloads, len(ports))
	for _, l := range links {
		if p, ok := ports[l.Index]; ok {
			out[l.Name] = p.own(l.Feature)
		}
	}
	return out, err
}
