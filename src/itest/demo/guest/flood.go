// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"fastpath/src/itest/topo"
	"fastpath/src/testkit"
)

// flood is UDP from an unwanted sender at the provider to host1.
type flood struct {
	conn   *net.UDPConn
	router *testkit.Netns
}

// floodBurst is how many packets are on the wire at a time: fewer than a NIC's ring holds.
const floodBurst = 64

// startFlood gives the provider the sender's address and a way to LAN.
func startFlood(n *topo.Net, from string) (*flood, error) {
	if _, err := n.Provider.Sh("ip addr add " + from + "/32 dev lo; ip route replace 192.168.1.0/24 dev pppoe-line"); err != nil {
		return nil, err
	}
	f := &flood{router: n.Router}
	err := n.Provider.Inside(func() (err error) {
		f.conn, err = net.DialUDP("udp4", &net.UDPAddr{IP: net.ParseIP(from)}, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(topo.Host1v4+":9")))
		return err
	})
	return f, err
}

func (f *flood) close() error { return f.conn.Close() }

// send sends so many packets, one burst after the other has come in at the
// router, and returns the VM's time for one. Its CPU is never idle meanwhile: that is
// what sender, wire and router execute.
func (f *flood) send(packets int64) (each time.Duration, err error) {
	came, err := f.received()
	if err != nil {
		return 0, err
	}
	payload := make([]byte, 64)
	start := time.Now()
	for sent := int64(0); sent < packets; sent += floodBurst {
		for range floodBurst {
			// Refused is what an ICMP answer to an earlier packet makes of this one, unsent.
			_, err := f.conn.Write(payload)
			if errors.Is(err, syscall.ECONNREFUSED) {
				_, err = f.conn.Write(payload)
			}
			if err != nil {
				return 0, fmt.Errorf("flood: %w", err)
			}
		}
		for want := came + sent + floodBurst; ; {
			n, err := f.received()
			if err != nil {
				return 0, err
			}
			if n >= want {
				break
			}
			if time.Since(start) > 10*time.Minute {
				return 0, errors.New("flood: its packets don't come in at the router")
			}
		}
	}
	return time.Since(start) / time.Duration(packets), nil
}

// received is what has come in at the router's wan.
func (f *flood) received() (n int64, err error) {
	err = f.router.Inside(func() error {
		text, err := os.ReadFile("/proc/thread-self/net/dev")
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			name, counters, _ := strings.Cut(strings.TrimSpace(line), ":")
			if fields := strings.Fields(counters); name == "wan" && len(fields) > 1 {
				n, err = strconv.ParseInt(fields[1], 10, 64) // packets, behind bytes
			}
		}
		return err
	})
	return n, err
}
