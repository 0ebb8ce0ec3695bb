// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path"
)

// archive writes a cpio archive in the "newc" format, as the kernel unpacks
// it (Documentation/driver-api/early-userspace/buffer-format.rst). Folders
// are added as they are needed. The first error sticks and close returns it.
type archive struct {
	w     *bufio.Writer
	inode int
	have  map[string]bool // names in the archive, without the leading /
	err   error
}

func newArchive(w io.Writer) *archive {
	return &archive{w: bufio.NewWriterSize(w, 1<<20), have: map[string]bool{"": true, ".": true}}
}

// has says whether name, an absolute path, was added.
func (a *archive) has(name string) bool { return a.have[clean(name)] }

func clean(name string) string { return path.Clean("/" + name)[1:] }

// dir adds a folder and the folders above it, unless they are there.
func (a *archive) dir(name string) {
	name = clean(name)
	if a.have[name] {
		return
	}
	a.dir(path.Dir(name))
	a.entry(name, 0o040755, nil)
}

// symlink adds a symbolic link, unless name is there.
func (a *archive) symlink(name, target string) {
	if name = clean(name); a.have[name] {
		return
	}
	a.dir(path.Dir(name))
	a.entry(name, 0o120777, []byte(target))
}

// bytes adds a file with the permissions perm.
func (a *archive) bytes(name string, perm os.FileMode, content []byte) {
	name = clean(name)
	a.dir(path.Dir(name))
	a.entry(name, 0o100000|uint32(perm.Perm()), content)
}

// device adds a character device.
func (a *archive) device(name string, major, minor int) {
	name = clean(name)
	a.dir(path.Dir(name))
	a.header(name, 0o020600, 0, major, minor)
}

// file adds the host's file src.
func (a *archive) file(name, src string) {
	if a.err != nil {
		return
	}
	info, err := os.Stat(src)
	if err != nil {
		a.err = err
		return
	}
	content, err := os.ReadFile(src)
	if err != nil {
		a.err = err
		return
	}
	a.bytes(name, info.Mode(), content)
}

func (a *archive) entry(name string, mode uint32, content []byte) {
	a.header(name, mode, len(content), 0, 0)
	a.write(content)
	a.pad(len(content))
}

// header writes one header: 6 bytes magic, 13 fields of 8 hex digits, the
// name with its zero byte, padded to 4 bytes. Owner is root, time is 0.
func (a *archive) header(name string, mode uint32, size, major, minor int) {
	if a.err == nil && a.have[name] {
		a.err = fmt.Errorf("cpio: %s added twice", name)
	}
	a.have[name] = true
	a.inode++
	h := fmt.Sprintf("070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\x00",
		a.inode, mode, 0, 0, 1, 0, size, 0, 0, major, minor, len(name)+1, 0, name)
	a.write([]byte(h))
	a.pad(len(h))
}

func (a *archive) write(b []byte) {
	if a.err == nil {
		_, a.err = a.w.Write(b)
	}
}

func (a *archive) pad(n int) { a.write(make([]byte, -n&3)) }

// close writes the trailer.
func (a *archive) close() error {
	a.header("TRAILER!!!", 0, 0, 0, 0)
	if a.err != nil {
		return a.err
	}
	return a.w.Flush()
}
