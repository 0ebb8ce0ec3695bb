// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"io"
	"net"
	"time"
)

// echo sends back what it gets, of one TCP connection or of any datagram.
func echo(l net.Listener, p net.PacketConn, end time.Time) {
	if l != nil {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		c.SetDeadline(end)
		io.Copy(c, c)
		return
	}
	p.SetDeadline(end)
	b := make([]byte, 64)
	for {
		n, peer, err := p.ReadFrom(b)
		if err != nil {
			return
		}
		p.WriteTo(b[:n], peer)
	}
}
