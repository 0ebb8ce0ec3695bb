// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// debianKernel returns the kernel that metapackage meta names, from the
// cache, or from apt when it isn't there yet. Concurrent test processes wait
// for each other.
func debianKernel(name, meta string) (Kernel, error) {
	build, err := BuildDir()
	if err != nil {
		return Kernel{}, err
	}
	dir := filepath.Join(build, "kernel", name)
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return Kernel{}, err
	}
	unlock, err := lock(dir + ".lock")
	if err != nil {
		return Kernel{}, err
	}
	defer unlock()
	k, err := unpackedKernel(name, dir)
	if !errors.Is(err, os.ErrNotExist) {
		return k, err
	}
	if err := fetchKernel(meta, dir); err != nil {
		return Kernel{}, fmt.Errorf("kernel %s: %w: %w", name, ErrNoKernel, err)
	}
	return unpackedKernel(name, dir)
}

// lock waits for an exclusive lock on path and returns what gives it up.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}

// unpackedKernel finds image and modules in an unpacked package.
func unpackedKernel(name, dir string) (Kernel, error) {
	if _, err := os.Stat(dir); err != nil {
		return Kernel{}, err
	}
	images, err := filepath.Glob(filepath.Join(dir, "boot", "vmlinuz-*"))
	if err != nil || len(images) != 1 {
		return Kernel{}, fmt.Errorf("%s: %d kernels in boot, want one: remove the folder to download it again", dir, len(images))
	}
	release := strings.TrimPrefix(filepath.Base(images[0]), "vmlinuz-")
	for _, lib := range []string{"lib", "usr/lib"} {
		modules := filepath.Join(dir, lib, "modules", release)
		if _, err := os.Stat(modules); err == nil {
			return Kernel{Name: name, Image: images[0], Modules: modules}, nil
		}
	}
	return Kernel{}, fmt.Errorf("%s: no modules of %s: remove the folder to download it again", dir, release)
}

// fetchKernel downloads the package that meta depends on and unpacks it as dir.
func fetchKernel(meta, dir string) error {
	tmp, err := os.MkdirTemp(filepath.Dir(dir), "fetch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	depends, err := output(tmp, "apt-cache", "depends", "--important", meta)
	if err != nil {
		return err
	}
	_, pkg, ok := strings.Cut(depends, "Depends: ")
	if !ok {
		return fmt.Errorf("%s depends on nothing: %q", meta, depends)
	}
	if _, err := output(tmp, "apt-get", "download", "--quiet", strings.Fields(pkg)[0]); err != nil {
		return err
	}
	debs, err := filepath.Glob(filepath.Join(tmp, "*.deb"))
	if err != nil || len(debs) != 1 {
		return fmt.Errorf("apt-get download %s left %d packages", pkg, len(debs))
	}
	if _, err := output(tmp, "dpkg-deb", "--extract", debs[0], "new"); err != nil {
		return err
	}
	return os.Rename(filepath.Join(tmp, "new"), dir)
}

// output runs a program in dir and returns what it printed.
func output(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}
