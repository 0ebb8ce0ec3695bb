// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// soaker counts for as long as nobody else wants the CPU, in its own time: the
// CPU is never idle, so the VM's clock counts instructions and nothing else.
// That makes a second of the VM expensive, so it works only while it is wanted.
type soaker struct {
	wanted atomic.Bool
	start  chan struct{}
	rounds atomic.Int64
	cost   float64 // instructions of a round, with its share of the VM's ticks and of our looks
}

// pair is a moment: the clock and the soaker's rounds so far.
type pair struct {
	at     time.Time
	rounds int64
}

func (s *soaker) now() pair { return pair{time.Now(), s.rounds.Load()} }

// busy is what others executed between two moments.
func (s *soaker) busy(from, to pair) float64 {
	return float64(to.at.Sub(from.at).Nanoseconds()) - float64(to.rounds-from.rounds)*s.cost
}

// startSoaker must be called before there are packets.
func startSoaker() (*soaker, error) {
	s, failed := &soaker{start: make(chan struct{})}, make(chan error, 1)
	go s.run(failed)
	if err := <-failed; err != nil {
		return nil, err
	}
	s.begin()
	defer s.end()
	from := s.now()
	for range 100 {
		pause()
		look()
	}
	to := s.now()
	s.cost = float64(to.at.Sub(from.at).Nanoseconds()) / float64(to.rounds-from.rounds)
	return s, nil
}

func (s *soaker) begin() {
	s.wanted.Store(true)
	s.start <- struct{}{}
}

func (s *soaker) end() { s.wanted.Store(false) }

func (s *soaker) run(failed chan<- error) {
	runtime.LockOSThread()
	param := struct{ priority int32 }{}
	const schedIdle = 5 // SCHED_IDLE, include/uapi/linux/sched.h
	_, _, errno := unix.RawSyscall(unix.SYS_SCHED_SETSCHEDULER, 0, schedIdle, uintptr(unsafe.Pointer(&param)))
	if errno != 0 {
		failed <- fmt.Errorf("SCHED_IDLE: %w", errno)
		return
	}
	failed <- nil
	for range s.start {
		for s.wanted.Load() {
			for range 100 { // a round
				spin.Add(1)
			}
			s.rounds.Add(1)
		}
	}
}

var spin atomic.Int64
