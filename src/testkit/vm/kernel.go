// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Kernel is something that qemu can boot.
type Kernel struct {
	Name    string // 6.1, 6.12, early, or the path of KERNEL
	Image   string // the bzImage's path
	Modules string // folder of its modules (lib/modules/RELEASE); "" when all is built in
}

// ErrNoKernel is wrapped by Find's error for a kernel that can't be had here.
var ErrNoKernel = errors.New("no such kernel here")

// debian are the kernels that come as packages of Debian 12: the metapackage
// names the newest build.
var debian = map[string]string{
	"6.1":  "linux-image-amd64",
	"6.12": "linux-image-6.12-amd64",
}

// Kernels are the names to test on: $KERNEL alone if it is set, else every
// name that Find knows. A test calls Find for each and says which can't be had.
func Kernels() []string {
	if k := os.Getenv("KERNEL"); k != "" {
		return []string{k}
	}
	return []string{"6.1", "6.12", "early"}
}

// Find returns a kernel by name:
//
//	6.1, 6.12  Debian 12's packages, downloaded with apt-get on first use and
//	           kept in BuildDir
//	early      a kernel with the early_ingress hook: $EARLY_KERNEL, or
//	           ../shared/kernel/bzImage beside the repository
//	PATH       any other bzImage, with the modules in $MODULES if that is set;
//	           absolute paths, since tests run in their own folders
func Find(name string) (Kernel, error) {
	if pkg, ok := debian[name]; ok {
		return debianKernel(name, pkg)
	}
	k := Kernel{Name: name, Image: name, Modules: os.Getenv("MODULES")}
	hint := "it is neither 6.1, 6.12, early nor a file"
	if name == "early" {
		hint = "no distribution has one, EARLY_KERNEL=path names one"
		root, err := RepoRoot()
		if err != nil {
			return Kernel{}, err
		}
		k = Kernel{Name: name, Image: filepath.Join(root, "..", "shared", "kernel", "bzImage")}
		if p := os.Getenv("EARLY_KERNEL"); p != "" {
			k.Image = p
		}
	}
	if _, err := os.Stat(k.Image); err != nil {
		return Kernel{}, fmt.Errorf("kernel %s: %w (%s): %w", name, ErrNoKernel, hint, err)
	}
	return k, nil
}
