// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	gen "fastpath/src/itest/topo/traffic"
)

const streamRate = 500 // packets a second, each way

// stream starts one of small packets at streamRate, and waits until both ways carry it.
func (p *page) stream(s gen.Stream) (*gen.Streaming, error) {
	p.ports++
	s.Port, s.Rate, s.Size = 7000+p.ports, streamRate, 200
	r, err := s.Start(context.Background())
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(time.Minute); r.Down.Packets() < streamRate/5; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			_, _, err := r.End()
			return nil, errors.Join(fmt.Errorf("in a minute %d packets went up and %d came down", r.Up.Packets(), r.Down.Packets()), err)
		}
	}
	return r, nil
}

// steady checks that streams are accelerated, by the slow path's counter.
func (p *page) steady(when string, streams ...*gen.Streaming) error {
	packets := func() (n int64) {
		for _, s := range streams {
			n += s.Up.Packets() + s.Down.Packets()
		}
		return n
	}
	before, err := readCounter(p.net.Router)
	if err != nil {
		return err
	}
	from := packets()
	time.Sleep(2 * time.Second)
	after, err := readCounter(p.net.Router)
	if err != nil {
		return err
	}
	n, slow := packets()-from, after.minus(before).packets
	p.check(float64(slow) < maxSlow*float64(n), "%s: %d of %d packets took the slow path (want less than %.0f %%)", when, slow, n, 100*maxSlow)
	return nil
}
