// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"net/netip"
)

// gather collects ranges in bounded memory.
type gather struct {
	Sources
	full bool // there were far too many
}

func (g *gather) add(p netip.Prefix) {
	bits := p.Bits()
	if a := p.Addr(); a.Is4() {
		first := a.As4()
		last := first
		fillOnes(last[:], bits)
		if g.V4 = append(g.V4, [2][4]byte{first, last}); len(g.V4) == gathered {
			g.merge()
			g.full = g.full || len(g.V4) > gathered/2
		}
	} else {
		first := a.As16()
		last := first
		fillOnes(last[:], bits)
		if g.V6 = append(g.V6, [2][16]byte{first, last}); len(g.V6) == gathered {
			g.merge()
			g.full = g.full || len(g.V6) > gathered/2
		}
	}
}

func (g *gather) merge() {
	g.V4 = merged(g.V4, func(a, b *[4]byte) int { return bytes.Compare(a[:], b[:]) },
		func(a [4]byte) [4]byte { increment(a[:]); return a })
	g.V6 = merged(g.V6, func(a, b *[16]byte) int { return bytes.Compare(a[:], b[:]) },
		func(a [16]byte) [16]byte { increment(a[:]); return a })
}

// fillOnes sets all bits behind the first n.
func fillOnes(b []byte, n int) {
	for i := n; i < 8*len(b); i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
}

func increment(b []byte) {
	for i := len(b) - 1; i >= 0; i-- {
		if b[i]++; b[i] != 0 {
			return
		}
	}
}
