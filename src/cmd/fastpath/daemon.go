// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"fastpath/src/agent"
	"fastpath/src/engine"
	"fastpath/src/kernel"
	"fastpath/src/status"
)

// run is the daemon. What it takes it gives back in the opposite order.
func run(c *call) int {
	log, err := c.logger()
	if err != nil {
		return c.wrongUse("run", "%v", err)
	}
	one, err := acquire(c.runDir)
	if err != nil {
		return c.fail("run", err)
	}
	stayThin()
	k, err := kernel.New(c.runDir, log)
	if err != nil {
		return c.fail("run", errors.Join(err, one.release()))
	}
	err = c.serve(one, k, log)
	if err := errors.Join(err, k.Close(), one.release()); err != nil {
		return c.fail("run", err)
	}
	return exitOK
}

func (c *call) serve(one *instance, k *kernel.Kernel, log *slog.Logger) error {
	watchdog, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("watchdog", "error", err)
	}
	var a *agent.Agent
	r, err := newRouter(k, c.dirs(), func() { a.Look() }, log)
	if err != nil {
		return err
	}
	if err := unmarkConfigured(c.dirs()); err != nil {
		log.Debug("what a daemon before may have left", "error", err) // the first look tells what is missing
	}
	var proven func()
	r.passive, proven = newGuard(c.config).start(c.dirs(), log)
	a = agent.New(agent.Options{
		Kernel:   r,
		Dirs:     c.dirs(),
		Version:  bareVersion(),
		Log:      log,
		SdNotify: func(state string) { tellManager(state, log) },
		Watchdog: watchdog,
		Vanished: func(err error) bool { return errors.Is(err, kernel.ErrVanished) || errors.Is(err, engine.ErrVanished) },
		Fatal:    func(err error) bool { return errors.Is(err, kernel.ErrPermission) },
	})
	// A signal may come as soon as the pid file is there.
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer stop()
	forward(unix.SIGHUP, func() { r.engines.Reload(); a.Reload() })
	forward(unix.SIGUSR1, a.Look)
	if err := one.writePID(); err != nil {
		return err
	}
	server, err := status.Listen(c.runDir, a, log)
	if err != nil {
		return err
	}
	err = a.Run(ctx)
	if err == nil {
		proven()
	}
	return errors.Join(err, server.Close())
}

// forward calls f at each signal sig, from now on.
func forward(sig os.Signal, f func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, sig)
	go func() {
		for range signals {
			f()
		}
	}()
}

// tellManager speaks to systemd; elsewhere it does nothing.
func tellManager(state string, log *slog.Logger) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("sd_notify", "error", err)
	}
}

// stayThin keeps an idle daemon small and still. The loop is one goroutine,
// so that a second processor would only bring threads that wake each other;
// engine afxdp takes what its workers need while they run.
// A heap of one or two megabytes is collected early instead of at four.
func stayThin() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(40)
	}
}

// logger writes without time stamps, because logd and journald add them.
func (c *call) logger() (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.level)); err != nil {
		return nil, fmt.Errorf("--level %q is not debug, info, warn or error", c.level)
	}
	return slog.New(slog.NewTextHandler(c.stderr, &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey && len(groups) == 0 {
				return slog.Attr{}
			}
			return a
		},
	})), nil
}
