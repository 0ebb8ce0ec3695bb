// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"fastpath/src/testkit/vm/job"
)

// merged are the folders that Debian has as links into /usr. The VM has the
// same, and everything is added below /usr.
var merged = []string{"bin", "sbin", "lib", "lib64"}

// hostFiles are read by libc and pppd; a host may lack them.
var hostFiles = []string{"/etc/protocols", "/etc/services", "/etc/ethertypes"}

// writeImage writes the initramfs for cfg. initProg is the path of init.
func writeImage(w io.Writer, cfg Config, modules []module, initProg string) error {
	a := newArchive(w)
	for _, d := range merged {
		a.dir("usr/" + d)
		a.symlink(d, "usr/"+d)
	}
	for _, d := range []string{"proc", "sys", "dev", "run", "tmp", "root", "etc", "job", "var/lib"} {
		a.dir(d)
	}
	a.symlink("var/run", "/run")
	a.symlink("var/lock", "/run/lock")
	a.symlink("var/log", "/tmp")
	a.device("dev/console", 5, 1) // init's stdout, before devtmpfs is mounted
	a.device("dev/null", 1, 3)
	a.file("init", initProg)
	a.bytes("etc/passwd", 0o644, []byte("root:x:0:0:root:/root:/bin/sh\n"))
	a.bytes("etc/group", 0o644, []byte("root:x:0:\n"))
	a.bytes("etc/hosts", 0o644, []byte("127.0.0.1 localhost\n"))
	for _, f := range hostFiles {
		if _, err := os.Stat(f); err == nil {
			a.file(f, f)
		}
	}
	if err := addJob(a, cfg, modules); err != nil {
		return err
	}
	for _, p := range cfg.Programs {
		if err := addProgram(a, p); err != nil {
			return err
		}
	}
	for dest, src := range cfg.Files {
		if err := addFile(a, underUsr(dest), src); err != nil {
			return err
		}
	}
	if slices.Contains(cfg.Programs, "busybox") {
		if err := addApplets(a); err != nil {
			return err
		}
	}
	return a.close()
}

func addJob(a *archive, cfg Config, modules []module) error {
	j := job.Job{Args: cfg.Args, Env: cfg.Env}
	for _, m := range modules {
		j.Modules = append(j.Modules, m.name+".ko")
		a.bytes(filepath.Join(job.ModuleDir, m.name+".ko"), 0o644, m.content)
	}
	text, err := json.Marshal(j)
	if err != nil {
		return err
	}
	a.bytes(job.File, 0o644, text)
	return nil
}

// underUsr is the path of a host's file in the VM.
func underUsr(p string) string {
	top, _, _ := strings.Cut(strings.TrimPrefix(p, "/"), "/")
	if slices.Contains(merged, top) {
		return "/usr" + p
	}
	return p
}

// addProgram adds a program of the host, by name, with what it loads at run time.
func addProgram(a *archive, name string) error {
	path, err := lookProgram(name)
	if err != nil {
		return err
	}
	if err := addFile(a, underUsr(path), path); err != nil {
		return err
	}
	if name == "pppd" {
		return addPlugin(a)
	}
	return nil
}

// addPlugin adds pppd's plugin for the kernel's PPPoE.
func addPlugin(a *archive) error {
	plugins, err := filepath.Glob("/usr/lib/pppd/*/rp-pppoe.so")
	if err != nil || len(plugins) != 1 {
		return errors.Join(fmt.Errorf("%d plugins rp-pppoe.so in /usr/lib/pppd, want one", len(plugins)), err)
	}
	a.bytes("/etc/ppp/options", 0o644, nil) // pppd insists on it
	return addFile(a, plugins[0], plugins[0])
}

// lookProgram is exec.LookPath with the administrator's folders, which an
// ordinary user's PATH may lack.
func lookProgram(name string) (string, error) {
	if p, err := exec.LookPath(name); err == nil {
		return filepath.Abs(p)
	}
	for _, dir := range []string{"/usr/sbin", "/sbin", "/usr/local/sbin"} {
		if p, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return p, nil
		}
	}
	return "", fmt.Errorf("program %s: %w (make deps installs what the VM needs)", name, exec.ErrNotFound)
}

// addApplets links busybox's applets where no real program stands. Debian's
// busybox sh prefers its own applets even so: a script that calls ip wants
// the program sh.
func addApplets(a *archive) error {
	busybox, err := lookProgram("busybox")
	if err != nil {
		return err
	}
	list, err := exec.Command(busybox, "--list").Output()
	if err != nil {
		return fmt.Errorf("%s --list: %w", busybox, err)
	}
	for _, applet := range strings.Fields(string(list)) {
		if !a.has("/usr/sbin/" + applet) {
			a.symlink("/usr/bin/"+applet, underUsr(busybox))
		}
	}
	return nil
}

// addFile adds a file or a folder of the host, and the shared libraries that
// its programs need.
func addFile(a *archive, dest, src string) error {
	return filepath.WalkDir(src, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(src, p)
		if err != nil {
			return err
		}
		at := filepath.Join(dest, rel)
		if d.IsDir() {
			a.dir(at)
			return nil
		}
		if a.has(at) {
			return nil
		}
		a.file(at, p)
		return addLibraries(a, p)
	})
}

// addLibraries adds the shared libraries of an ELF file. The dynamic loader
// of the host says which they are.
func addLibraries(a *archive, path string) error {
	f, err := elf.Open(path)
	var notELF *elf.FormatError
	if errors.As(err, &notELF) || errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	needed, err := f.ImportedLibraries()
	f.Close()
	if err != nil || len(needed) == 0 {
		return err
	}
	out, err := exec.Command("ldd", path).Output()
	if err != nil {
		return fmt.Errorf("ldd %s: %w", path, err)
	}
	for line := range bytes.Lines(out) {
		// "libc.so.6 => /lib/…/libc.so.6 (0x…)" or "/lib64/ld-linux….so.2 (0x…)"
		for _, field := range strings.Fields(string(line)) {
			if strings.HasPrefix(field, "/") && !a.has(underUsr(field)) {
				a.file(underUsr(field), field)
			}
		}
	}
	return a.err
}
