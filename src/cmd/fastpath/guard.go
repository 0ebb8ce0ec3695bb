// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"fastpath/src/config"
)

// guard notices a router that crashes soon after acceleration has begun, again
// and again, as driver and kernel faults make it: the next start is then a
// passive one, until the daemon is started once more.
//
// A mark on flash says that a start isn't proven yet. It is the only thing that
// outlives a crash of the kernel, and costs two writes a boot: one at the start,
// one when calm is over or at an orderly stop. A daemon that starts again within
// the same boot counts nothing: the kernel has survived.
type guard struct {
	path string // the mark: how many boots ended unproven, and the boot that wrote it
	boot string // /proc/sys/kernel/random/boot_id
}

const (
	calm         = 10 * time.Minute // after which a start is proven
	mostUnproven = 3                // boots in a row that ended before that
)

// newGuard keeps its mark beside the directory of the configuration: in
// /etc/fastpath for /etc/config.
func newGuard(config string) guard {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return guard{filepath.Join(filepath.Dir(filepath.Clean(config)), "fastpath", "unproven"), strings.TrimSpace(string(boot))}
}

// arm sets the mark, or says why this start has to be passive and takes the mark
// away. Without a place to write there is no guard: that is the error.
func (g guard) arm() (passive string, err error) {
	ended, boot := g.read()
	if boot != "" && boot != g.boot {
		ended++
	}
	if ended >= mostUnproven {
		return fmt.Sprintf("the router went down %d times in a row within %.0f minutes of the start of acceleration, without an orderly stop: "+
			"nothing is accelerated; restart fastpath to try again", ended, calm.Minutes()), g.prove()
	}
	if boot == g.boot {
		return "", nil
	}
	if err = os.MkdirAll(filepath.Dir(g.path), 0o755); err == nil {
		err = writeThrough(g.path, fmt.Sprintf("%d %s\n", ended, g.boot))
	}
	return "", err
}

// start arms the guard where something will be accelerated. stop is for an orderly
// end, by which nothing is left to prove.
func (g guard) start(dirs config.Dirs, log *slog.Logger) (passive string, stop func()) {
	if conf, _ := config.LoadLenient(dirs); !conf.Main.Enabled {
		return "", func() {}
	}
	said := func(err error) {
		if err != nil {
			log.Warn("a loop of crashes may go unnoticed", "error", err)
		}
	}
	passive, err := g.arm()
	said(err)
	proof := time.AfterFunc(calm, func() { said(g.prove()) })
	return passive, func() { proof.Stop(); said(g.prove()) }
}

// read gives what the mark says; boot is "" without one, or with one that can't be understood.
func (g guard) read() (ended int, boot string) {
	text, err := os.ReadFile(g.path)
	if err != nil {
		return 0, ""
	}
	count, boot, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	if ended, err = strconv.Atoi(count); err != nil || boot == "" {
		return 0, ""
	}
	return ended, boot
}

// prove takes the mark away.
func (g guard) prove() error {
	if err := os.Remove(g.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("guard: %w", err)
	}
	return nil
}

// writeThrough writes a file that is on the disk when it returns.
func writeThrough(path, text string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Sync(), f.Close())
}
