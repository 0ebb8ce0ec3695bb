// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// savedSysctl is one in saved.json: what it was before us, and what we set.
type savedSysctl struct {
	Was string `json:"was"`
	Set string `json:"set"`
}

func sysctlPath(name string) string {
	return filepath.Join("/proc/sys", strings.ReplaceAll(name, ".", "/"))
}

// sysctls reads those that fastpath may change.
func (k *Kernel) sysctls() map[string]state.Sysctl {
	all := map[string]state.Sysctl{}
	for _, name := range []string{state.SysctlAcct} {
		all[name] = readSysctl(sysctlPath(name))
	}
	return all
}

func readSysctl(path string) (s state.Sysctl) {
	value, err := os.ReadFile(path)
	if err == nil {
		s.Value = strings.TrimSpace(string(value))
		err = unix.Access(path, unix.W_OK)
	}
	if err != nil {
		s.Fixed = Explain(err)
	}
	return s
}

// setSysctl saves what a sysctl is, if that hasn't been done yet, and sets it.
// If it doesn't take the value, nothing has changed.
func (k *Kernel) setSysctl(name, value string) error {
	now := readSysctl(sysctlPath(name))
	f, err := k.loadFile()
	if err != nil || now.Value == value {
		return err
	}
	_, before := f.Sysctls[name]
	if !before {
		if f.Sysctls == nil {
			f.Sysctls = map[string]savedSysctl{}
		}
		f.Sysctls[name] = savedSysctl{Was: now.Value, Set: value}
		if err := k.storeFile(f); err != nil {
			return err
		}
	}
	err = k.writeSysctl(name, value)
	if err != nil && !before {
		delete(f.Sysctls, name)
		err = errors.Join(err, k.storeFile(f))
	}
	return err
}

func (k *Kernel) writeSysctl(name, value string) error {
	err := k.inject("write sysctl")
	if err == nil {
		err = os.WriteFile(sysctlPath(name), []byte(value), 0)
	}
	if err != nil {
		return fmt.Errorf("sysctl %s: %w", name, err)
	}
	return nil
}

// restoreSysctl gives a sysctl back what it was and forgets it. One that isn't
// any more what we set is somebody else's.
func (k *Kernel) restoreSysctl(name string) error {
	f, err := k.loadFile()
	saved, ok := f.Sysctls[name]
	if err != nil || !ok {
		return err
	}
	if readSysctl(sysctlPath(name)).Value == saved.Set {
		if err := k.writeSysctl(name, saved.Was); err != nil {
			return err
		}
	}
	delete(f.Sysctls, name)
	return k.storeFile(f)
}

// savedSysctls is what Observe tells.
func (k *Kernel) savedSysctls() (map[string]string, error) {
	f, err := k.loadFile()
	was := map[string]string{}
	for name, s := range f.Sysctls {
		was[name] = s.Was
	}
	return was, err
}
