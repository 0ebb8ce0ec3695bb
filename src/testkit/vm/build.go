// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// RepoRoot is the folder of go.mod, found upwards from the working folder.
func RepoRoot() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod here or above: run it inside the repository")
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}

// BuildDir is the cache of what takes long to make: $FASTPATH_BUILD, or build/
// in the repository.
func BuildDir() (string, error) {
	if dir := os.Getenv("FASTPATH_BUILD"); dir != "" {
		return filepath.Abs(dir)
	}
	root, err := RepoRoot()
	return filepath.Join(root, "build"), err
}

// GoBuild builds the Go package pkg ("./src/…", from the repository's root) as
// the static program out.
func GoBuild(out, pkg string) error {
	return goStatic("build", "-trimpath", "-ldflags=-s -w", "-o", out, pkg)
}

// GoTestBuild builds the guest tests of pkg, those with the build tag guest,
// as the static program out.
func GoTestBuild(out, pkg string) error {
	return goStatic("test", "-c", "-tags=guest", "-ldflags=-s -w", "-o", out, pkg)
}

func goStatic(args ...string) error {
	root, err := RepoRoot()
	if err != nil {
		return err
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, text)
	}
	return nil
}
